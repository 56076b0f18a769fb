"""From files to a task that is ready to be trained on, in a run's folder or for a rehearsal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.checkpoint.atomic import check_folder
from glassformer.runtime.host import silently
from glassformer.training.recipe import Recipe
from glassformer.training.tasks import Say, Task, task_of
from glassformer.training.tasks.task import DATA


def prepare(recipe: Recipe, folder: Path, say: Say) -> Task:
    """Read the data, write it to `folder`/data, complete the recipe."""
    return task_of(recipe).prepare(recipe, folder, say)


def prepared(recipe: Recipe, folder: Path) -> Task:
    """What `prepare` left in `folder`, for a run that goes on."""
    check_folder(folder / DATA, cure="Train it anew with --force.")
    return task_of(recipe).open(recipe, folder)


@contextmanager
def rehearsed(recipe: Recipe, say: Say = silently) -> Iterator[Task]:
    """As `prepare`, for a dry run: nothing is left behind."""
    with TemporaryDirectory(prefix="glassformer-") as folder:
        yield prepare(recipe, Path(folder), say)
