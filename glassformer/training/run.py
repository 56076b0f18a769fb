"""The story of a run, from a recipe to a model.

    begin     read the data, choose what the recipe leaves open, and write it all down
    train_on  train from the last saved state to the end, keeping the best model on the way
    tested    evaluate the best model once, on data that had no part in training it

Everything before the first step needs no Lightning: a mistake in the data is reported at once, not
after seconds of importing.
"""

from importlib.util import find_spec
from typing import TextIO

from glassformer.errors import GlassformerError
from glassformer.runtime.host import Setup
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Say
from glassformer.training.final_test import tested
from glassformer.training.fit_at_once import fit_at_once
from glassformer.training.lightning_import import import_fit
from glassformer.training.machine import use_machine
from glassformer.training.outcome import Outcome
from glassformer.training.preparation import prepare, prepared
from glassformer.training.progress import Progress
from glassformer.training.resume_changes import essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import within_time_limit
from glassformer.wording import install


def train(recipe: Recipe, run: RunFolder, stream: TextIO) -> Outcome:
    """Begin a run and see it through."""
    begin(recipe, run, Progress(stream, 1).say)
    return resume(run, stream)


def begin(recipe: Recipe, run: RunFolder, say: Say) -> None:
    """Set up a run: its data, its preprocessing, and the recipe with every choice made.

    An older run in its place is deleted only when the new one is set up.
    """
    if "wandb" in recipe.training.report_to and find_spec("wandb") is None:
        raise GlassformerError(f"report_to wandb needs a package. Run {install('wandb')}.")
    with run.begin() as folder:
        ready = prepare(recipe, folder, say)
        setup = use_machine(recipe, say)
        objective = within_time_limit(ready, setup, say)
        RunFolder(folder).write_recipe(_with_machine(objective.recipe, setup))


def resume(run: RunFolder, stream: TextIO) -> Outcome:
    """Continue from the last saved state of a run, or from its beginning if there is none."""
    outcome = _finished(run) if run.is_finished() else train_on(run, stream)
    return tested(outcome, stream)


def train_on(run: RunFolder, stream: TextIO, until: int | None = None) -> Outcome:
    """Train from the last good state; `until` is a step to save and stop at before the end."""
    if task_of(run.recipe().model_name).fit is not None:
        return fit_at_once(run, stream)
    fit = import_fit()  # here, because Lightning takes seconds to import
    return fit(run, stream, until)


def _with_machine(recipe: Recipe, setup: Setup) -> Recipe:
    """A run keeps the machine's settings, whatever they would be when it continues."""
    chosen = {
        "device": setup.device,
        "precision": setup.precision,
        "num_threads": setup.threads,
    }
    training = recipe.training.model_copy(update=chosen)
    return recipe.model_copy(update={"training": training})


def _finished(run: RunFolder) -> Outcome:
    """The outcome of a run with nothing left to do."""
    recipe, (step, _) = run.recipe(), run.last_good_step()
    run.check_recipe(step, essence(recipe))
    if gone := run.lost():
        raise GlassformerError(
            f"{run.path} is finished, but its {gone[0]} is missing. Train it again with --force: "
            "the same recipe gives the same model."
        )
    standing = run.standing(step)
    return Outcome(
        folder=run.path,
        step=step,
        max_steps=recipe.decided.max_steps,
        best=standing["best"],
        best_step=standing["best_step"],
        stopped_by=None,
        stopped_early=step < recipe.decided.max_steps,
        objective=prepared(recipe, run.path),
        is_old=True,
    )
