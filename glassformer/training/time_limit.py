"""Keeping a training within its time limit.

The first steps are made as if there were time for all of them, and timed. Then the plan is as many
steps as fit, and whenever the machine becomes slower or faster it is made anew:

    seconds left  =  steps · seconds of a step  +  validations  +  saved states  +  ending

The learning rate follows each plan to its end (`schedule`). A plan is written into the recipe with
the step at which it was made, so a run that resumes or is verified repeats it and asks no clock.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from glassformer.checkpoint.model_folder import save_model
from glassformer.errors import GlassformerError
from glassformer.machine.facts import NOTICEABLE, busy_cores
from glassformer.machine.host import Setup
from glassformer.models import count_parameters, row
from glassformer.tasks import task_of
from glassformer.tasks.evaluating import reporting_progress
from glassformer.tasks.recipe import Recipe, Replan, TrainingConfig, model_config
from glassformer.tasks.task import Objective
from glassformer.training.defaults import intervals
from glassformer.training.finetuning import new_model
from glassformer.wording import counted

if TYPE_CHECKING:
    from glassformer.training.learner import Learner


# Shares of the time limit:
FIRST = 0.03  # steps that are timed before the first plan
LONGEST_FIRST = 0.1  # the same, if these are fewer than three
RECENT = 0.05  # steps whose mean is the speed now
TOLERANCE = 0.02  # the error of a plan with which it stays
RESERVE = 0.015  # for what varies at the end
TRIAL = 0.01  # an evaluation is broken off after this share, and the rest is extrapolated

ENDING = 1.0  # seconds to write the report's page and to end the process
VALIDATING = 1 / 3  # the time of validations, at most, per time of the steps between them
SIMILAR = 1.5  # intervals that differ less than by this factor stay as they are
FEW = 50  # steps in which nothing much is learned


@dataclass(frozen=True)
class Pace:
    """Seconds that each part of a training takes."""

    step: float
    validation: float = 0.0
    """A validation with its sample, and with saving the model as the best one."""
    saving: float = 0.0
    """Saving a state from which training can continue."""
    ending: float = 0.0
    """Examining the model for the report, and writing the page."""


class TimeLimit:
    """The clock of a training with a time limit."""

    def __init__(
        self,
        limit: float,
        spent: float,
        objective: Objective,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`spent` are the seconds before now, reading the data for example."""
        self.limit = limit
        self.objective = objective
        self.clock = clock
        self.before = spent
        self.end = clock() + limit - spent
        self._saving = 0.0
        # What is computed otherwise takes as long as so many steps, however fast the machine is:
        self._validation = self._ending = 0.0
        self._steps: deque[float] = deque()  # seconds of the recent ones
        self._num_timed = 0
        self._planned_at: float | None = None

    @property
    def left(self) -> float:
        return self.end - self.clock()

    @property
    def spent(self) -> float:
        return self.limit - self.left

    def stepped(self, seconds: float) -> None:
        self._num_timed += 1
        if self._num_timed == 2:
            self._steps.clear()  # the first step finds memory and chooses kernels
        self._steps.append(seconds)
        while len(self._steps) > 3 and sum(self._steps) - self._steps[0] > RECENT * self.limit:
            self._steps.popleft()

    def validated(self, seconds: float) -> None:
        self._validation = seconds / self.pace.step

    def saved(self, seconds: float) -> None:
        self._saving = seconds

    @property
    def pace(self) -> Pace:
        """The pace of the recent steps."""
        step = sum(self._steps) / len(self._steps)
        return Pace(step, self._validation * step, self._saving, ENDING + self._ending * step)

    def replan(self, step: int, model: nn.Module | None) -> Replan | None:
        """Another plan for the steps after this one, unless the one in force still fits. Without a
        model, what an evaluation takes is not known before the first one."""
        config = self.objective.config
        is_known = any(plan.step > step for plan in config.replans)  # before it was interrupted
        if is_known or step >= config.last_step or not self._is_due():
            return None
        if self._planned_at is None and model is not None:
            self._time_evaluations(model)
        self._planned_at = self.clock()
        now, left = config.plan_at(step), self.left
        pace = self.pace
        left -= RESERVE * self.limit + pace.ending
        error = seconds_of_plan(now, step, pace) - left
        if config.replans and abs(error) < TOLERANCE * self.limit:
            return None
        plan = fitting_plan(self.objective, step, left, pace)
        return None if plan == now.model_copy(update={"step": step}) else plan

    def _is_due(self) -> bool:
        if self._planned_at is not None:
            return self.clock() - self._planned_at >= TOLERANCE * self.limit
        has_several = self._num_timed > 3
        return sum(self._steps) >= (FIRST if has_several else LONGEST_FIRST) * self.limit

    def _time_evaluations(self, model: nn.Module) -> None:
        seconds = time_evaluations(self.objective, model, TRIAL * self.limit)
        self._validation, self._ending = (part / self.pace.step for part in seconds)


def fitting_plan(objective: Objective, step: int, left: float, pace: Pace) -> Replan:
    """The plan with the most steps that takes at most `left` seconds after `step`."""
    most = objective.config.max_steps
    plan = make_plan(objective, step, most, pace)
    best = None
    for _ in range(8):  # fewer steps may mean fewer validations, which leaves time for more steps
        needed = seconds_of_plan(plan, step, pace)
        if needed <= left and (best is None or plan.max_steps > best.max_steps):
            best = plan
        more = int((plan.max_steps - step) * max(0.0, left) / max(needed, 1e-9))
        plan = make_plan(objective, step, max(step, 1, min(most, step + more)), pace)
    return best or plan


def make_plan(objective: Objective, step: int, max_steps: int, pace: Pace) -> Replan:
    """The plan for another number of steps. Intervals stay if the recipe set them, or if they would
    hardly change."""
    config, dataset = objective.config, objective.dataset
    usual = intervals(config, dataset, config.max_steps)
    wanted = intervals(config, dataset, max(1, max_steps))
    if pace.step:  # a slow validation is made more seldom
        least = ceil(pace.validation / (VALIDATING * pace.step))
        wanted["eval_steps"] = max(wanted["eval_steps"], min(least, max(1, max_steps)))
    before = config.plan_at(step)
    for name, value in wanted.items():
        old = getattr(before, name)
        is_given = getattr(config, name) != usual[name]
        if is_given or (config.replans and old and 1 / SIMILAR < value / old < SIMILAR):
            wanted[name] = old
    return Replan(step=step, max_steps=max_steps, **wanted)


def seconds_of_plan(plan: Replan, step: int, pace: Pace) -> float:
    """Seconds for all steps, validations and saved states after `step`, the last step's too."""

    def times(every: int) -> int:
        return -(-plan.max_steps // every) - step // every

    steps = plan.max_steps - step
    if steps <= 0:
        return pace.validation + pace.saving
    return (
        steps * pace.step
        + times(plan.eval_steps) * pace.validation
        + times(plan.save_steps) * pace.saving
    )


def time_evaluations(
    objective: Objective, model: nn.Module, patience: float
) -> tuple[float, float]:
    """Seconds of a validation with its sample, and of what is examined for the report."""
    validation = _time(lambda: objective.validate(model), patience) / objective.untrained_cost
    sample = _time(lambda: objective.sample(model, 1), patience)
    ending = _time(lambda: objective.examine(model), patience) / objective.untrained_cost
    return validation + sample, ending


class _EnoughReadError(Exception):
    """The rest of an evaluation follows from the part that was read."""


def _time(evaluation: Callable[[], object], patience: float) -> float:
    """The seconds of an evaluation; if it takes long, extrapolated from a part of it."""
    begin = time.perf_counter()
    before = total = 0.0  # seconds of what has been read to its end, and of everything

    def read(share: float) -> None:
        nonlocal before, total
        passed = time.perf_counter() - begin
        if share >= 1:
            before = passed
        elif passed - before > patience:
            total = before + (passed - before) / share
            raise _EnoughReadError

    # What a model says before it has learned anything may be refused; so it is not counted.
    with suppress(Exception), reporting_progress(read):
        evaluation()
    return total or time.perf_counter() - begin


# --- how long a step takes ---
# Tried on real steps, for the number of threads and for a dry run. A step is the loop's own
# (`loop.learn`), on a model that is thrown away.

MOST_MEASURED = 300  # steps
PATIENCE = 2.0  # seconds after which no further step is tried, and a validation is broken off
LARGE = 0.3  # seconds of a step: only a part of its rows is tried; one row is worth every core
BLOCK = 0.08  # seconds of steps with one number of threads before another is tried
CLEARLY = 1.1  # fewer threads must be this many times as fast


def choose_threads(objective: Objective, setup: Setup) -> int:
    """The number of threads with which this model learns fastest now: two threads that wait for
    each other are slower than one if the model is small, or another program computes."""
    recipe = objective.recipe
    is_open = recipe.training.num_threads is None and recipe.training.num_processes == 1
    has_steps = task_of(recipe.model_name).fit is None
    if not (is_open and has_steps and setup.device == "cpu" and setup.threads > 1):
        return setup.threads
    learner, rows = _learner(objective, setup), objective.config.per_device_train_batch_size
    counts = [setup.threads]
    while counts[-1] > 1:
        counts.append(counts[-1] // 2)
    _seconds(learner, 1, rows=1)  # the very first warms up
    while _seconds(learner, 1, rows) > LARGE:
        if rows == 1:
            return setup.threads
        rows = max(1, rows // 4)
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    try:
        for count in counts * 2:  # twice, since what else runs comes and goes
            torch.set_num_threads(count)
            _seconds(learner, 1, rows)  # threads start
            begin = time.perf_counter()
            while time.perf_counter() < begin + BLOCK:
                seconds[count].append(_seconds(learner, 1 + len(seconds[count]), rows))
    finally:
        torch.set_num_threads(setup.threads)
    mean = {count: sum(times) / len(times) for count, times in seconds.items()}
    best = min(counts, key=lambda count: mean[count])
    return best if mean[best] * CLEARLY < mean[setup.threads] else setup.threads


def measured(objective: Objective, setup: Setup, model: nn.Module) -> Pace:
    """The pace of a training, for a dry run."""
    if task_of(objective.recipe.model_name).fit is not None:
        return Pace(0.0)  # trained in its own way, not by steps
    step = _seconds_per_step(objective, setup)
    with TemporaryDirectory(prefix=".timing-") as scratch:
        for _ in range(2):  # the first time, the disk and its caches warm up
            begin = time.perf_counter()
            save_model(Path(scratch) / "model", model, objective.dataset.preprocessing, "")
        saving = time.perf_counter() - begin
    state = saving * bytes_per_parameter(objective.config) / 4  # as large as so many models
    validation, ending = time_evaluations(objective, model, PATIENCE)
    return Pace(step, validation + saving, state, ENDING + ending)


def _seconds_per_step(objective: Objective, setup: Setup) -> float:
    """The mean of steps on batches from all over an epoch. A large model is tried with few rows
    first, and if that takes long, with no more."""
    learner, config = _learner(objective, setup), objective.config
    batch, rows = config.per_device_train_batch_size, 1
    seconds = min(_seconds(learner, 1, rows), _seconds(learner, 1, rows))  # the first warms up
    while rows < batch and 2 * seconds < PATIENCE:
        rows = min(2 * rows, batch)
        seconds = _seconds(learner, 1, rows)
    if rows < batch:
        return seconds * batch / rows
    count = max(2, min(MOST_MEASURED, int(PATIENCE / seconds / 2)))
    in_epoch = objective.batches.per_epoch / config.batches_per_update
    last = max(1, min(int(in_epoch), config.max_steps))
    # Each shape of batch is seen twice: the first time, memory is found for it.
    for _ in range(2):
        times = [_seconds(learner, 1 + index * last // count) for index in range(count)]
    return sum(times) / count


def _learner(objective: Objective, setup: Setup) -> "Learner":
    from glassformer.training.learner import Learner  # here: Lightning takes a second to import

    model = new_model(objective.recipe).to(setup.device)
    objective.initialize(model)  # what was counted in the data may decide what is computed
    return Learner(model, objective, setup)


def _seconds(learner: "Learner", step: int, rows: int | None = None) -> float:
    from glassformer.training.loop import learn

    begin = time.perf_counter()
    learn(learner, step, rate=0.0, most=rows)
    return time.perf_counter() - begin


def bytes_per_parameter(config: TrainingConfig) -> int:
    """Bytes in training: weight, gradient, at most two averages and perhaps the running mean."""
    return 20 if config.ema else 16


# --- what to do when only a few steps fit into a time limit ---


def advice(objective: Objective, steps: int, limit: TimeLimit) -> str:
    """Why so few steps fit into a time limit, and what would make it more."""
    pace, cure = limit.pace, "Allow more time"
    evaluating = pace.validation + pace.ending
    reasons = {
        f"a step takes {_seconds_in_words(pace.step)}": steps * pace.step,
        f"a validation and the report take {_seconds_in_words(evaluating)}": evaluating,
        f"{_seconds_in_words(limit.before)} passed before the first step": limit.before,
    }
    why = max(reasons, key=lambda reason: reasons[reason])
    is_alone = objective.config.num_processes == 1  # the others of this training are no load
    if is_alone and (busy := busy_cores() or 0.0) >= NOTICEABLE:
        why += f", while other programs use {busy:.1f} cores"
    smaller = preset_that_fits(objective.recipe, steps)
    if smaller and why.startswith("a step"):
        preset, more = smaller
        cure += f", or pass --preset {preset}, which would take about {counted(more, 'step')}"
    return f"note: {counted(steps, 'step')} cannot teach it much: {why}. {cure}."


def _seconds_in_words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:,.0f} s"


def preset_that_fits(recipe: Recipe, steps: int) -> tuple[str, int] | None:
    """The largest preset that makes enough steps in the same time, if there is one, and how many:
    the time of a step grows with the number of weights."""
    if recipe.start is not None:
        return None  # its model is given
    models = row(recipe.model_name)
    now = _num_parameters(recipe, recipe.model)
    chosen = models.preset(recipe.preset) if recipe.preset else {}
    sizes = {}
    for name in models.presets:
        preset = models.preset(name)
        # What only the chosen preset sets goes with it, such as the number of its key-value heads.
        left_out = chosen.keys() - preset.keys() - {"vocab_size"}
        values = {key: value for key, value in recipe.model.items() if key not in left_out}
        with suppress(GlassformerError):  # this preset does not fit what else the recipe sets
            sizes[name] = _num_parameters(recipe, values | preset)
    enough = {name: size for name, size in sizes.items() if steps * now >= FEW * size}
    if not enough:
        return None
    name = max(enough, key=lambda name: enough[name])
    return name, int(steps * now / enough[name])


def _num_parameters(recipe: Recipe, values: dict[str, Any]) -> int:
    config = model_config(values | {"name": recipe.model_name}, is_complete=True)
    with torch.device("meta"):
        return count_parameters(row(recipe.model_name).model(config))
