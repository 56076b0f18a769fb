"""Rows in batches: of different lengths, in batches of rows alike in length, or all of one size."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from glassformer.data.padded_batches import Array, Buckets, LabelledRows
from glassformer.data.pair_batches import PairBuckets, PairedRows
from glassformer.tasks.task import Dataset

TRAIN = "train.safetensors"  # in the folder of a dataset


@dataclass(frozen=True)
class RowBatches:
    """The batches of a training."""

    rows: LabelledRows | PairedRows
    buckets: Buckets | PairBuckets

    @property
    def per_epoch(self) -> float:
        return self.buckets.per_epoch

    def batch(self, number: int, most: int | None = None) -> Any:
        return self.rows.batch(self.buckets[number][:most])


class RowDataset(Dataset):
    """Rows to learn from, each with its own number of items."""

    row_name: ClassVar[str]
    """What a row is: an example, a pair …"""

    @property
    @abstractmethod
    def amount(self) -> str:
        """The rows to learn from, in words."""

    @abstractmethod
    def buckets(self, batch_size: int, seed: int) -> Buckets | PairBuckets: ...

    def batches(self, batch_size: int, seed: int) -> RowBatches:
        return RowBatches(self.training, self.buckets(batch_size, seed))

    @property
    def num_items(self) -> int:
        return int(self.training.num_items)

    @property
    def num_validation_items(self) -> int:
        return int(self.validation.num_items)

    @property
    def num_held_out(self) -> int:
        """Rows to validate on."""
        return len(self.validation)

    @property
    def items_per_row(self) -> float:
        return self.num_items / len(self.training)

    @cached_property
    def padding(self) -> float:
        """Share of the batches that is computed for nothing."""
        config = self.recipe.training
        size = config.per_device_train_batch_size or self.default_batch_size
        return self.buckets(size, config.seed).padding()

    def describe(self) -> str:
        return (
            f"{self.amount}, {self.num_items:,} {self.unit}s; {self.num_held_out:,} held out; "
            f"{self.padding:.1%} of the batches is padding"
        )

    def facts(self) -> dict[str, Any]:
        return {
            f"num_{self.row_name}s": len(self.training),
            f"num_validation_{self.row_name}s": self.num_held_out,
            f"num_{self.unit}s": self.num_items,
            "padding": self.padding,
        }


@dataclass(frozen=True)
class SlicedBatches:
    """Batches of rows that are all of one size and numbered from the start of training."""

    take: Callable[[list[int]], Any]
    """The rows with these numbers, as a batch."""
    batch_size: int
    per_epoch: float

    def batch(self, number: int, most: int | None = None) -> Any:
        first = number * self.batch_size
        return self.take([*range(first, first + min(self.batch_size, most or self.batch_size))])


def example_batches(
    num_examples: int, batch_size: int, seed: int, take: Callable[[Array], Any]
) -> SlicedBatches:
    """Every epoch in another order; `take` returns the examples with some numbers, as a batch."""

    @lru_cache(maxsize=2)  # a batch may reach from one epoch into the next
    def order(epoch: int) -> Array:
        return np.random.default_rng((seed, epoch)).permutation(num_examples)

    def shuffled(numbers: list[int]) -> Any:
        return take(np.array([order(n // num_examples)[n % num_examples] for n in numbers]))

    return SlicedBatches(shuffled, batch_size, num_examples / batch_size)
