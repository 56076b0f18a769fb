"""The order of the batches in a training: batch n is a pure function of n, so that a resumed run
continues with exactly the batch that was due."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.tasks.task import Objective


class WeighedBatch(NamedTuple):
    """A batch, and how much its mean loss counts among the batches of one update: 1 on average."""

    batch: Any
    weight: float


@dataclass(frozen=True)
class Batches:
    """The batches of an objective after step `first`, one or several for each update.

    Several batches of one update act as one large batch, whose loss is a mean over all its targets:
    a batch with more targets counts more.
    """

    objective: Objective
    first: int = 0

    def __len__(self) -> int:
        """The number of batches in the whole training, also if a run resumes at a later step."""
        config = self.objective.config
        return config.max_steps * config.gradient_accumulation_steps

    def __iter__(self) -> Iterator[WeighedBatch]:
        config = self.objective.config
        count = config.gradient_accumulation_steps
        for step in range(self.first, config.max_steps):
            yield from self._weighed(range(step * count, (step + 1) * count))

    def _weighed(self, numbers: range) -> list[WeighedBatch]:
        """The batches of one update."""
        batches = [self.objective.batch(number) for number in numbers]
        if len(batches) == 1:
            return [WeighedBatch(batches[0], 1.0)]
        counts = [self.objective.num_targets(batch) for batch in batches]
        mean = sum(counts) / len(counts)
        return [WeighedBatch(batch, n / mean) for batch, n in zip(batches, counts, strict=True)]
