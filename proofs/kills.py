"""Kill a training again and again, at any moment; what it leaves in the end must be what an
undisturbed training leaves, to the last bit.

    python -m proofs.kills 200
    python -m proofs.kills 50 from        # of a training that continues another model
"""

import io
import os
import random
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder
from proofs.runs import begun, copied, finished, further_recipe, in_child, small_recipe


def prove(number: int, continues: bool = False, seed: int = 0) -> str:
    """Kill `number` times. A run that ends before that is compared, and a new one started."""
    draw = random.Random(seed)
    kills = runs = 0
    steps: set[int] = set()
    with TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        recipe = small_recipe(folder)
        if continues:
            recipe = further_recipe(folder, recipe)
        fresh = begun(recipe, folder / "fresh")
        start = time.perf_counter()
        expected = finished(copied(fresh, folder / "straight"))
        whole = time.perf_counter() - start
        while kills < number:
            run = copied(fresh, folder / "killed")
            runs += 1
            while kills < number and _is_killed(run, after=draw.uniform(0, whole)):
                kills += 1
                steps.add(run.last_step())
            found = finished(run)
            if found != expected:
                names = [name for name in found | expected if found.get(name) != expected.get(name)]
                raise SystemExit(f"kill {kills}, run {runs}: {', '.join(names)} differ")
    if number >= 25 and len(steps) < 5:  # of few, chance may place all at the beginning
        raise SystemExit(f"the kills came too early: only at {sorted(steps)}")
    return f"{kills} kills in {runs} runs, {len(steps)} different steps resumed from: identical"


def _is_killed(run: RunFolder, after: float) -> bool:
    """Train for `after` seconds, then kill; False if the training was done before."""

    def kill(process: int) -> None:
        time.sleep(after)
        os.kill(process, signal.SIGKILL)

    code = in_child(lambda: fit(run, io.StringIO()), kill)
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"the training ended with {code} before it was killed")
    return code != 0


if __name__ == "__main__":
    print(prove(int(sys.argv[1]), continues=sys.argv[2:] == ["from"]))
