"""Batches of padded rows, from sequences that are stored end to end.

    The film is fine .           5 tokens
    A long and winding tale …   61 tokens

A batch is as wide as its longest row; shorter rows are padded, which wastes computation. So rows of
similar length are batched together: rows are shuffled, sorted by length within a pool of batches,
and the batches are shuffled again. The rows of a batch depend only on the seed and its number.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.data.rows import Array, stored_rows, write_columns, write_rows

POOL = 64  # batches that are sorted by length together
IGNORED = -100  # a target that the loss ignores: torch's default


class LabelledBatch(NamedTuple):
    """Rows padded on the right, (B, T) ids or (B, T, F) numbers; a mask of what is not padding."""

    ids: Tensor
    is_text: Tensor
    targets: Tensor


class Rows:
    """Rows of tokens or of numbers."""

    def __init__(self, items: Array, lengths: Array) -> None:
        self.items = items
        self.lengths = lengths
        self._ends = np.cumsum(lengths)
        if lengths.sum() != len(items):
            raise ValueError("items and lengths do not match")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def num_items(self) -> int:
        return len(self.items)

    def row(self, index: int) -> Array:
        return self.items[self._ends[index] - self.lengths[index] : self._ends[index]]

    def taken(self, numbers: Array) -> "Rows":
        """Only the rows with these indices."""
        return Rows(*end_to_end([self.row(number) for number in numbers], self.items.dtype))

    def padded(self, indices: Array) -> tuple[Array, Array, Array]:
        """The rows with these indices, padded to the longest: (B, T) or (B, T, F) items, a mask of
        what is not padding, and the position of each in `items`."""
        lengths = self.lengths[indices]
        place = np.arange(lengths.max(initial=1))
        is_real = place < lengths[:, None]  # (B, T)
        starts = self._ends[indices] - lengths
        where = np.where(is_real, starts[:, None] + place, 0)
        items = self.items[where]  # (B, T) or (B, T, F)
        items = items.astype(np.float32 if items.dtype.kind == "f" else np.int64)
        items[~is_real] = 0
        return items, is_real, where


class LabelledRows(Rows):
    """Rows with a target for each row, or for each item of a row."""

    def __init__(
        self, items: Array, lengths: Array, targets: Array, is_per_item: bool | None = None
    ) -> None:
        """If every row has one item, `is_per_item` decides what a target belongs to."""
        super().__init__(items, lengths)
        self.targets = targets
        if is_per_item is None:
            is_per_item = len(targets) == len(items) and len(items) != len(lengths)
        self.is_per_item = is_per_item
        if len(targets) != len(items if is_per_item else lengths):
            raise ValueError("rows and targets do not match")

    @classmethod
    def of(
        cls,
        rows: Sequence[Any],
        targets: Sequence[Any] | Array,
        dtype: npt.DTypeLike,
        is_per_item: bool | None = None,
    ) -> "LabelledRows":
        """From lists, with one target or several for each row, or one for each item."""
        return cls(*end_to_end(rows, dtype), np.asarray(targets, dtype=np.int64), is_per_item)

    @classmethod
    def load(cls, path: Path) -> "LabelledRows":
        with stored_rows(path, "examples") as (items, columns):
            is_per_item = bool(columns["is_per_item"])
            return cls(items, columns["lengths"], columns["targets"], is_per_item)

    def save(self, path: Path) -> None:
        write_rows(path, [self.items], self.items.dtype)
        width = None if self.items.ndim == 1 else self.items.shape[1]
        columns = {"lengths": self.lengths, "targets": self.targets}
        is_per_item = np.array(self.is_per_item)
        write_columns(path, self.items.dtype, width, **columns, is_per_item=is_per_item)

    def batch(self, indices: Iterable[int]) -> LabelledBatch:
        """The rows with these indices, padded to the longest."""
        chosen = np.fromiter(indices, dtype=np.int64)
        items, is_real, where = self.padded(chosen)
        if self.is_per_item:
            targets = np.where(is_real, self.targets[where], IGNORED)
        else:
            targets = self.targets[chosen].astype(np.int64)
        return LabelledBatch(*map(torch.from_numpy, (items, is_real, targets)))


def end_to_end(rows: Sequence[Any], dtype: npt.DTypeLike) -> tuple[Array, Array]:
    """The items of all rows, and the length of each row."""
    items = np.concatenate([np.asarray(row, dtype=dtype) for row in rows])
    return items, np.array([len(row) for row in rows], dtype=np.int64)


class Batches:
    """The row indices of each batch; batches are numbered across epochs."""

    per_epoch: int
    _epoch = -1
    _batches: list[Array]

    def __init__(self, lengths: Array, seed: int) -> None:
        self.lengths = np.atleast_2d(lengths)  # (1, N), or (2, N) for pairs of rows
        self.seed = seed

    def __getitem__(self, number: int) -> Array:
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._draw(epoch)
        return self._batches[place]

    def _draw(self, epoch: int) -> list[Array]:
        random = np.random.default_rng((self.seed, epoch))
        batches = self._cut(random.permutation(self.lengths.shape[1]))
        return [batches[place] for place in random.permutation(len(batches))]

    def _cut(self, order: Array) -> list[Array]:
        """Cut rows in random order into batches of similar length."""
        raise NotImplementedError

    def padding(self) -> float:
        """Fraction of the first epoch's batches that is padding."""
        widths = [self.lengths[:, rows].max(axis=1) * len(rows) for rows in self._draw(epoch=0)]
        return 1 - float(self.lengths.sum() / np.sum(widths))


class Buckets(Batches):
    """Batches of `batch_size` rows, sorted by length within a pool."""

    def __init__(self, lengths: Array, batch_size: int, seed: int) -> None:
        super().__init__(lengths, seed)
        self.batch_size = batch_size
        self.per_epoch = -(-len(lengths) // batch_size)

    def _cut(self, order: Array) -> list[Array]:
        lengths = self.lengths[0]
        pools = np.split(order, range(POOL * self.batch_size, len(order), POOL * self.batch_size))
        by_length = np.concatenate([pool[lengths[pool].argsort(kind="stable")] for pool in pools])
        return np.split(by_length, range(self.batch_size, len(order), self.batch_size))


def sorted_batches(lengths: Array, most_items: int, most_rows: int | None = None) -> list[Array]:
    """All rows once, sorted by length, in batches of at most `most_items` items with padding, and
    of at most `most_rows` rows."""
    order = np.argsort(lengths, kind="stable")
    most_rows = most_rows or len(order)
    edges = [0]
    for place, length in enumerate(lengths[order]):
        num_rows = place - edges[-1]
        if num_rows and (length * (num_rows + 1) > most_items or num_rows == most_rows):
            edges.append(place)
    return np.split(order, edges[1:]) if len(order) else []
