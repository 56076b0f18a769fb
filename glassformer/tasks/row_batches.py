"""Batches of rows: rows of similar length together, or rows that are all of one size."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from glassformer.data.padded_batches import Buckets
from glassformer.data.pair_batches import PairBuckets
from glassformer.data.rows import Array
from glassformer.errors import UsageError
from glassformer.tasks.task import Batches, Dataset
from glassformer.wording import counted

TRAIN = "train.safetensors"  # in the folder of a dataset
ALWAYS_ALLOWED = 1024  # rows of a batch: more than the data has only costs memory


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

    def batches(self, batch_size: int, seed: int) -> Batches:
        buckets = self.buckets(batch_size, seed)
        return Batches(buckets.__getitem__, self.training.batch, buckets.per_epoch)

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
            f"{self.amount}, {counted(self.num_items, self.unit)}; {self.num_held_out:,} held out; "
            f"{self.padding:.1%} of the batches is padding"
        )

    def facts(self) -> dict[str, Any]:
        return {
            f"num_{self.row_name}s": len(self.training),
            f"num_validation_{self.row_name}s": self.num_held_out,
            f"num_{self.unit}s": self.num_items,
            "padding": self.padding,
        }


def sliced_batches(take: Callable[[Any], Any], batch_size: int, per_epoch: float) -> Batches:
    """Batches of rows that are all of one size and numbered from the start of training."""
    num_rows = round(per_epoch * batch_size)
    if batch_size > max(num_rows, ALWAYS_ALLOWED):
        raise UsageError(
            f"training.per_device_train_batch_size is {batch_size:,}, but the training data makes "
            f"only {counted(num_rows, 'row')}. Pass {max(num_rows, ALWAYS_ALLOWED):,} or less."
        )
    return Batches(lambda n: range(n * batch_size, (n + 1) * batch_size), take, per_epoch)


def example_batches(
    num_examples: int, batch_size: int, seed: int, take: Callable[[Array], Any]
) -> Batches:
    """Every epoch in another order; `take` returns the examples with some numbers, as a batch."""

    @lru_cache(maxsize=2)  # a batch may reach from one epoch into the next
    def order(epoch: int) -> Array:
        return np.random.default_rng((seed, epoch)).permutation(num_examples)

    def shuffled(numbers: range) -> Any:
        return take(np.array([order(n // num_examples)[n % num_examples] for n in numbers]))

    return sliced_batches(shuffled, batch_size, num_examples / batch_size)
