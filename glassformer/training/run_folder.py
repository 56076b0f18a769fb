"""A run on disk.

runs/gpt-notes/
  recipe.yaml            everything that decided the training
  data/                  the text as tokens, and the tokenizer
  metrics.csv            losses by step
  samples.txt            what the model wrote on the way
  test.json              scores of the best model on test data, if there is any
  events.out.tfevents…   the same curves for TensorBoard
  checkpoints/step-N/    all that is needed to continue from step N
  config.json, model.safetensors, tokenizer.json, README.md …
                         the best model so far: a folder for every verb
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.atomic_files import (
    MANIFEST,
    check_folder,
    explained,
    files_beside_manifest,
    sync,
    take_place,
    write_file,
)
from glassformer.checkpoint.model_folder import CONFIG, WEIGHTS, file_names
from glassformer.checkpoint.training_state import load_values
from glassformer.config import Values, read_yaml, write_yaml
from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import RECIPE, Recipe
from glassformer.training.recipes import make_recipe
from glassformer.training.resume_changes import in_words, refused

STEP = re.compile(r"step-(\d+)")
PARTS = re.compile(
    r"recipe\.yaml|data|test\.json|metrics\.csv|samples\.txt|events\.out\.tfevents\..*|checkpoints"
    r"|\..*\.(partial|old)|\.DS_Store"
)
STANDING = "standing"  # in a state: what a run knows about itself besides weights and optimizer


class RunFolder:
    """Where one training lives."""

    def __init__(self, path: Path, is_forced: bool = False) -> None:
        self.path = path
        self.is_forced = is_forced
        """May its recipe differ from the one that its states were trained with?"""

    @property
    def exists(self) -> bool:
        """Has a training begun here? The recipe is the last thing written before it does."""
        return (self.path / RECIPE).is_file()

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, folder), oldest first."""
        parent = self.path / "checkpoints"
        folders = parent.iterdir() if parent.is_dir() else ()
        found = [(STEP.fullmatch(folder.name), folder) for folder in folders]
        return sorted((int(match[1]), folder) for match, folder in found if match)

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def last_step(self) -> int:
        found = self.checkpoints()
        return found[-1][0] if found else 0

    def last_good_step(self) -> tuple[int, list[str]]:
        """The last step whose state is undamaged (0: the beginning), and what is wrong with those
        after it. Training from there replaces the damaged ones."""
        problems = []
        for step, folder in reversed(self.checkpoints()):
            try:
                check_folder(folder)
            except GlassformerError as error:
                problems.append(str(error))
            else:
                return step, problems
        return 0, problems

    def is_finished(self) -> bool:
        """Has it made all its steps, or stopped early because it did not improve?"""
        config = self.recipe().training
        if self.last_step() != config.max_steps and config.early_stopping is None:
            return False  # known without reading all of the state
        step, _ = self.last_good_step()
        if not step or config.early_stopping is None:
            return step == config.max_steps
        stale: int = self.standing(step)["stale"]
        return step == config.max_steps or stale >= config.early_stopping

    def standing(self, step: int) -> dict[str, Any]:
        """What the undamaged state of `step` holds about the run: its recipe, its best loss …"""
        found: dict[str, Any] = load_values(self.checkpoint(step))["callbacks"][STANDING]
        return found

    def check_recipe(self, step: int, now: Values) -> None:
        """Raise if the state of `step` was trained with a recipe that gives other models."""
        before = self.standing(step)["recipe"]
        changed = [
            (key, before.get(key), now.get(key))
            for key in before | now
            if before.get(key) != now.get(key)
        ]
        if wrong := refused(changed, self.is_forced):
            raise GlassformerError(
                f"{self.path / RECIPE} is not the recipe that the run was trained with: "
                f"{in_words(wrong)}. Change it back."
            )

    def missing(self) -> str:
        """In words, why there is no run here."""
        if not self.path.exists():
            return f"{self.path} does not exist."
        if not self.path.is_dir():
            return f"{self.path} is a file, not a run folder."
        return f"{self.path} contains no run: there is no {RECIPE} in it."

    def lost(self) -> list[str]:
        """Those files of a run that has validated which are no longer there."""
        names = [CONFIG, WEIGHTS, "metrics.csv", "samples.txt"]
        beside = [name for name in file_names() if (self.path / "data" / name).is_file()]
        return [name for name in (*names, *sorted(beside)) if not (self.path / name).is_file()]

    def forget_after(self, step: int) -> None:
        """Delete the states of later steps: the training will write them again."""
        for later, folder in self.checkpoints():
            if later > step:
                shutil.rmtree(folder)

    def prune(self, keep: int, every: int = 1) -> None:
        """Keep the last states that were due, and the newest, due or not."""
        *older, _ = self.checkpoints()
        for step, folder in older:
            if step % every:  # from a stop in between
                shutil.rmtree(folder)
        for _, folder in self.checkpoints()[:-keep]:
            shutil.rmtree(folder)
        for left_by_a_kill in (self.path / "checkpoints").glob(".step-*"):
            shutil.rmtree(left_by_a_kill)

    def recipe(self) -> Recipe:
        values, lines = read_yaml(self.path / RECIPE)
        return make_recipe(values, str(self.path / RECIPE), lines)

    def write_recipe(self, recipe: Recipe) -> None:
        write_file(self.path / RECIPE, write_yaml(recipe))

    def refuse_to_overwrite(self) -> None:
        """Raise if there is a run here already."""
        if not self.exists:
            return
        if self.is_finished():
            raise GlassformerError(
                f"{self.path} already contains a finished run. Use --force to start over, or "
                "choose another --out."
            )
        raise GlassformerError(
            f"{self.path} already contains a run (stopped at step {self.last_step():,}). Use "
            "--resume to continue it, --force to start over, or choose another --out."
        )

    @contextmanager
    def begin(self) -> Iterator[Path]:
        """A folder in which to set up a run. It takes its place when the block ends without an
        error, and only then does an older run go; if it fails, nothing half-written remains."""
        older = self.path.with_name(f".{self.path.name}.old")
        if older.exists() and not self.path.exists():
            older.rename(self.path)  # a kill came between the two renames below
        self._check_it_may_go()
        partial = self.path.with_name(f".{self.path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        parents = [parent for parent in self.path.parents if not parent.exists()]
        try:
            with explained(self.path):
                partial.mkdir(parents=True)
            yield partial
            with explained(self.path):
                take_place(partial, self.path)
                sync(self.path.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            for parent in parents:
                with suppress(OSError):  # another run may have come to stand there
                    parent.rmdir()
            raise

    def _check_it_may_go(self) -> None:
        """Only a run, a begun one, or an empty folder is ever deleted."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise GlassformerError(f"{self.path} is a file, not a folder. Choose another --out.")
        names = [entry.name for entry in self.path.iterdir()]
        known = file_names()
        foreign = [name for name in names if name not in known and not PARTS.fullmatch(name)]
        data = self.path / "data"
        foreign += [f"data/{name}" for name in files_beside_manifest(data)]
        if foreign:
            what = f"and contains {foreign[0]}, which is not part of a run"
        elif names and not (data / MANIFEST).is_file():
            what = "and is not a run"
        else:
            return
        raise GlassformerError(f"{self.path} exists {what}. Choose another --out.")
