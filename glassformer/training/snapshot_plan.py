"""At which steps a training keeps a snapshot of its weights.

    0, 1, 2, 5, 10, 20, 50, 100 …, and the last step

A model changes most at the beginning, so the steps lie ever further apart. They follow from the
number of steps and the size of the model: a run that resumes keeps the same ones, unless a time
limit changes the number on the way.
"""

from torch import nn

from glassformer.tasks.recipe import DecidedTraining

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
