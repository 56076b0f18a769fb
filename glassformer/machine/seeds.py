"""Randomness as a pure function of (seed, step).

    seed_step(seed, step)     dropout at step 1,200 is the same whether the run ever stopped or not

Nothing about random states needs to be stored, and samples drawn between two steps disturb nothing.
"""

import random

MASK = 2**64 - 1


def step_seed(seed: int, step: int, stream: int = 0) -> int:
    """64 well-mixed bits from (seed, step, stream). Ranks and workers take streams of their own."""
    mixed = 0
    for number in (seed, step, stream):
        mixed = _splitmix64(mixed ^ (number & MASK))
    return mixed


def seed_step(seed: int, step: int, stream: int = 0) -> None:
    """Reseed Python, numpy and torch for this step."""
    import numpy as np
    import torch

    value = step_seed(seed, step, stream)
    random.seed(value)
    np.random.seed(value % 2**32)
    # torch.manual_seed takes 200 µs where there is no cuda: it formats a traceback for later.
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(value)
    elif torch.backends.mps.is_available():
        torch.mps.manual_seed(value)


def _splitmix64(x: int) -> int:
    """Steele, Lea & Flood (2014): neighbours in, unrelated numbers out."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)
