"""A run, from a recipe to a model.

    train      begin a run and finish it
    begin      read the data, choose what the recipe leaves open, and write it all down
    resume     train from the last saved state; then test the best model and write the report
    train_on   here, in processes of its own (launch), or without gradient steps
    fit        the gradient steps of one process
    follow     what the other processes of torchrun do

Reading the data needs no Lightning: a mistake in it is reported at once, not after seconds of
importing.
"""

import gc
import io
import math
import shutil
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from torch import nn

from glassformer.checkpoint import training_state
from glassformer.checkpoint.model_folder import (
    GENERATION,
    WEIGHTS,
    check_kept,
    load_model,
    save_model,
)
from glassformer.checkpoint.open import located, open_generation
from glassformer.checkpoint.training_state import Standing, load_state, save_state
from glassformer.errors import GlassformerError, enough_memory
from glassformer.files import damage, write_json
from glassformer.machine import processes
from glassformer.machine.host import Setup
from glassformer.machine.seeds import seed_step
from glassformer.models import count_parameters
from glassformer.progress import ProgressLine
from glassformer.tasks import task_of
from glassformer.tasks.recipe import DecidedTraining, Recipe, TrainingConfig
from glassformer.tasks.task import Fit, Objective
from glassformer.training import run_folder
from glassformer.training.finetuning import new_model
from glassformer.training.preparation import load_objective, prepare, use_machine
from glassformer.training.progress import (
    Interruption,
    NoLog,
    Progress,
    RunLog,
    raising_interruption,
    without_handlers,
)
from glassformer.training.report import Outcome, add_test, model_card, write_report
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import TimeLimit, bytes_per_parameter, choose_threads
from glassformer.wording import clock, counted, install, readable_size

if TYPE_CHECKING:
    from glassformer.training.loop import Loop

TRAIN, NOTHING = "train", "nothing"  # what the first of several processes tells the others to do


def train(recipe: Recipe, run: RunFolder, stream: TextIO, began: float | None = None) -> Outcome:
    """Begin a run and see it through. A time limit counts from `began`, by time.time."""
    began = time.time() if began is None else began
    begin(recipe, run, stream)
    return resume(run, stream, began)


@enough_memory("before the first step")
def begin(recipe: Recipe, run: RunFolder, stream: TextIO) -> None:
    """Set up a run: its data, its preprocessing, and the recipe with every choice made.

    An older run in its place is deleted only when the new one is set up.
    """
    if "wandb" in recipe.training.report_to and find_spec("wandb") is None:
        raise GlassformerError(f"report_to: wandb needs the wandb package. Run {install('wandb')}.")
    if recipe.start is not None:
        check_kept(run.path, Path(str(located(recipe.start.model))))
    with ProgressLine(stream, "reading the data …") as line:
        if (aside := run.set_aside_if_broken()) is not None:
            line.write(f"note: {run.path} was broken and was renamed to {aside}")
        with run.begin() as folder:
            start = recipe.start  # a model that is trained further keeps its defaults of generation
            if start and start.continues and (defaults := open_generation(start.model)):
                write_json(folder / GENERATION, defaults)
            RunFolder(folder).write_recipe(_decided(recipe, folder, line))
            gc.collect()  # closes the memory-mapped data: Windows cannot rename it while it is open


def _decided(recipe: Recipe, folder: Path, line: ProgressLine) -> Recipe:
    """The recipe with every choice made, and its data in `folder`. It keeps the machine's settings,
    whatever they would be when the run continues."""
    objective = prepare(recipe, folder, line.write)
    setup = use_machine(objective.recipe, line.write)
    line.show("choosing the number of threads …")
    threads = choose_threads(objective, setup)
    if threads < setup.threads:
        line.write(
            f"note: {counted(threads, 'thread')} learned faster than {setup.threads} just now"
        )
    recipe = objective.recipe.with_training(
        device=setup.device, precision=setup.precision, num_threads=threads
    )
    if recipe.training.replans:  # of a run that is repeated: its steps are known
        recipe = recipe.with_training(time_limit=None)
    return recipe


def resume(run: RunFolder, stream: TextIO, began: float | None = None) -> Outcome:
    """Continue from the last saved state of a run, or from its beginning if there is none."""
    if run.is_finished():
        processes.announce(NOTHING)
        return _completed(_finished(run), run, stream)
    (run.path / run_folder.REPORT).unlink(missing_ok=True)  # it would no longer be true
    return _completed(train_on(run, stream, began=began), run, stream)


def _completed(outcome: Outcome, run: RunFolder, stream: TextIO) -> Outcome:
    """The outcome of a training with its test and its page, which a signal ends at once."""
    if outcome.stopped_by is not None:
        return outcome
    try:
        with raising_interruption():
            outcome = add_test(outcome, stream)
            return write_report(outcome, run, stream)
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
        return launch(run, recipe.training, until, began)
    processes.announce(TRAIN)
    return fit(run, stream, until, began)


def follow(run: RunFolder) -> Outcome:
    """Train in a process that torchrun started beside the first one: wait until the first one has
    set up the run, and join it."""
    with without_handlers():
        work = processes.wait()
    return _finished(run) if work == NOTHING else fit(run, io.StringIO())


def launch(
    run: RunFolder, config: TrainingConfig, until: int | None = None, began: float | None = None
) -> Outcome:
    """Train in several processes of their own, on this machine and perhaps on others."""
    from glassformer.training.launch import train_in_processes

    stopped_by = train_in_processes(run, config, until, began)
    state, _ = run.last_good_state()
    step, standing = (state.step, state.standing) if state else (0, Standing.at_the_start())
    objective = load_objective(run.recipe(), run.path)
    is_short = step < objective.config.last_step
    stopped_early = stopped_by is None and until is None and is_short
    return Outcome(run.path, step, standing, objective, stopped_by, stopped_early)


@enough_memory("during training")
def fit(
    run: RunFolder, stream: TextIO, until: int | None = None, began: float | None = None
) -> Outcome:
    """Train by gradient steps from the last good state, or from the beginning if there is none.
    Processes that train together all call this; the first one reads, writes and reports."""
    with ProgressLine(stream, "loading the training library …"):  # Lightning takes a second
        from glassformer.training.learner import Learner
        from glassformer.training.loop import Loop
    recipe = run.recipe()
    setup = use_machine(recipe)
    processes.join(setup.device)
    objective = load_objective(recipe, run.path)
    config = objective.config
    seed_step(config.seed, 0)
    step, news = 0, list[str]()
    if processes.is_first():
        step, news = _where_to_begin(run, objective, is_replay=until is not None)
    step = processes.from_first(step)
    model = new_model(objective.recipe, not step, objective.dataset.preprocessing)
    start = objective.recipe.start
    if not step and (start is None or not start.continues or start.changes_vocabulary):
        objective.initialize(model)
    _check_room(run, model, config)
    log: RunLog = NoLog()
    if processes.is_first():
        log = RunLog(run.path, objective.measures, step, config.report_to)
    with (
        ExitStack() as listening,  # until the log is closed
        Progress(stream, objective.items_per_step, objective.dataset.unit) as progress,
        closing(log),
    ):
        if log.num_damaged:
            lines = counted(log.num_damaged, "line")
            news.append(f"warning: {log.path} is damaged: dropped {lines}")
        for line in (_headline(objective, model, setup), *news):
            progress.write(line)
        loop = Loop(run, Learner(model, objective, setup), log, progress, step)
        if step:
            _restore(loop)
        if config.time_limit is not None and until is None and processes.is_first():
            now = 0.0 if began is None else time.time() - began
            before = now + (loop.standing.seconds or 0.0)  # in earlier sessions
            loop.limit = TimeLimit(config.time_limit, before, objective)
        listening.enter_context(loop.stop.heeded())
        loop.train(until)
    outcome = Outcome(
        run.path, loop.step, loop.standing, objective, loop.stopped_by, loop.has_given_up
    )
    del loop
    gc.collect()  # free DDP before disconnecting: it holds the process group
    processes.leave()
    return outcome


def _where_to_begin(run: RunFolder, objective: Objective, is_replay: bool) -> tuple[int, list[str]]:
    """The last good step, from which training continues, and what to report about it."""
    state, damaged = run.last_good_state()
    step = 0 if state is None else state.step
    news = [f"warning: {problem}" for problem in damaged]
    if state is not None:
        run.check_recipe(state, objective.recipe)
        if state.standing.best_step is not None and not is_replay:
            lost = [run.path / name for name in run.lost()]
            news += [f"warning: {path} is missing. A new one is started." for path in lost]
        news += [f"continuing from step {step:,}", *objective.dataset.changes()]
    elif damaged or (run.path / WEIGHTS).is_file():
        why = "no undamaged checkpoint is left" if damaged else "there is no checkpoint"
        news.append(f"{why}: training starts from the beginning")
    run.forget_after(step)
    run.prune(objective.config)
    return step, news


def _restore(loop: "Loop") -> None:
    """Load the state of the last step; an error if it is that of another training."""
    folder, learner = loop.run.checkpoint(loop.step), loop.learner
    state = load_state(folder)
    with damage(folder, loop.run.cure(loop.step)):
        saved = training_state.checked(training_state.StepState, state)
        training_state.check_fit(saved, learner.state(), learner.optimizer)
        training_state.check_best(saved.standing, loop.objective.measures)
    loop.load(state)


def _check_room(run: RunFolder, model: nn.Module, config: DecidedTraining) -> None:
    """Better reported now than after the first hour."""
    needed = count_parameters(model) * bytes_per_parameter(config)
    needed += len(run_folder.snapshot_steps(config, model)) * run_folder.size_of(model)
    if (free := shutil.disk_usage(run.path).free) < needed:
        raise GlassformerError(
            f"{run.path}: training needs room for {readable_size(needed)}, but the disk has "
            f"{readable_size(free)} left. Free some space, then continue with --resume."
        )


def _headline(objective: Objective, model: nn.Module, setup: Setup) -> str:
    recipe, dataset, config = objective.recipe, objective.dataset, objective.config
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    context = recipe.model.get("context_length")
    total = count_parameters(model)
    learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    steps = counted(config.last_step, "step")
    if config.time_limit is not None and not config.replans:
        steps = f"at most {steps} in {clock(config.time_limit)}"
    together = f" in each of {config.num_processes:,} processes, {config.strategy}"
    return (
        f"model: {name}, {total:,} parameters"
        + (f" ({learning:,} trainable)" if learning < total else "")
        + (f", context {context}" if context else "")
        + f"; {counted(dataset.num_items, dataset.unit)}, {steps}; "
        f"{setup.device}, {setup.precision}, {counted(setup.threads, 'thread')}"
        + (together if config.num_processes > 1 else "")
    )


def _fit_at_once(run: RunFolder, stream: TextIO, fit: Fit) -> Outcome:
    """Train in the task's own way, not by gradient steps; the run then has one state, that of its
    last step."""
    recipe = run.recipe()
    objective = load_objective(recipe, run.path)
    setup = use_machine(recipe)
    seed_step(objective.config.seed, 0)
    model, step = new_model(recipe).to(setup.device), objective.config.max_steps
    run.forget_after(0)
    fit(objective, model, stream)
    result = objective.validate(model)
    if not math.isfinite(result.loss):
        raise GlassformerError(f"the validation loss became {result.loss}: the model is not saved.")
    best = objective.columns(result)
    with closing(RunLog(run.path, objective.measures, 0, objective.config.report_to)) as log:
        log.write(step, best)
        log.sample(step, objective.sample(model, step))
        log.sync()
    card = model_card(objective, count_parameters(model), result, step)
    save_model(run.path, model, objective.dataset.preprocessing, card)
    val = best[f"val_{objective.measure}"]
    standing = Standing.at_the_start()
    standing.recipe = run_folder.fingerprint(recipe, step)
    standing.val, standing.best, standing.best_step = val, best, step
    standing.notes = list(result.notes)
    weights = {"model": model.state_dict(), "averaged": {}}
    save_state(run.checkpoint(step), training_state.new_state(step, weights, standing))
    return Outcome(run.path, step, standing, objective)


def _finished(run: RunFolder) -> Outcome:
    """The outcome of a run with nothing left to do."""
    recipe, (state, problems) = run.recipe(), run.last_good_state()
    if state is None:
        raise GlassformerError(problems[0])
    run.check_recipe(state, recipe)
    if processes.is_first():
        run.prune(recipe.decided)
    cure = "train it again with --force: the same recipe gives the same model."
    if lost := run.lost():
        raise GlassformerError(
            f"{run.path} is finished, but its {lost[0]} is missing. {cure.capitalize()}"
        )
    try:
        load_model(run.path)
    except GlassformerError as error:
        raise GlassformerError(
            f"{run.path} is finished, but its model is damaged. {error} Or {cure}"
        ) from None
    objective = load_objective(recipe, run.path)
    with damage(run.checkpoint(state.step), run.cure(state.step)):
        training_state.check_best(state.standing, objective.measures)
    stopped_early = state.step < objective.config.last_step
    return Outcome(
        run.path, state.step, state.standing, objective, None, stopped_early, is_old=True
    )
