"""Small runs to disturb, and how to compare them."""

import io
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.utils.tensorboard.writer  # noqa: F401 (like all else, once, before the forks)

import glassformer.training.loop  # noqa: F401 (the same)
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.command import continue_model
from glassformer.training.preparation import make_recipe
from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "it")


def small_recipe(folder: Path, **training: Any) -> Recipe:
    """A model of a few thousand weights, with dropout, accumulation, Muon and a running mean."""
    draw = random.Random(0)
    notes = folder / "notes.txt"
    notes.write_text("".join(" ".join(draw.choices(WORDS, k=8)) + ".\n" for _ in range(140)))
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 16, "dropout": 0.2}
    steps = {"max_steps": 40, "eval_steps": 4, "save_steps": 3, "logging_steps": 5, "ema": 0.9}
    batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    machine = {"device": "cpu", "precision": "float32", "num_threads": 1}
    return make_recipe(
        {
            "model": {"name": "gpt", **sizes},
            "data": {"paths": [str(notes)]},
            "training": steps | batch | machine | training,
        }
    )


def further_recipe(folder: Path, recipe: Recipe) -> Recipe:
    """The same training once more, from the model that it gives, with LoRA."""
    first = begun(recipe.with_training(max_steps=4), folder / "first")
    finished(first)
    values = recipe.model_dump(mode="json")
    start = {"model": str(first.path), "head": "kept", "lora": True, "lora_dropout": 0.1}
    kept = {key: values[key] for key in ("data", "training")}
    return make_recipe(continue_model(kept | {"finetune": start}, {}))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file by name, but for TensorBoard's, whose names and contents depend on the time."""
    files = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in files if not path.name.startswith("events.out"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def begun(recipe: Recipe, folder: Path) -> RunFolder:
    """A run that is set up and has taken no step."""
    run = RunFolder(folder)
    in_child(lambda: story.begin(recipe, run, io.StringIO()))
    return run


def copied(run: RunFolder, folder: Path) -> RunFolder:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run.path, folder)
    return RunFolder(folder)


def finished(run: RunFolder) -> dict[str, bytes]:
    """What the run leaves when it is no longer disturbed."""
    code = in_child(lambda: fit(run, io.StringIO()))
    if code:
        raise RuntimeError(f"{run.path} cannot be finished: exit code {code}")
    return contents(run.path)


def in_child(work: Callable[[], Any], torment: Callable[[int], None] | None = None) -> int:
    """Do `work` in a fork of this process while `torment` does what it likes to that; how it
    ended: an exit code, or a signal as a negative number."""
    process = started(work)
    if torment is not None:
        torment(process)
    return waited(process)


def started(work: Callable[[], Any], log: Path = Path(os.devnull)) -> int:
    """A fork of this process that does `work` and prints into `log`.

    A fork starts at once, where a new process would import for seconds. That is safe as long as
    this process has not computed anything itself: torch's threads would not live in the fork.
    """
    process = os.fork()
    if process == 0:
        code = 70
        try:
            with log.open("w") as stream:
                sys.stdout = sys.stderr = stream
                work()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            os._exit(code)
    return process


def waited(process: int) -> int:
    """How a process ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
