"""The learning rate as a pure function of the step: rise, then fall.

cosine    ╱⌒╲   half a wave
linear    ╱╲    a line
wsd       ╱─╲   full for most of the time, then a line (warm-up, stable, decay)
noam      ╱╲_   with the root of the step, as in "Attention is all you need"
constant  ╱──
"""

import math

from glassformer.options import ScheduleKind
from glassformer.tasks.recipe import DecidedTraining

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
