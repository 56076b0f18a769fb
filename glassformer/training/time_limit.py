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

from torch import nn

from glassformer.evaluation.evaluating import listening
from glassformer.tasks.recipe import Replan
from glassformer.tasks.task import Objective
from glassformer.training.defaults import intervals

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
    """With its sample, and with saving the model as the best one."""
    saving: float = 0.0
    """A state, from which training can continue."""
    ending: float = 0.0
    """What is examined for the report, and the page."""


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
        self._validation, self._ending = (each / self.pace.step for each in seconds)


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
    """What follows from another number of steps. Intervals that were given, other than the
    usual ones, and those that would hardly change, stay."""
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
    with suppress(Exception), listening(read):
        evaluation()
    return total or time.perf_counter() - begin
