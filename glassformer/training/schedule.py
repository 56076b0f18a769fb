"""The learning rate as a pure function of the step: rise, then fall."""

import math
from typing import Literal

ScheduleKind = Literal["cosine", "linear", "constant"]


def rate(
    step: int, *, kind: ScheduleKind, warmup_steps: int, max_steps: int, min_rate: float
) -> float:
    """Share of the full learning rate at `step` (from 0): up to 1 in a line, then down to
    `min_rate` at the last step along `kind`."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    done = min(1.0, (step - warmup_steps) / max(1, max_steps - 1 - warmup_steps))
    match kind:
        case "cosine":
            share = (1 + math.cos(math.pi * done)) / 2
        case "linear":
            share = 1 - done
        case "constant":
            share = 1.0
    return min_rate + (1 - min_rate) * share
