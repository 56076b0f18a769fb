"""The beginning of a run: all that comes before the first step, and needs no Lightning.

So a mistake in the data is told at once, and not after seconds of importing.
"""

from importlib.util import find_spec
from typing import TextIO

from glassformer.errors import GlassformerError
from glassformer.runtime import Setup
from glassformer.runtime import prepare as prepare_machine
from glassformer.runtime.host import silently
from glassformer.training.outcome import Outcome
from glassformer.training.prepare import prepare, prepared
from glassformer.training.progress import Progress
from glassformer.training.recipe import Recipe, essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.sections import TrainingConfig
from glassformer.training.speed import seconds_of_training, seconds_per_step
from glassformer.training.tasks import Say, Task
from glassformer.wording import clock, counted, install

RESERVE = 0.1  # of a time limit: for saving, and for steps slower than those that were measured
SETTING_UP = 5.0  # seconds until the first step
FEW = 50  # steps in which nothing much is learned


def begin(recipe: Recipe, run: RunFolder, say: Say) -> None:
    """Set up a run: tokens, tokenizer, and the recipe with every choice made.

    A run that is there already goes when the new one is set up.
    """
    if "wandb" in recipe.training.report_to and find_spec("wandb") is None:
        raise GlassformerError(f"report_to wandb needs a package. Run {install('wandb')}.")
    with run.begin() as folder:
        ready = prepare(recipe, folder, say)
        setup = use_machine(recipe, say)
        if recipe.training.time_limit is not None:
            model = ready.build().to(setup.device)
            ready = within_time_limit(ready, seconds_per_step(ready, setup, model))
            say(_plan(ready.recipe.decided.max_steps, recipe.training.time_limit))
        chosen = {
            "device": setup.device,
            "precision": setup.precision,
            "num_threads": setup.threads,
        }
        training = ready.recipe.training.model_copy(update=chosen)
        RunFolder(folder).write_recipe(ready.recipe.model_copy(update={"training": training}))


def _plan(steps: int, limit: float) -> str:
    plan = f"time limit: {counted(steps, 'step')} planned for {clock(limit)}"
    if steps < FEW:
        plan += "; that is very little: give it more time, or a smaller --preset"
    return plan


def train(recipe: Recipe, run: RunFolder, stream: TextIO) -> Outcome:
    """Begin a run and see it through."""
    begin(recipe, run, Progress(stream, 1).say)
    return resume(run, stream)


def resume(run: RunFolder, stream: TextIO) -> Outcome:
    """Go on from the last saved state of a run, or from its beginning if there is none."""
    if run.is_finished():
        return _finished(run)
    from glassformer.training.fit import fit  # here, because Lightning takes seconds to import

    return fit(run, stream)


def _finished(run: RunFolder) -> Outcome:
    recipe, (step, _) = run.recipe(), run.last_good_step()
    run.check_recipe(step, essence(recipe))
    if gone := run.lost():
        raise GlassformerError(
            f"{run.path} is finished, and its {gone[0]} is gone. --force trains it again: the same "
            "recipe gives the same model."
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
        task=prepared(recipe, run.path),
        is_old=True,
    )


def within_time_limit(ready: Task, seconds_per_step: float) -> Task:
    """With fewer steps, if the recipe has a time limit that demands it. What depends on the number
    of steps follows; so the learning rate has come down when the time is over."""
    limit = ready.recipe.training.time_limit
    if limit is None:
        return ready
    for _ in range(3):  # fewer steps may mean fewer validations, and those take time, too
        needed = seconds_of_training(ready, seconds_per_step)
        share = (1 - RESERVE) * max(0.0, limit - SETTING_UP) / needed
        steps = max(1, int(ready.recipe.decided.max_steps * min(1.0, share)))
        ready = ready.with_steps(steps)
    return ready


def use_machine(recipe: Recipe, say: Say = silently) -> Setup:
    """Put the recipe's device, precision and threads into force; what is open is chosen."""
    said = recipe.training
    return prepare_machine(
        threads=said.num_threads,
        precision=None if said.precision == "auto" else said.precision,
        device=None if said.device == "auto" else said.device,
        notify=say,
    )


def bytes_per_parameter(config: TrainingConfig) -> int:
    """In training: weight, gradient, at most two averages and perhaps the running mean."""
    return 20 if config.ema else 16
