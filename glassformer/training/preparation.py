"""From files to data that a training can read, and a recipe without gaps; and the machine for it.

files → read → size of the model → write, cut for that model → steps, learning rate …
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.atomic_files import check_folder, new_folder
from glassformer.models import row
from glassformer.runtime.host import Setup, silently
from glassformer.runtime.host import prepare as prepare_machine
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective, Say
from glassformer.training.defaults import gentler, with_model, with_training
from glassformer.training.finetuning import with_start

DATA = "data"  # in a run's folder


def prepare(recipe: Recipe, folder: Path, say: Say) -> Objective:
    """Read the data, write it to `folder`/data, and make every choice that the recipe leaves
    open."""
    task = task_of(recipe.model_name)
    recipe = with_start(recipe)
    if recipe.start is not None:
        say(f"starting from {', '.join(recipe.start.lineage)}")
    with new_folder(folder / DATA) as data:
        source = task.read(recipe, data, say)
        recipe = with_model(recipe, source)
        source.write(data, recipe, say)
        source.preprocessing.save(data)
    dataset = task.dataset(folder / DATA, recipe)
    habits = replace(task.habits(recipe), **row(recipe.model_name).habits)
    recipe = with_training(recipe, dataset, gentler(habits, recipe.start))
    return task.objective(recipe, dataset)


def prepared(recipe: Recipe, folder: Path) -> Objective:
    """What `prepare` left in `folder`, for a run with a complete recipe."""
    check_folder(folder / DATA, cure="To start over, train it again with --force.")
    task = task_of(recipe.model_name)
    return task.objective(recipe, task.dataset(folder / DATA, recipe))


@contextmanager
def rehearsed(recipe: Recipe, say: Say = silently) -> Iterator[Objective]:
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
