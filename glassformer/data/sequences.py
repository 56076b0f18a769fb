"""Sequences of different lengths: on disk end to end, in batches side by side.

    The film is fine .           5 tokens
    A long and winding tale …   61 tokens

A batch is as wide as its longest row; what the others lack is padding, computed for nothing. So
rows of about the same length are put together: drawn at random, sorted within a pool of batches,
and the batches shuffled again. Which rows make up which batch is a pure function of the seed and
the batch's number.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from glassformer.errors import GlassformerError

POOL = 64  # batches that are sorted by length together
Array = npt.NDArray[Any]


class Batch(NamedTuple):
    """Rows padded on the right: (B, T) ids or (B, T, F) numbers, which are real, what to say."""

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
            raise ValueError("items and lengths do not belong together")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def num_items(self) -> int:
        return len(self.items)

    def row(self, index: int) -> Array:
        return self.items[self._ends[index] - self.lengths[index] : self._ends[index]]

    def taken(self, numbers: Array) -> "Rows":
        """Only the rows with these numbers."""
        rows = [self.row(number) for number in numbers]
        return Rows(*end_to_end(rows, self.items.dtype))

    def padded(self, indices: Array) -> tuple[Array, Array, Array]:
        """The rows with these numbers, as wide as the longest: (B, T) or (B, T, F) items, which
        are real, and where each stands in `items`."""
        lengths = self.lengths[indices]
        place = np.arange(lengths.max(initial=1))
        is_real = place < lengths[:, None]  # (B, T)
        starts = self._ends[indices] - lengths
        where = np.where(is_real, starts[:, None] + place, 0)
        items = self.items[where]  # (B, T) or (B, T, F)
        items = items.astype(np.float32 if items.dtype.kind == "f" else np.int64)
        items[~is_real] = 0
        return items, is_real, where


class Sequences(Rows):
    """Rows with a target for each, or for each of its items."""

    def __init__(
        self, items: Array, lengths: Array, targets: Array, is_per_item: bool | None = None
    ) -> None:
        """Where every row has one item, only `is_per_item` can tell what a target belongs to."""
        super().__init__(items, lengths)
        self.targets = targets
        if is_per_item is None:
            is_per_item = len(targets) == len(items) and len(items) != len(lengths)
        self.is_per_item = is_per_item
        if len(targets) != len(items if is_per_item else lengths):
            raise ValueError("rows and targets do not belong together")

    @classmethod
    def of(
        cls,
        rows: Sequence[Any],
        targets: Sequence[Any] | Array,
        dtype: npt.DTypeLike,
        is_per_item: bool | None = None,
    ) -> "Sequences":
        """From lists; a target for each row, be it a number or several, or one for each item."""
        return cls(*end_to_end(rows, dtype), np.asarray(targets, dtype=np.int64), is_per_item)

    @classmethod
    def load(cls, path: Path) -> "Sequences":
        stored = load_arrays(path)
        try:
            is_per_item = bool(stored["is_per_item"])
            return cls(stored["items"], stored["lengths"], stored["targets"], is_per_item)
        except (KeyError, ValueError) as error:
            raise GlassformerError(f"{path} cannot be read as examples: {error}.") from None

    def save(self, path: Path) -> None:
        save_arrays(
            path,
            items=self.items,
            lengths=self.lengths,
            targets=self.targets,
            is_per_item=np.array(self.is_per_item),
        )

    def targets_of(self, index: int) -> Array:
        """Of each item of a row."""
        return self.targets[self._ends[index] - self.lengths[index] : self._ends[index]]

    def batch(self, indices: Iterable[int]) -> Batch:
        """The rows with these numbers, as wide as the longest."""
        chosen = np.fromiter(indices, dtype=np.int64)
        items, is_real, where = self.padded(chosen)
        if self.is_per_item:
            targets = np.where(is_real, self.targets[where], IGNORED)
        else:
            targets = self.targets[chosen]
        return Batch(*map(torch.from_numpy, (items, is_real, targets)))


def end_to_end(rows: Sequence[Any], dtype: npt.DTypeLike) -> tuple[Array, Array]:
    """The items of all rows, and how many each row has."""
    items = np.concatenate([np.asarray(row, dtype=dtype) for row in rows])
    return items, np.array([len(row) for row in rows], dtype=np.int64)


def save_arrays(path: Path, **arrays: Array) -> None:
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def load_arrays(path: Path) -> dict[str, Array]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise GlassformerError(f"{path} cannot be read as examples: {error}.") from None


IGNORED = -100  # a target that no loss counts: torch's own number for it


class Buckets:
    """The rows of each batch, in order of their numbers, epoch after epoch."""

    def __init__(self, lengths: Array, batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.per_epoch = -(-len(lengths) // batch_size)
        self._epoch = -1
        self._batches: list[Array] = []

    def __getitem__(self, number: int) -> Array:
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._draw(epoch)
        return self._batches[place]

    def _draw(self, epoch: int) -> list[Array]:
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(len(self.lengths))
        pool = POOL * self.batch_size
        pools = (order[start : start + pool] for start in range(0, len(order), pool))
        by_length = np.concatenate([p[np.argsort(self.lengths[p], kind="stable")] for p in pools])
        edges = range(self.batch_size, len(order), self.batch_size)
        batches = np.split(by_length, edges)
        return [batches[place] for place in random.permutation(len(batches))]

    def padding(self) -> float:
        """Share of the first epoch's batches that is padding."""
        batches = [self.lengths[rows] for rows in self._draw(epoch=0)]
        width = sum(int(lengths.max()) * len(lengths) for lengths in batches)
        return 1 - int(self.lengths.sum()) / width


def sorted_batches(lengths: Array, most_items: int) -> list[Array]:
    """All rows once, alike in length, in batches of at most so many items with their padding."""
    order = np.argsort(lengths, kind="stable")
    batches: list[Array] = []
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and lengths[order[stop]] * (stop + 1 - start) <= most_items:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches
