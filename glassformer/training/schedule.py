"""The learning rate as a pure function of the step: rise, then fall.

cosine    ╱⌒╲   half a wave
linear    ╱╲    a line
wsd       ╱─╲   full for most of the time, then a line (warm-up, stable, decay)
noam      ╱╲_   with the root of the step, as in "Attention is all you need"
constant  ╱──
"""

import math

from glassformer.tasks.recipe import DecidedTraining, ScheduleKind

STABLE = 0.6  # the part of a wsd schedule before it falls


def rate_of(config: DecidedTraining, step: int) -> float:
    """Share of the full learning rate at `step` (from 0) of a training."""
    return rate(
        step,
        kind=config.lr_scheduler_type,
        warmup_steps=config.warmup_steps,
        max_steps=config.max_steps,
        min_rate=config.min_lr_rate,
    )


def rate(
    step: int, *, kind: ScheduleKind, warmup_steps: int, max_steps: int, min_rate: float
) -> float:
    """Share of the full learning rate at `step` (from 0): up to 1 in a line, then along `kind`,
    down to `min_rate` where the step after the last would be: a step that changes nothing would be
    wasted. Noam never asks for the last step, nor for `min_rate`."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    done = min(1.0, (step - warmup_steps) / max(1, max_steps - warmup_steps))
    match kind:
        case "cosine":
            share = (1 + math.cos(math.pi * done)) / 2
        case "linear":
            share = 1 - done
        case "wsd":
            share = min(1.0, (1 - done) / (1 - STABLE))
        case "noam":
            return math.sqrt((warmup_steps + 1) / (step + 1))
        case "constant":
            share = 1.0
    return min_rate + (1 - min_rate) * share
