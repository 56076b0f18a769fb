"""What tasks with rows of different lengths share, be they texts or pairs of sentences: batches of
rows that are alike in length."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from glassformer.data.sequences import Array
from glassformer.training.tasks.task import Task


class Batches(Protocol):
    """Which rows stand together in which batch, epoch after epoch."""

    @property
    def per_epoch(self) -> int: ...

    def __getitem__(self, number: int) -> Array: ...

    def padding(self) -> float: ...


@dataclass(frozen=True)
class RowsTask(Task):
    """Rows to learn from, and rows held out."""

    training: Any
    validation: Any

    @abstractmethod
    def batches(self, batch_size: int) -> Batches: ...

    @cached_property
    def buckets(self) -> Batches:
        return self.batches(self.recipe.decided.per_device_train_batch_size)

    @cached_property
    def padding(self) -> float:
        """Share of the batches that is computed for nothing."""
        return self.buckets.padding()

    @property
    def num_tokens(self) -> int:
        return int(self.training.num_items)

    @property
    def num_validation_tokens(self) -> int:
        return int(self.validation.num_items)

    def tokens_per_item(self, model: Any) -> float:
        return self.num_tokens / len(self.training)

    def steps_per_epoch(self, chosen: dict[str, Any], tokens_per_step: float) -> float:
        batches = self.batches(chosen["per_device_train_batch_size"]).per_epoch
        return batches / chosen["gradient_accumulation_steps"]

    def batch(self, number: int, most: int | None = None) -> Any:
        return self.training.batch(self.buckets[number][:most])
