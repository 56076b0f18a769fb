"""What the benchmarks of training speed share: whole steps, ours and theirs, timed in turns."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Step = Callable[[], int]


def update(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def step_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Any],
    loss: Callable[[Any], Tensor],
    count: Callable[[Any], int],
) -> Step:
    """A step of training on the next batch; returns how much it has learned from."""
    following = iter(batches)

    def step() -> int:
        batch = next(following)
        loss(batch).backward()
        update(model, optimizer)
        return count(batch)

    return step


def shuffled(count: int, batch_size: int) -> Iterator[list[int]]:
    """Numbers of rows, drawn at random without end."""
    starts = range(0, count + 1 - batch_size, batch_size)
    while starts:
        order = torch.randperm(count).tolist()
        yield from (order[start : start + batch_size] for start in starts)


def speed(step: Step, steps: int) -> float:
    begin = time.perf_counter()
    learned = sum(step() for _ in range(steps))
    return learned / (time.perf_counter() - begin)


def in_turns(each: Sequence[Step], steps: int, rounds: int) -> list[float]:
    """The median speed of each, after a round that warms up."""
    speeds = [[speed(step, steps) for step in each] for _ in range(1 + rounds)]
    return [statistics.median(column) for column in zip(*speeds[1:], strict=True)]
