"""Pairs of rows, source and target, in batches of about as many tokens.

    A man sleeps .              Ein Mann schläft .
    Two dogs run .              Zwei Hunde laufen .         the same lengths: one batch

All pairs are sorted by their lengths and cut into batches, each as wide as its longest row; a batch
of short sentences has more of them. Which pairs of equal length stand together, and in which order
the batches come, is drawn anew for every epoch: a pure function of the seed and the batch's number.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.data.sequences import Array, Rows, end_to_end, load_arrays, save_arrays
from glassformer.errors import GlassformerError


class PairBatch(NamedTuple):
    """Rows padded on the right: (B, S) and (B, T) ids, and which of them are real."""

    source: Tensor
    source_is_text: Tensor
    target: Tensor
    target_is_text: Tensor


class PairedRows:
    """Rows of two kinds that belong together, one by one."""

    def __init__(self, source: Rows, target: Rows) -> None:
        if len(source) != len(target):
            raise ValueError("there is not a target for every source")
        self.source = source
        self.target = target

    @classmethod
    def of(
        cls,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        dtype: npt.DTypeLike,
    ) -> "PairedRows":
        return cls(Rows(*end_to_end(sources, dtype)), Rows(*end_to_end(targets, dtype)))

    @classmethod
    def load(cls, path: Path) -> "PairedRows":
        stored = load_arrays(path)
        try:
            source, target = (
                Rows(stored[f"{side}_items"], stored[f"{side}_lengths"])
                for side in ("source", "target")
            )
            return cls(source, target)
        except (KeyError, ValueError) as error:
            raise GlassformerError(f"{path} cannot be read as pairs: {error}.") from None

    def save(self, path: Path) -> None:
        save_arrays(
            path,
            source_items=self.source.items,
            source_lengths=self.source.lengths,
            target_items=self.target.items,
            target_lengths=self.target.lengths,
        )

    def __len__(self) -> int:
        return len(self.source)

    def taken(self, numbers: Array) -> "PairedRows":
        """Only the pairs with these numbers."""
        return PairedRows(self.source.taken(numbers), self.target.taken(numbers))

    @property
    def num_items(self) -> int:
        return self.source.num_items + self.target.num_items

    def batch(self, indices: Iterable[int]) -> PairBatch:
        chosen = np.fromiter(indices, dtype=np.int64)
        source, target = self.source.padded(chosen)[:2], self.target.padded(chosen)[:2]
        return PairBatch(*map(torch.from_numpy, (*source, *target)))


class PairBuckets:
    """The pairs of each batch, in order of their numbers, epoch after epoch."""

    def __init__(self, pairs: PairedRows, most_items: int, seed: int) -> None:
        """`most_items` is how many tokens a batch may have on both sides, with its padding."""
        self.lengths = np.stack((pairs.target.lengths, pairs.source.lengths))  # (2, N)
        self.most_items = most_items
        self.seed = seed
        self._epoch = -1
        self._batches: list[Array] = []

    @cached_property
    def _edges(self) -> list[int]:
        """Where the sorted pairs are cut: the same in every epoch, since only equals change."""
        sizes = self.lengths[:, np.lexsort(self.lengths[::-1])].T.tolist()
        edges, first, widest = [], 0, (0, 0)
        for place, (target, source) in enumerate(sizes):
            widest = (max(widest[0], target), max(widest[1], source))
            if place > first and (place + 1 - first) * sum(widest) > self.most_items:
                edges.append(place)
                first, widest = place, (target, source)
        return edges

    @property
    def per_epoch(self) -> int:
        return len(self._edges) + 1

    def __getitem__(self, number: int) -> Array:
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._draw(epoch)
        return self._batches[place]

    def _draw(self, epoch: int) -> list[Array]:
        random = np.random.default_rng((self.seed, epoch))
        lot = random.permutation(self.lengths.shape[1])
        by_length = np.lexsort(
            (lot, self.lengths[1], self.lengths[0])
        )  # the last key decides first
        batches = np.split(by_length, self._edges)
        return [batches[place] for place in random.permutation(len(batches))]

    def padding(self) -> float:
        """Share of the batches that is padding."""
        widths = [self.lengths[:, rows].max(axis=1).sum() * len(rows) for rows in self._draw(0)]
        return 1 - float(self.lengths.sum() / sum(widths))
