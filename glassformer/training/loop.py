"""The training loop: a run that has been set up, from its last saved state to the end.

    for each step:
        learn                batch → loss → backward → clip → rate → update → mean   (learner.py)
        plan                 if there is a time limit that the plan does not fit any more
        validate, sample     keep the best model
        log, snapshot
        save, stop

Everything that later steps depend on is in the saved state, and the state is saved last: so a run
that resumes from it continues exactly as if it had never stopped.
"""

import gc
import math
import shutil
import time
from contextlib import ExitStack, closing
from typing import Any, TextIO

from torch import nn

from glassformer.atomic_files import damage
from glassformer.checkpoint.model_folder import WEIGHTS, save_model
from glassformer.checkpoint.snapshots import save_snapshot
from glassformer.checkpoint.training_state import load_state, load_values, save_state
from glassformer.errors import GlassformerError
from glassformer.evaluation.result import Result
from glassformer.runtime import processes
from glassformer.runtime.host import Setup
from glassformer.runtime.random_seeds import seed_step
from glassformer.tasks.recipe import DecidedTraining, Replan
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import lora_to_keep, model_to_keep, new_model
from glassformer.training.learner import LOWER, Learner
from glassformer.training.model_card import count_parameters, model_card
from glassformer.training.outcome import Outcome
from glassformer.training.preparation import prepared, use_machine
from glassformer.training.progress import Progress, Standing, name_in_line
from glassformer.training.resume_changes import essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.run_log import NoLog, RunLog
from glassformer.training.saved_state import (
    SavedStanding,
    StepState,
    check_best,
    check_fit,
    checked,
    new_state,
)
from glassformer.training.schedule import rate_of
from glassformer.training.signals import StopRequest
from glassformer.training.smaller_preset import advice
from glassformer.training.snapshot_plan import size_of, snapshot_steps
from glassformer.training.time_limit import FEW, TimeLimit
from glassformer.training.timing import bytes_per_parameter
from glassformer.wording import clock, counted, readable_size


class Loop:
    """Trains, and validates, logs, keeps the best model, saves and stops when that is due."""

    def __init__(
        self, run: RunFolder, learner: Learner, log: RunLog, progress: Progress, first: int
    ) -> None:
        """`first` is the step to continue from."""
        self.run = run
        self.objective = learner.objective
        self.learner = learner
        self.log = log
        self.progress = progress
        self.step = first
        self.saved = SavedStanding.at_the_start()
        self.stop = StopRequest()
        self.limit: TimeLimit | None = None
        self._is_stopping = False
        self._told: int | None = None  # by a signal to any process
        self._is_short = False
        self._snapshots = snapshot_steps(self.config, learner.model)

    @property
    def config(self) -> DecidedTraining:
        return self.objective.config

    def train(self, until: int | None = None) -> None:
        """Train to the end, or to the step `until`."""
        if self.step == 0 and self._snapshots:
            self._keep_snapshot()
        self._is_stopping = self.step == until
        while not (self.is_finished or self._is_stopping):
            self.step += 1
            begin = time.perf_counter()
            loss = self.learner.learn(self.step, rate_of(self.config, self.step - 1))
            trained = time.perf_counter()
            loss = self._together(loss, trained - begin)
            self.saved.losses.append(loss)
            self.saved.trace.append(loss)
            self._do_what_is_due(until)
            self.progress.not_training(time.perf_counter() - trained)
            left = None if self.limit is None else self.limit.left
            self.progress.show(self._standing(loss), left)

    @property
    def stopped_by(self) -> int | None:
        """The signal that ended it, if one did."""
        return self.stop.signal or self._told

    @property
    def has_given_up(self) -> bool:
        """Has it not improved for `early_stopping` validations?"""
        patience = self.config.early_stopping
        return patience is not None and self.saved.stale >= patience

    @property
    def is_finished(self) -> bool:
        return self.step >= self.config.last_step or self.has_given_up

    def _together(self, loss: float, seconds: float) -> float:
        """The mean loss of all processes, which stop and plan together, whichever of them was
        told to stop. The first one has the clock."""
        plan = None
        if self.limit is not None:
            self.limit.stepped(seconds)
            plan = self.limit.replan(
                self.step, None if self.learner.is_divided else self.learner.model
            )
        mine = [loss, self.stop.signal or 0, float(plan is not None)]
        losses, signals, plans = zip(*processes.from_all(mine), strict=True)
        self._told = int(max(signals)) or None
        if any(plans):
            self._adopt(Replan(**processes.from_first(plan and plan.model_dump())))
        return float(sum(losses) / len(losses))

    def _adopt(self, plan: Replan) -> None:
        """Go on by another plan. It is on disk before it takes effect."""
        recipe, is_first_plan = self.objective.recipe, not self.config.replans
        replans = (*self.config.replans, plan)
        self.objective.change_recipe(recipe.with_training(replans=replans))
        self._snapshots = snapshot_steps(self.config, self.learner.model)
        if self.limit is None or not processes.is_first():
            return
        self.run.write_recipe(self.objective.recipe)
        if is_first_plan:
            limit = clock(self.limit.limit)
            self.progress.say(f"time limit: {counted(plan.max_steps, 'step')} planned for {limit}")
        if plan.max_steps < FEW <= self.config.max_steps and not self._is_short:
            self._is_short = True
            self.progress.say(advice(self.objective, plan.max_steps, self.limit))

    def _do_what_is_due(self, until: int | None) -> None:
        step, plan = self.step, self.config.plan_at(self.step)
        is_last = step >= plan.max_steps
        values: dict[str, float] = {}
        if step % plan.eval_steps == 0 or is_last:
            begin = time.perf_counter()
            values = self._validate()
            if self.limit is not None:
                self.limit.validated(time.perf_counter() - begin)
        # Asked once: a signal may come at any moment. Several processes have asked each other.
        told = self.stop.signal if processes.here() is None else self._told
        self._is_stopping = told is not None or self.has_given_up or step == until
        if step % self.config.logging_steps == 0 or values or is_last:
            values["train_loss"] = sum(self.saved.losses) / len(self.saved.losses)
            # That of the recipe: groups of parameters learn at multiples of it.
            values["learning_rate"] = self.config.learning_rate * rate_of(self.config, step - 1)
            self.saved.losses = []
            self.log.write(step, values, items_per_second=self.progress.items_per_second)
        if step in self._snapshots or (self._snapshots and self.has_given_up):
            self._keep_snapshot()
        if step % plan.save_steps == 0 or is_last or self._is_stopping:
            self._save(is_due=step % plan.save_steps == 0)

    def _validate(self) -> dict[str, float]:
        objective, saved, step = self.objective, self.saved, self.step
        with self.learner.result() as model:
            result = objective.validate(model)
            if not math.isfinite(result.loss):
                raise GlassformerError(
                    f"the validation loss became {result.loss} at step {step:,}; that state is not "
                    f"saved. {LOWER}"
                )
            text = objective.sample(model, step)
        columns = processes.from_first(objective.columns(result))
        saved.val = value = columns[f"val_{objective.measure}"]
        saved.stale += 1
        if saved.best is None or objective.rank(columns) < objective.rank(saved.best):
            saved.stale, saved.best, saved.best_step = 0, columns, step
            saved.notes = list(result.notes)
            self._keep_best(result)
        self.log.sample(step, text)
        self.progress.sample(f"  step {step:,} {name_in_line(objective.measure)} {value:.3f}", text)
        return dict(columns)

    def _keep_best(self, result: Result) -> None:
        objective, model = self.objective, self.learner.kept()
        if not processes.is_first():
            return
        kept = model_to_keep(objective.recipe, model)
        card = model_card(objective, count_parameters(kept), result, self.step)
        lora = lora_to_keep(objective.recipe, model)
        save_model(self.run.path, kept, objective.dataset.preprocessing, card, lora)

    def _keep_snapshot(self) -> None:
        kept = self.learner.kept()
        if processes.is_first():
            save_snapshot(self.run.path, self.step, model_to_keep(self.objective.recipe, kept))

    def _save(self, is_due: bool) -> None:
        begin = time.perf_counter()
        self.log.sync()
        self.saved.recipe = essence(self.objective.recipe, self.step)
        self.saved.seconds = None if self.limit is None else self.limit.spent
        state = new_state(self.step, self.learner.state(), self.saved)
        save_state(self.run.checkpoint(self.step), state, is_written=processes.is_first())
        if is_due:
            self.saved.trace = []
        if processes.is_first():
            self.run.prune(self.config)
        if self.limit is not None:
            self.limit.saved(time.perf_counter() - begin)

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.learner.load(state)
        now = {"machine": self.saved.machine}
        self.saved = SavedStanding.model_validate(state["standing"] | now)
        if self.step % self.config.plan_at(self.step).save_steps == 0:
            self.saved.trace = []

    def _standing(self, loss: float) -> Standing:
        saved, measure = self.saved, self.objective.measure
        title = "best" if self.objective.decides == measure else "kept"
        best = None if saved.best is None else saved.best[f"val_{measure}"]
        numbers = (loss, saved.val, best, saved.best_step)
        return Standing(self.step, self.config.last_step, *numbers, measure, title)


def fit(
    run: RunFolder, stream: TextIO, until: int | None = None, began: float | None = None
) -> Outcome:
    """Train from the last good state of a run, or from its beginning if there is none.

    `until` is a step to save and stop at before the end; a time limit counts from `began`, by
    time.time. Processes that train together all call this; the first one reads, writes and reports.
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
        ExitStack() as listening,  # until the log is closed
        Progress(stream, objective.items_per_step, objective.dataset.unit) as progress,
        closing(_log(run, objective, first)) as log,
    ):
        if log.num_damaged:
            lines = counted(log.num_damaged, "line")
            news.append(f"warning: {log.path} is damaged: dropped {lines}")
        for line in (_headline(objective, model, setup), *news):
            progress.say(line)
        loop = Loop(run, Learner(model, objective, setup), log, progress, first)
        if first:
            _check_state(run, first, loop.learner)
            loop.load(load_state(run.checkpoint(first)))
        if config.time_limit is not None and until is None and processes.is_first():
            now = 0.0 if began is None else time.time() - began
            before = now + (loop.saved.seconds or 0.0)  # in earlier sessions
            loop.limit = TimeLimit(config.time_limit, before, objective)
        listening.enter_context(loop.stop.heeded())
        loop.train(until)
    outcome = Outcome(
        folder=run.path,
        step=loop.step,
        best=loop.saved.best,
        best_step=loop.saved.best_step,
        notes=tuple(loop.saved.notes),
        stopped_by=loop.stopped_by,
        objective=objective,
        stopped_early=loop.has_given_up,
    )
    del loop
    gc.collect()  # DDP first: what it still held of the connection might never be let go
    processes.leave()
    return outcome


def _log(run: RunFolder, objective: Objective, first: int) -> RunLog:
    if not processes.is_first():
        return NoLog()
    return RunLog(run.path, objective.measures, first, objective.config.report_to)


def _where_to_begin(run: RunFolder, objective: Objective, is_replay: bool) -> tuple[int, list[str]]:
    """The last good step, from which training continues, and what to report about it."""
    first, damaged = run.last_good_step()
    news = [f"warning: {problem}" for problem in damaged]
    if first:
        run.check_recipe(first, essence(objective.recipe, first))
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
        check_fit(state, learner.state(), learner.optimizer)
        check_best(state.standing, learner.objective.measures)


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
    recipe, dataset, config = objective.recipe, objective.dataset, objective.config
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    context = recipe.model.get("context_length")
    total = count_parameters(model)
    learning = sum(each.numel() for each in model.parameters() if each.requires_grad)
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
