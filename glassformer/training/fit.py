"""The training itself: a run that has been set up, from its last saved state to the end."""

import logging
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, TextIO

import lightning.pytorch as lightning
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import nn
from torch.utils.data import DataLoader, Dataset

from glassformer.data.tokens import StepSampler
from glassformer.errors import GlassformerError
from glassformer.runtime import Setup, seed_step
from glassformer.training.begin import bytes_per_parameter, use_machine
from glassformer.training.card import count_parameters
from glassformer.training.learner import Learner
from glassformer.training.metrics import Metrics
from glassformer.training.outcome import Outcome
from glassformer.training.prepare import prepared
from glassformer.training.progress import Progress
from glassformer.training.recipe import essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.sections import DecidedTraining
from glassformer.training.steward import StateIO, Steward
from glassformer.training.tasks import Task
from glassformer.wording import counted, readable_size

PRECISIONS: dict[str, Any] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
}


def fit(run: RunFolder, stream: TextIO, until: int | None = None) -> Outcome:
    """Train from the last good state of a run, or from its beginning if there is none.

    `until` is a step to save and stop at before the end.
    """
    with _quiet():
        recipe = run.recipe()
        setup = use_machine(recipe)
        return _fit(prepared(recipe, run.path), run, setup, stream, until)


def _fit(task: Task, run: RunFolder, setup: Setup, stream: TextIO, until: int | None) -> Outcome:
    config = task.recipe.decided
    seed_step(config.seed, 0)
    first, news = _where_to_begin(run, task, is_replay=until is not None)
    model = task.build(is_fresh=not first)
    _check_room(run, model, config)
    with (
        closing(Metrics(run.path, task.columns, first, config.report_to)) as metrics,
        Progress(stream, task.tokens_per_step) as progress,
    ):
        for line in (_headline(task, model, setup), *news):
            progress.say(line)
        learner = Learner(model, task)
        steward = Steward(run, task, learner.result, metrics, progress, first, until)
        trainer = lightning.Trainer(
            accelerator="gpu" if setup.device.startswith("cuda") else setup.device,
            devices=1,
            precision=PRECISIONS[setup.precision],
            max_steps=config.max_steps,
            accumulate_grad_batches=config.gradient_accumulation_steps,
            gradient_clip_val=config.max_grad_norm or None,
            callbacks=[steward],
            plugins=[StateIO()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        # Lightning's own answer to SIGTERM can come before the first step; ours is to stop, too.
        with _signals(steward), suppress(SIGTERMException):
            trainer.fit(
                learner,
                _loader(task, first),
                ckpt_path=run.checkpoint(first) if first else None,
                weights_only=False,  # our own reader has no code to run; True would be torch's
            )
    return Outcome(
        folder=run.path,
        step=steward.standing.step,
        max_steps=config.max_steps,
        best=steward.best,
        best_step=steward.standing.best_step,
        stopped_by=None if steward.is_finished else steward.stopped_by,
        task=task,
        stopped_early=steward.has_given_up,
    )


def _where_to_begin(run: RunFolder, task: Task, is_replay: bool) -> tuple[int, list[str]]:
    """The last good step, after which all is made anew; and what a person should know of it."""
    first, damaged = run.last_good_step()
    news = [f"warning: {problem}" for problem in damaged]
    if first:
        run.check_recipe(first, essence(task.recipe))
        if run.standing(first)["best_step"] is not None and not is_replay:
            gone = [run.path / name for name in run.lost()]
            news += [f"warning: {path} is gone. It begins anew from here." for path in gone]
        news.append(f"going on from step {first:,}")
    elif damaged:
        news.append("no undamaged state is left: the training begins again")
    run.forget_after(first)
    return first, news


def _check_room(run: RunFolder, model: nn.Module, config: DecidedTraining) -> None:
    """Better told now than after the first hour."""
    needed = count_parameters(model) * bytes_per_parameter(config)
    if (free := shutil.disk_usage(run.path).free) < needed:
        raise GlassformerError(
            f"{run.path}: a saved state takes {readable_size(needed)}, and the disk has "
            f"{readable_size(free)} left. Make room there, then go on with --resume."
        )


class Batches(Dataset[Any]):
    """The batches of a task, by their number."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __getitem__(self, number: int) -> Any:
        return self.task.batch(number)


def _loader(task: Task, first: int) -> DataLoader[Any]:
    config = task.recipe.decided
    accumulation = config.gradient_accumulation_steps
    sampler = StepSampler(config.max_steps * accumulation, first * accumulation)
    return DataLoader(Batches(task), sampler=sampler, batch_size=None)


def _headline(task: Task, model: nn.Module, setup: Setup) -> str:
    recipe = task.recipe
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    context = recipe.model.get("context_length")
    return (
        f"model: {name}, {count_parameters(model):,} parameters{_learning(model)}"
        + (f", context {context}" if context else "")
        + f"; {task.num_tokens:,} tokens, {recipe.training.max_steps:,} steps; "
        f"{setup.device}, {setup.precision}, {counted(setup.threads, 'thread')}"
    )


def _learning(model: nn.Module) -> str:
    """How many of the parameters learn, if not all do."""
    learning = sum(each.numel() for each in model.parameters() if each.requires_grad)
    return "" if learning == count_parameters(model) else f" ({learning:,} learn)"


@contextmanager
def _signals(steward: Steward) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the training after the step under way."""
    before = {number: signal.getsignal(number) for number in steward.SIGNALS}
    steward.heed_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning greets, advises and warns; what matters to a user we say ourselves."""
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
