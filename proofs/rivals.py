"""Two processes want one run: one trains, the other is told who does, and the folder is whole.

    python -m proofs.rivals 50

Both give the command `train` with the same --out, one a moment after the other, with --force,
--resume or neither; in every third round the first is killed on the way. Whatever happens, resuming
then leaves what an undisturbed training leaves, to the last bit.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.cli.main import main
from glassformer.config import flatten
from proofs.runs import contents, small_recipe, started, waited

SENTENCE = "is being trained by "
TOLD = (SENTENCE, "already contains a")  # by the lock; or later, by the finished run


def prove(number: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    with TemporaryDirectory(prefix="rivals-") as name:
        folder = Path(name)
        begin = time.perf_counter()
        if code := waited(_training(folder / "straight", folder / "log")):
            raise SystemExit(f"an undisturbed training ended with {code}")
        whole = time.perf_counter() - begin
        expected = contents(folder / "straight")
        for round in range(number):
            run = folder / f"run-{round}"
            seen += _fight(run, draw, whole)
            if code := waited(_training(run, folder / "log", "--resume")):
                raise SystemExit(f"round {round}: resuming ended with {code}")
            if contents(run) != expected:
                raise SystemExit(f"round {round}: the result differs")
            if left := [path.name for path in folder.glob(".*")]:
                raise SystemExit(f"round {round}: {left[0]} is left behind")
    if not seen["refused"]:
        raise SystemExit("nobody was refused: the rivals never met")
    return f"{number} rounds: {seen['refused']} refused, {seen['killed']} killed, all identical"


def _fight(run: Path, draw: random.Random, whole: float) -> Counter[str]:
    """One round: how many were refused and killed in it."""
    seen: Counter[str] = Counter()
    first = _training(run, run.with_suffix(".first"))
    time.sleep(draw.uniform(0, 0.7 * whole))
    flags = draw.choice((("--force",), ("--resume",), ()))
    second = _training(run, run.with_suffix(".second"), *flags)
    if draw.random() < 1 / 3:
        time.sleep(draw.uniform(0, 0.3 * whole))
        os.kill(first, signal.SIGKILL)
    for process, log in ((first, ".first"), (second, ".second")):
        code, told = waited(process), run.with_suffix(log).read_text()
        if code not in (0, -signal.SIGKILL) and not any(known in told for known in TOLD):
            raise SystemExit(f"{run.name} {flags}: {log} ended with {code}: {told[-500:]}")
        seen["killed"] += code == -signal.SIGKILL
        seen["refused"] += SENTENCE in told
    return seen


def _training(run: Path, log: Path, *flags: str) -> int:
    """A process that gives the command to train in `run`."""
    recipe = small_recipe(run.parent, report_to=[])
    sections = recipe.model_dump(mode="json", include={"model", "training"}, exclude_none=True)
    keys = [f"{key}={value}" for key, value in flatten(sections) if key != "model.name"]
    words = ["train", "gpt", "--data", *recipe.data_names, "--out", str(run), *flags]

    def work() -> None:
        sys.argv = ["glassformer", *words, *(word for key in keys for word in ("--set", key))]
        main()

    return started(work, log)


if __name__ == "__main__":
    print(prove(int(sys.argv[1])))
