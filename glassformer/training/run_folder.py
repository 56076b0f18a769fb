"""A run on disk.

runs/gpt-notes/
  recipe.yaml            everything that decided the training
  data/                  the text as tokens, and the tokenizer
  metrics.csv            losses by step
  samples.txt            what the model wrote on the way
  test.json              what the best model is worth on test data, if there is any
  events.out.tfevents…   the same curves for TensorBoard
  checkpoints/step-N/    all that is needed to go on from step N
  config.json, model.safetensors, tokenizer.json, README.md …
                         the best model so far: a folder for every verb
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.checkpoint.atomic import (
    MANIFEST,
    check_folder,
    explained,
    sync,
    take_place,
    write_file,
)
from glassformer.checkpoint.folder import CONFIG, TOKENIZER, WEIGHTS
from glassformer.checkpoint.state import load_values
from glassformer.config import Values, read_yaml, write_yaml
from glassformer.errors import GlassformerError
from glassformer.training.recipe import RECIPE, Recipe, in_words, make_recipe, refused

STEP = re.compile(r"step-(\d+)")
PARTS = re.compile(
    r"recipe\.yaml|data|data/((train|validation)\.(bin|safetensors|jsonl)|test\.(jsonl|npz)"
    r"|(data|manifest|(target_)?tokenizer)\.json)|test\.json"
    r"|metrics\.csv|samples\.txt|events\.out\.tfevents\..*|checkpoints"
    r"|config\.json|model\.safetensors|(target_)?tokenizer\.json|generation_config\.json|README\.md"
    r"|\..*\.(partial|old)|\.DS_Store"
)


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
        after it. Training from there makes the damaged ones anew."""
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
        """Has it made all its steps, or stopped because it no longer became better?"""
        config = self.recipe().training
        if self.last_step() != config.max_steps and config.early_stopping is None:
            return False  # known without reading all of the state
        step, _ = self.last_good_step()
        if not step or config.early_stopping is None:
            return step == config.max_steps
        stale: int = self.standing(step)["stale"]
        return step == config.max_steps or stale >= config.early_stopping

    def standing(self, step: int) -> dict[str, Any]:
        """What the undamaged state of `step` says of the run: its recipe, its best loss …"""
        found: dict[str, Any] = load_values(self.checkpoint(step))["callbacks"]["Steward"]
        return found

    def check_recipe(self, step: int, now: Values) -> None:
        """Raise if the state of `step` was trained with a recipe that gives other models."""
        before = self.standing(step)["recipe"]
        changed = [(key, before.get(key), now[key]) for key in now if before.get(key) != now[key]]
        if wrong := refused(changed, self.is_forced):
            raise GlassformerError(
                f"{self.path / RECIPE} is not the recipe that was trained with: "
                f"{in_words(wrong)}. Change it back."
            )

    def missing(self) -> str:
        """In words, why there is no run here."""
        if not self.path.exists():
            return f"{self.path} does not exist."
        if not self.path.is_dir():
            return f"{self.path} is a file, not a run's folder."
        return f"{self.path} holds no run: there is no {RECIPE} in it."

    def lost(self) -> list[str]:
        """Those files of a run that has validated which are no longer there."""
        names = [CONFIG, WEIGHTS, "metrics.csv", "samples.txt"]
        if (self.path / "data" / TOKENIZER).is_file():  # a model that reads numbers has none
            names.append(TOKENIZER)
        return [name for name in names if not (self.path / name).is_file()]

    def forget_after(self, step: int) -> None:
        """Delete the states of later steps: the training makes them anew."""
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
            raise GlassformerError(f"{self.path} is a file, not a folder. Say another --out.")
        names = [entry.name for entry in self.path.iterdir()]
        data = self.path / "data"
        names += [f"data/{entry.name}" for entry in (data.iterdir() if data.is_dir() else ())]
        if foreign := [name for name in names if not PARTS.fullmatch(name)]:
            what = f"and holds {foreign[0]}, which is no part of a run"
        elif names and f"data/{MANIFEST}" not in names:
            what = "and is no run"
        else:
            return
        raise GlassformerError(f"{self.path} exists {what}. Say another --out.")
