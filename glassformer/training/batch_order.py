"""The order of the batches in a training: batch n is a pure function of n, so that a resumed run
continues with exactly the batch that was due."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.runtime import processes
from glassformer.tasks.task import Objective


class WeighedBatch(NamedTuple):
    """A batch, and how much its mean loss counts among the batches of one update: 1 on average."""

    batch: Any
    weight: float


@dataclass(frozen=True)
class Batches:
    """The batches of an objective after step `first`, one or several for each update.

    Several batches of one update act as one large batch, whose loss is a mean over all its targets:
    a batch with more targets counts more. Processes that train together take the batches of an
    update in turn, so the same batches make an update however many processes there are.
    """

    objective: Objective
    first: int = 0

    def __len__(self) -> int:
        """The number of batches in the whole training, also if a run resumes at a later step; of
        several processes, those of one."""
        config = self.objective.config
        return config.max_steps * config.gradient_accumulation_steps

    def __iter__(self) -> Iterator[WeighedBatch]:
        config = self.objective.config
        count = config.gradient_accumulation_steps
        for step in range(self.first, config.max_steps):
            numbers = range(step * count, (step + 1) * count)
            yield from self._weighed([number_among_all(number) for number in numbers])

    def _weighed(self, numbers: list[int]) -> list[WeighedBatch]:
        """The batches of one update, of this process."""
        batches = [self.objective.batch(number) for number in numbers]
        if self.objective.config.batches_per_update == 1:
            return [WeighedBatch(batches[0], 1.0)]
        counts = [self.objective.num_targets(batch) for batch in batches]
        everywhere = [count for counts in processes.from_all(counts) for count in counts]
        mean = sum(everywhere) / len(everywhere)
        return [WeighedBatch(batch, n / mean) for batch, n in zip(batches, counts, strict=True)]


def number_among_all(number: int) -> int:
    """Of batch `number` of this process, among the batches of all processes."""
    place = processes.here()
    return number if place is None else number * place.size + place.rank
