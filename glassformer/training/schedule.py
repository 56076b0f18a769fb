"""The learning rate as a pure function of the step: rise, then fall.

cosine    ╱⌒╲   half a wave
linear    ╱╲    a line
wsd       ╱─╲   full for most of the time, then a line (warm-up, stable, decay)
noam      ╱╲_   with the root of the step, as in "Attention is all you need"
constant  ╱──
"""

import math

from torch import nn

from glassformer.options import ScheduleKind
from glassformer.tasks.recipe import DecidedTraining

# --- schedule ---

STABLE = 0.6  # the part of a wsd schedule before it falls


def rate_of(config: DecidedTraining, step: int) -> float:
    """Share of the full learning rate at `step` (from 0) of a training.

    A time limit may change the plan on the way. The curve then bends but does not jump: the rest of
    the rise and of the fall is spread over the steps that are left.
    """
    risen = fallen = 0.0
    top = 0  # the first step with the full rate
    for plan, following in zip(config.plans, (*config.replans, None), strict=True):
        begin, last = plan.step - 1, step if following is None else min(step, following.step - 1)
        if risen < 1:  # so much of the rise is left for this plan
            begin = top = plan.step + int((1 - risen) * plan.warmup_steps)
            way = (last - plan.step + 1) / (top - plan.step + 1)
            risen = 1.0 if last >= top else risen + (1 - risen) * way
        # Complete at the step after the last: a step that changes nothing would be wasted.
        part = max(0, last - begin) / max(1, plan.max_steps - begin)
        fallen = min(1.0, fallen + (1 - fallen) * part)
        if last == step:
            break
    if risen < 1:
        return risen
    if config.lr_scheduler_type == "noam":
        return math.sqrt((top + 1) / (step + 1))
    return config.min_lr_rate + (1 - config.min_lr_rate) * _shape(config.lr_scheduler_type, fallen)


def _shape(kind: ScheduleKind, fallen: float) -> float:
    """The height of the curve when this share of the fall is over."""
    match kind:
        case "cosine":
            return (1 + math.cos(math.pi * fallen)) / 2
        case "linear":
            return 1 - fallen
        case "wsd":
            return min(1.0, (1 - fallen) / (1 - STABLE))
        case _:
            return 1.0


# --- snapshot plan ---
# At which steps a training keeps a snapshot of its weights.
#
#     0, 1, 2, 5, 10, 20, 50, 100 …, and the last step
#
# A model changes most at the beginning, so the steps lie ever further apart. They follow from the
# number of steps and the size of the model: a run that resumes keeps the same ones, unless a time
# limit changes the number on the way.

USUAL, FEWEST = 12, 4  # snapshots, if the recipe leaves it open; fewer show too little
USUAL_BYTES = 32_000_000  # of all of them
TOO_CLOSE = 0.9  # of the last step: after it, no other snapshot is of interest


def snapshot_steps(config: DecidedTraining, model: nn.Module) -> frozenset[int]:
    """The steps of a training, 0 for its beginning; none if the model is too large for that."""
    number = config.snapshots
    if number is None:
        number = min(USUAL, USUAL_BYTES // max(1, size_of(model)))
        number = number if number >= FEWEST else 0
    return frozenset(spread_steps(config.last_step, number))


def spread_steps(last: int, number: int) -> list[int]:
    """At most `number` steps up to the last one, without the first few of a long training: little
    happens in them."""
    if number < 2:
        return [last][:number]
    between = [
        digit * 10**power
        for power in range(len(str(last)))
        for digit in (1, 2, 5)
        if digit * 10**power <= TOO_CLOSE * last
    ]
    return [0, *between[len(between) - min(len(between), number - 2) :], last]


def size_of(model: nn.Module) -> int:
    """Bytes of the weights."""
    return sum(each.nbytes for each in (*model.parameters(), *model.buffers()))
