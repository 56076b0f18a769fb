"""How long `glassformer --help` takes: the median of several runs, each a new process."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.machine import describe

ROUNDS = 11


def main() -> None:
    command = [str(Path(sys.executable).with_name("glassformer")), "--help"]
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    print(describe())
    print(f"glassformer --help: {statistics.median(times):.3f} s (slowest {max(times):.3f} s)")


if __name__ == "__main__":
    main()
