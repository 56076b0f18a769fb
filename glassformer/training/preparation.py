"""From files to data that a training can read, and a recipe without gaps; and the machine for it.

files → read → size of the model → write, cut for that model → steps, learning rate …
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.atomic_files import check_folder, new_folder
from glassformer.models import row
from glassformer.runtime.host import Setup, silently
from glassformer.runtime.host import prepare as prepare_machine
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Dataset, Objective, Say
from glassformer.training.defaults import gentler, with_model, with_training
from glassformer.training.finetuning import settled

DATA = "data"  # in a run's folder


@dataclass(frozen=True)
class Prepared:
    """Data in a folder, and the recipe, whose training section may still have gaps."""

    sized: Recipe
    dataset: Dataset

    def objective(self) -> Objective:
        """What to learn, with every choice made."""
        task = task_of(self.sized.model_name)
        habits = replace(task.habits(self.sized), **row(self.sized.model_name).habits)
        habits = gentler(habits, self.sized.start)
        recipe = with_training(self.sized, self.dataset, habits)
        return task.objective(recipe, self.dataset)


def prepare(recipe: Recipe, folder: Path, say: Say) -> Prepared:
    """Read the data, write it to `folder`/data, and choose the size of the model."""
    task = task_of(recipe.model_name)
    recipe = settled(recipe)
    if recipe.start is not None:
        say(f"starting from {', '.join(recipe.start.lineage)}")
    with new_folder(folder / DATA) as data:
        source = task.read(recipe, data, say)
        recipe = with_model(recipe, source)
        source.write(data, recipe, say)
        source.preprocessing.save(data)
    return Prepared(recipe, task.dataset(folder / DATA, recipe))


def prepared(recipe: Recipe, folder: Path) -> Objective:
    """What `prepare` left in `folder`, for a run with a complete recipe."""
    check_folder(folder / DATA, cure="To start over, train it again with --force.")
    task = task_of(recipe.model_name)
    return task.objective(recipe, task.dataset(folder / DATA, recipe))


@contextmanager
def rehearsed(recipe: Recipe, say: Say = silently) -> Iterator[Prepared]:
    """As `prepare`, for a dry run: nothing is left behind."""
    with TemporaryDirectory(prefix="glassformer-") as folder:
        yield prepare(recipe, Path(folder), say)


def use_machine(recipe: Recipe, say: Say = silently) -> Setup:
    """Apply the recipe's device, precision and threads. What is open is chosen when a run begins,
    and stays the same whenever it continues."""
    given = recipe.training
    return prepare_machine(
        threads=given.num_threads,
        precision=None if given.precision == "auto" else given.precision,
        device=None if given.device == "auto" else given.device,
        width=recipe.model.get("d_model"),
        notify=say,
        processes=given.devices,
    )
