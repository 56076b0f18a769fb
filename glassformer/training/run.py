"""The story of a run, from a recipe to a model.

    begin     read the data, choose what the recipe leaves open, and write it all down
    train_on  train from the last saved state to the end, keeping the best model on the way
    tested    evaluate the best model once, on data that had no part in training it
    reported  write a page about the run

Reading the data needs no Lightning: a mistake in it is reported at once, not after seconds of
importing.
"""

import gc
import io
import math
import time
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from glassformer.atomic_files import damage, write_json
from glassformer.checkpoint.model_folder import GENERATION, load_model, save_model
from glassformer.checkpoint.open import located, open_generation
from glassformer.checkpoint.replaceable import check_kept
from glassformer.checkpoint.training_state import save_state
from glassformer.errors import GlassformerError
from glassformer.runtime import processes
from glassformer.runtime.random_seeds import seed_step
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe, TrainingConfig
from glassformer.tasks.task import Fit
from glassformer.training.final_report import reported
from glassformer.training.final_test import tested
from glassformer.training.finetuning import new_model
from glassformer.training.model_card import count_parameters, model_card
from glassformer.training.outcome import Outcome
from glassformer.training.preparation import prepare, prepared, use_machine
from glassformer.training.progress import Waiting
from glassformer.training.resume_changes import essence
from glassformer.training.run_folder import REPORT, RunFolder
from glassformer.training.run_log import RunLog
from glassformer.training.saved_state import SavedStanding, check_best, new_state
from glassformer.training.signals import Interruption, interruptible, without_handlers
from glassformer.training.timing import choose_threads
from glassformer.wording import counted, install

TRAIN, NOTHING = "train", "nothing"  # what the first of several processes tells the others to do


def train(recipe: Recipe, run: RunFolder, stream: TextIO, began: float | None = None) -> Outcome:
    """Begin a run and see it through. A time limit counts from `began`, by time.time."""
    began = time.time() if began is None else began
    begin(recipe, run, stream)
    return resume(run, stream, began)


def begin(recipe: Recipe, run: RunFolder, stream: TextIO) -> None:
    """Set up a run: its data, its preprocessing, and the recipe with every choice made.

    An older run in its place is deleted only when the new one is set up.
    """
    if "wandb" in recipe.training.report_to and find_spec("wandb") is None:
        raise GlassformerError(f"report_to: wandb needs the wandb package. Run {install('wandb')}.")
    if recipe.start is not None:
        check_kept(run.path, Path(str(located(recipe.start.model))))
    with Waiting(stream, "reading the data") as wait:
        if (aside := run.set_aside_if_broken()) is not None:
            wait.say(f"note: {run.path} was broken and was renamed to {aside}")
        with run.begin() as folder:
            if recipe.start is not None and recipe.continues:
                _keep_generation(recipe.start.model, folder)
            RunFolder(folder).write_recipe(_decided(recipe, folder, wait))
            gc.collect()  # closes the memory-mapped data: Windows cannot rename it while it is open


def _keep_generation(source: str, folder: Path) -> None:
    """A model that is trained further keeps its defaults of generation."""
    if defaults := open_generation(source):
        write_json(folder / GENERATION, defaults)


def _decided(recipe: Recipe, folder: Path, wait: Waiting) -> Recipe:
    """The recipe with every choice made, and its data in `folder`. It keeps the machine's settings,
    whatever they would be when the run continues."""
    ready = prepare(recipe, folder, wait.say)
    setup = use_machine(ready.sized, wait.say)
    objective = ready.objective()
    config = objective.config
    wait.now("choosing the number of threads")
    threads = choose_threads(objective, setup)
    if threads < setup.threads:
        wait.say(f"note: {counted(threads, 'thread')} learned faster than {setup.threads} just now")
    if config.replans:  # of a run that is repeated: its steps are known
        config = config.model_copy(update={"time_limit": None})
    return objective.recipe.with_training(
        device=setup.device,
        precision=setup.precision,
        num_threads=threads,
        time_limit=config.time_limit,
    )


def resume(run: RunFolder, stream: TextIO, began: float | None = None) -> Outcome:
    """Continue from the last saved state of a run, or from its beginning if there is none."""
    if run.is_finished():
        processes.announce(NOTHING)
        return _completed(_finished(run), run, stream)
    (run.path / REPORT).unlink(missing_ok=True)  # it would no longer be true
    return _completed(train_on(run, stream, began=began), run, stream)


def _completed(outcome: Outcome, run: RunFolder, stream: TextIO) -> Outcome:
    """The outcome of a training with its test and its page, which a signal ends at once."""
    if outcome.stopped_by is not None:
        return outcome
    try:
        with interruptible():
            outcome = tested(outcome, stream)
            return reported(outcome, run, stream)
    except Interruption as stopped:
        return replace(outcome, stopped_by=stopped.signal)


def train_on(
    run: RunFolder, stream: TextIO, until: int | None = None, began: float | None = None
) -> Outcome:
    """Train from the last good state; `until` is a step to save and stop at before the end, `began`
    the time (of time.time) from which a time limit counts."""
    recipe = run.recipe()
    if (fit_once := task_of(recipe.model_name).fit) is not None:
        return _fit_at_once(run, stream, fit_once)
    if recipe.training.num_processes > 1 and processes.here() is None:
        return launched(run, recipe.training, until, began)
    processes.announce(TRAIN)
    with Waiting(stream, "loading the training library"):
        from glassformer.training.loop import fit  # here: Lightning takes a second to import
    return fit(run, stream, until, began)


def follow(run: RunFolder) -> Outcome:
    """What a process does that torchrun started beside the first one: wait until that one has set
    the run up, and train with it."""
    with without_handlers():
        work = processes.wait()
    if work == NOTHING:
        return _finished(run)
    from glassformer.training.loop import fit

    return fit(run, io.StringIO())


def launched(
    run: RunFolder, config: TrainingConfig, until: int | None = None, began: float | None = None
) -> Outcome:
    """Train in several processes of their own, on this machine and perhaps on others."""
    from glassformer.training.launch import train_in_processes

    stopped_by = train_in_processes(run, config, until, began)
    step, _ = run.last_good_step()
    objective = prepared(run.recipe(), run.path)
    standing = run.standing(step) if step else SavedStanding.at_the_start()
    last = objective.config.last_step
    return Outcome(
        folder=run.path,
        step=step,
        best=standing.best,
        best_step=standing.best_step,
        notes=tuple(standing.notes),
        stopped_by=stopped_by,
        stopped_early=stopped_by is None and until is None and step < last,
        objective=objective,
    )


def _fit_at_once(run: RunFolder, stream: TextIO, fit: Fit) -> Outcome:
    """Train in the task's own way, not by gradient steps; the run then has one state, that of its
    last step."""
    recipe = run.recipe()
    objective = prepared(recipe, run.path)
    setup = use_machine(recipe)
    seed_step(objective.config.seed, 0)
    model, step = new_model(recipe).to(setup.device), objective.config.max_steps
    run.forget_after(0)
    fit(objective, model, stream)
    found = objective.validate(model)
    if not math.isfinite(found.loss):
        raise GlassformerError(f"the validation loss became {found.loss}: the model is not saved.")
    best = objective.columns(found)
    with closing(RunLog(run.path, objective.measures, 0, objective.config.report_to)) as log:
        log.write(step, best)
        log.sample(step, objective.sample(model, step))
        log.sync()
    card = model_card(objective, count_parameters(model), found, step)
    save_model(run.path, model, objective.dataset.preprocessing, card)
    val = best[f"val_{objective.measure}"]
    standing = SavedStanding.at_the_start()
    standing.recipe = essence(recipe, step)
    standing.val, standing.best, standing.best_step = val, best, step
    standing.notes = list(found.notes)
    weights = {"model": model.state_dict(), "averaged": {}}
    save_state(run.checkpoint(step), new_state(step, weights, standing))
    return Outcome(run.path, step, best, step, None, objective=objective, notes=tuple(found.notes))


def _finished(run: RunFolder) -> Outcome:
    """The outcome of a run with nothing left to do."""
    recipe, (step, _) = run.recipe(), run.last_good_step()
    run.check_recipe(step, essence(recipe, step))
    if processes.is_first():
        run.prune(recipe.decided)
    if gone := run.lost():
        raise GlassformerError(
            f"{run.path} is finished, but its {gone[0]} is missing. Train it again with --force: "
            "the same recipe gives the same model."
        )
    try:
        load_model(run.path)
    except GlassformerError as error:
        raise GlassformerError(
            f"{run.path} is finished, but its model is damaged. {error} Or train it again with "
            "--force: the same recipe gives the same model."
        ) from None
    standing, objective = run.standing(step), prepared(recipe, run.path)
    with damage(run.checkpoint(step), run.cure(step)):
        check_best(standing, objective.measures)
    return Outcome(
        folder=run.path,
        step=step,
        best=standing.best,
        best_step=standing.best_step,
        notes=tuple(standing.notes),
        stopped_by=None,
        stopped_early=step < recipe.decided.last_step,
        objective=objective,
        is_old=True,
    )
