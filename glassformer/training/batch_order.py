"""The order of the batches in a training: batch n is a pure function of n, so that a resumed run
continues with exactly the batch that was due."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, Sampler

from glassformer.tasks.task import Objective


class StepSampler(Sampler[int]):
    """The numbers of the micro-batches from micro-step `first` to the last.

    Its length is that of the whole training, also if a run resumes at a later step.
    """

    def __init__(self, steps: int, first: int = 0, rank: int = 0, world_size: int = 1) -> None:
        self.steps = steps
        self.first = first
        self.rank = rank
        self.world_size = world_size

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[int]:
        for step in range(self.first, self.steps):
            yield step * self.world_size + self.rank


class NumberedBatches(Dataset[Any]):
    """The batches of an objective, by their number."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def __getitem__(self, number: int) -> Any:
        return self.objective.batch(number)


def batches_from(objective: Objective, first: int) -> DataLoader[Any]:
    """The batches after step `first`."""
    config = objective.config
    accumulation = config.gradient_accumulation_steps
    sampler = StepSampler(config.max_steps * accumulation, first * accumulation)
    return DataLoader(NumberedBatches(objective), sampler=sampler, batch_size=None)
