"""Stop a training by SIGTERM at many moments: it must save, exit with 143 within seconds, and
continue to the same bytes.

    python -m proofs.signals 20
"""

import io
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder
from proofs.runs import begun, copied, finished, in_child, small_recipe

PATIENCE = 5.0  # seconds


def prove(number: int) -> str:
    with TemporaryDirectory(prefix="signals-") as name:
        folder = Path(name)
        fresh = begun(small_recipe(folder, max_steps=200, save_steps=50), folder / "fresh")
        start = time.perf_counter()
        expected = finished(copied(fresh, folder / "straight"))
        whole = time.perf_counter() - start
        slowest = 0.0
        for point in range(number):
            run = copied(fresh, folder / "stopped")
            took = _stop(run, after=whole * (0.2 + 0.75 * point / number))
            slowest = max(slowest, took)
            if took > PATIENCE:
                raise SystemExit(f"point {point}: it took {took:.1f} s to end")
            if finished(run) != expected:
                raise SystemExit(f"point {point}: the resumed run differs")
    return f"{number} SIGTERMs: saved, 143, identical; the slowest took {slowest:.2f} s to end"


def _stop(run: RunFolder, after: float) -> float:
    """Train for `after` seconds, then send SIGTERM; the seconds until it ended."""
    sent = 0.0

    def terminate(process: int) -> None:
        nonlocal sent
        time.sleep(after)
        sent = time.perf_counter()
        os.kill(process, signal.SIGTERM)

    code = in_child(lambda: sys.exit(fit(run, io.StringIO()).exit_code), terminate)
    if code != 143 and run.last_step() < run.recipe().decided.max_steps:
        raise SystemExit(f"a training that was stopped after {after:.2f} s ended with {code}")
    return time.perf_counter() - sent


if __name__ == "__main__":
    print(prove(int(sys.argv[1])))
