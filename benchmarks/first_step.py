"""How long `train gpt` takes from Enter to the end of its first step, in several new processes; and
until the data is read, and until Lightning is imported and the model is built.

    python -m benchmarks.first_step notes.txt
    python -m benchmarks.first_step notes.txt --rounds 9
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import describe

MOMENTS = {"data: ": "data read", "model: ": "model built", "step 1/20 ": "first step"}


def moments(text: Path, folder: Path) -> dict[str, float]:
    """Seconds from the start of the process to the first line that begins with each key."""
    command = [sys.executable, "-m", "glassformer", "train", "gpt", "--data", str(text), "--force"]
    # In a log, a line for each twentieth of the training is shown; validation comes after the last.
    steps = ("--max-steps", "20", "--set", "training.eval_steps=20", "--out", str(folder / "run"))
    found: dict[str, float] = {}
    begin = time.perf_counter()
    with subprocess.Popen([*command, *steps], stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            for start, name in MOMENTS.items():
                if line.startswith(start):
                    found[name] = time.perf_counter() - begin
            if len(found) == len(MOMENTS):
                process.kill()  # the rest of the training is of no interest
                return found
    raise SystemExit(f"the training ended with {process.returncode} before its first step")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("text", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    print(describe())
    with TemporaryDirectory() as folder:
        moments(given.text, Path(folder))  # measures the machine if need be, and fills the caches
        rounds = [moments(given.text, Path(folder)) for _ in range(given.rounds)]
    for name in MOMENTS.values():
        times = [found[name] for found in rounds]
        print(f"{name:12} {statistics.median(times):5.2f} s (slowest {max(times):5.2f} s)")


if __name__ == "__main__":
    main()
