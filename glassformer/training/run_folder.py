"""A run on disk.

runs/gpt-notes/
  recipe.yaml            everything that decided the training
  data/                  the text as tokens
  metrics.csv            losses by step
  samples.txt            what the model wrote on the way
  events.out.tfevents…   the same curves for TensorBoard
  checkpoints/step-N/    all that is needed to go on from step N
  config.json, model.safetensors, tokenizer.json, README.md …
                         the best model so far: a folder for every verb
"""

import re
import shutil
from pathlib import Path

from glassformer.checkpoint.atomic import write_file
from glassformer.config import read_yaml, write_yaml
from glassformer.errors import GlassformerError
from glassformer.training.recipe import Recipe, make_recipe

RECIPE = "recipe.yaml"
STEP = re.compile(r"step-(\d+)")


class RunFolder:
    """Where one training lives."""

    def __init__(self, path: Path) -> None:
        self.path = path

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

    def prune(self, keep: int) -> None:
        for _, folder in self.checkpoints()[:-keep]:
            shutil.rmtree(folder)

    def recipe(self) -> Recipe:
        values, lines = read_yaml(self.path / RECIPE)
        return make_recipe(values, str(self.path / RECIPE), lines)

    def write_recipe(self, recipe: Recipe) -> None:
        write_file(self.path / RECIPE, write_yaml(recipe))

    def clear(self) -> None:
        """Make room for a new run, if what is there is a run or nothing."""
        if not self.path.exists():
            return
        if not self.path.is_dir() or (any(self.path.iterdir()) and not self._is_ours()):
            raise GlassformerError(f"{self.path} exists and is no run. Say another --out.")
        shutil.rmtree(self.path)

    def _is_ours(self) -> bool:
        return self.exists or (self.path / "data" / "data.json").is_file()
