"""The training itself: a run that has been set up, from its last saved state to the end."""

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, TextIO

import lightning.pytorch as lightning
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import nn

from glassformer.atomic_files import damage
from glassformer.checkpoint.model_folder import WEIGHTS
from glassformer.checkpoint.training_state import load_values
from glassformer.errors import GlassformerError
from glassformer.runtime import processes
from glassformer.runtime.host import Setup
from glassformer.runtime.random_seeds import seed_step
from glassformer.tasks.recipe import DecidedTraining
from glassformer.tasks.task import Objective
from glassformer.training.batch_order import Batches
from glassformer.training.callback import StateIO, StepCallback
from glassformer.training.finetuning import new_model
from glassformer.training.lightning_module import Learner
from glassformer.training.model_card import count_parameters
from glassformer.training.outcome import Outcome
from glassformer.training.preparation import prepared, use_machine
from glassformer.training.progress import Progress
from glassformer.training.resume_changes import essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.run_log import NoLog, RunLog
from glassformer.training.saved_state import StepState, check_best, check_fit, checked
from glassformer.training.sharding import Sharded
from glassformer.training.snapshot_plan import size_of, snapshot_steps
from glassformer.training.timing import bytes_per_parameter
from glassformer.wording import counted, readable_size

PRECISIONS: dict[str, Any] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
}


@contextmanager
def quiet() -> Iterator[None]:
    """Lightning greets, advises and warns; what matters to a user is reported by us."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning.*")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@quiet()
def fit(run: RunFolder, stream: TextIO, until: int | None = None) -> Outcome:
    """Train from the last good state of a run, or from its beginning if there is none.

    `until` is a step to save and stop at before the end. Processes that train together all call
    this; the first one reads, writes and reports.
    """
    recipe = run.recipe()
    setup = use_machine(recipe)
    processes.join(setup.device)
    objective = prepared(recipe, run.path)
    config = objective.config
    seed_step(config.seed, 0)
    first, news = 0, list[str]()
    if processes.is_first():
        first, news = _where_to_begin(run, objective, is_replay=until is not None)
    first = processes.from_first(first)
    model = new_model(objective.recipe, not first, objective.dataset.preprocessing)
    start = objective.recipe.start
    if not first and (start is None or not start.continues or start.changes_vocabulary):
        objective.initialize(model)
    _check_room(run, model, config)
    with (
        Progress(stream, objective.items_per_step, objective.dataset.unit) as progress,
        closing(_log(run, objective, first)) as log,
    ):
        if log.num_damaged:
            lines = counted(log.num_damaged, "line")
            news.append(f"warning: {log.path} is damaged: dropped {lines}")
        for line in (_headline(objective, model, setup), *news):
            progress.say(line)
        learner = Learner(model, objective)
        if first:
            _check_state(run, first, learner)
        callback = StepCallback(run, objective, learner, log, progress, first, until)
        trainer = trainer_for(config, setup, callback, config.max_steps)
        # Lightning's own answer to SIGTERM can come before the first step; ours is to stop, too.
        with callback.stop.heeded(), suppress(SIGTERMException):
            trainer.fit(
                learner,
                Batches(objective, first),
                ckpt_path=run.checkpoint(first) if first else None,
                weights_only=False,  # our own reader has no code to run; True would be torch's
            )
    processes.leave()
    return Outcome(
        folder=run.path,
        step=callback.step,
        best=callback.saved.best,
        best_step=callback.saved.best_step,
        stopped_by=None if callback.is_finished else callback.stop.signal,
        objective=objective,
        stopped_early=callback.has_given_up,
    )


def trainer_for(
    config: DecidedTraining, setup: Setup, callback: StepCallback, max_steps: int
) -> lightning.Trainer:
    """Lightning's loop, and nothing else of Lightning's."""
    place = processes.here()
    strategy: Any = "auto"
    if place is not None:
        shards = config.strategy == "fsdp"
        strategy = Sharded(place.size) if shards else DDPStrategy()
    return lightning.Trainer(
        accelerator="gpu" if setup.device.startswith("cuda") else setup.device,
        devices=1 if place is None else place.size_of_node,
        num_nodes=1 if place is None else place.num_nodes,
        strategy=strategy,
        precision=PRECISIONS[setup.precision],
        max_steps=max_steps,
        accumulate_grad_batches=config.gradient_accumulation_steps,
        callbacks=[callback],
        plugins=[StateIO(config.gradient_accumulation_steps)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


def _log(run: RunFolder, objective: Objective, first: int) -> RunLog:
    if not processes.is_first():
        return NoLog()
    return RunLog(run.path, objective.measures, first, objective.config.report_to)


def _where_to_begin(run: RunFolder, objective: Objective, is_replay: bool) -> tuple[int, list[str]]:
    """The last good step, from which training continues, and what to report about it."""
    first, damaged = run.last_good_step()
    news = [f"warning: {problem}" for problem in damaged]
    if first:
        run.check_recipe(first, essence(objective.recipe))
        if run.standing(first).best_step is not None and not is_replay:
            gone = [run.path / name for name in run.lost()]
            news += [f"warning: {path} is missing. A new one is started." for path in gone]
        news += [f"continuing from step {first:,}", *objective.dataset.changes()]
    elif damaged or (run.path / WEIGHTS).is_file():
        why = "no undamaged checkpoint is left" if damaged else "there is no checkpoint"
        news.append(f"{why}: training starts from the beginning")
    run.forget_after(first)
    run.prune(objective.config)
    return first, news


def _check_state(run: RunFolder, step: int, learner: Learner) -> None:
    """Raise unless the state of `step` is one of this training."""
    with damage(run.checkpoint(step), run.cure(step)):
        state = checked(StepState, load_values(run.checkpoint(step)))
        check_fit(state, learner.state_dict(), learner.configure_optimizers())
        check_best(state.callbacks.standing, learner.objective.measures)


def _check_room(run: RunFolder, model: nn.Module, config: DecidedTraining) -> None:
    """Better reported now than after the first hour."""
    needed = count_parameters(model) * bytes_per_parameter(config)
    needed += len(snapshot_steps(config, model)) * size_of(model)
    if (free := shutil.disk_usage(run.path).free) < needed:
        raise GlassformerError(
            f"{run.path}: training needs room for {readable_size(needed)}, but the disk has "
            f"{readable_size(free)} left. Free some space, then continue with --resume."
        )


def _headline(objective: Objective, model: nn.Module, setup: Setup) -> str:
    recipe, dataset = objective.recipe, objective.dataset
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    context, steps = recipe.model.get("context_length"), objective.config.max_steps
    total = count_parameters(model)
    learning = sum(each.numel() for each in model.parameters() if each.requires_grad)
    return (
        f"model: {name}, {total:,} parameters"
        + (f" ({learning:,} trainable)" if learning < total else "")
        + (f", context {context}" if context else "")
        + f"; {counted(dataset.num_items, dataset.unit)}, {counted(steps, 'step')}; "
        f"{setup.device}, {setup.precision}, {counted(setup.threads, 'thread')}"
        + _together(objective.config)
    )


def _together(config: DecidedTraining) -> str:
    if config.num_processes == 1:
        return ""
    return f" in each of {config.num_processes:,} processes, {config.strategy}"
