"""What share of a training is spent on saving its state, at the default interval?

python -m benchmarks.saving tinyshakespeare.txt
"""

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import describe
from glassformer.training import loop
from glassformer.training import run as story
from glassformer.training.preparation import make_recipe
from glassformer.training.progress import RunLog
from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder

STEPS = 150


def main() -> None:
    spent = 0.0

    def clocked(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal spent
            start = time.perf_counter()
            result = work(*args, **kwargs)
            spent += time.perf_counter() - start
            return result

        return call

    for owner, name in ((loop, "save_state"), (RunLog, "sync"), (RunFolder, "prune")):
        setattr(owner, name, clocked(getattr(owner, name)))
    recipe = make_recipe(
        {
            "model": {"name": "gpt", "preset": "modern-xs"},
            "data": {"paths": [sys.argv[1]]},
            "training": {"max_steps": STEPS},
        }
    )
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        story.begin(recipe, run, io.StringIO())
        start = time.perf_counter()
        fit(run, io.StringIO())
        whole = time.perf_counter() - start
    print(describe())
    print(f"{STEPS} steps: {spent:.2f} s of {whole:.1f} s spent on saving, {spent / whole:.1%}")


if __name__ == "__main__":
    main()
