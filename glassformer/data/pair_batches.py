"""Batches of source and target rows with about the same number of tokens.

    A man sleeps .              Ein Mann schläft .
    Two dogs run .              Zwei Hunde laufen .         the same lengths: one batch

All pairs are sorted by length and cut into batches, each as wide as its longest row; a batch of
short sentences contains more of them. Pairs of equal length and the order of the batches are
shuffled in every epoch. The pairs of a batch depend only on the seed and its number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.data.padded_batches import (
    Array,
    Batches,
    Rows,
    end_to_end,
    save_arrays,
    stored_arrays,
)


class PairBatch(NamedTuple):
    """Rows padded on the right: (B, S) and (B, T) ids, each with a mask of what is not padding."""

    source: Tensor
    source_is_text: Tensor
    target: Tensor
    target_is_text: Tensor

    @property
    def decoder_input(self) -> Tensor:
        """The start token and all but the last token of each target: (B, T - 1)."""
        return self.target[:, :-1]

    @property
    def decoder_targets(self) -> tuple[Tensor, Tensor]:
        """What the decoder should predict, one token further on, and where it is not padding."""
        return self.target[:, 1:], self.target_is_text[:, 1:]


@dataclass(frozen=True)
class PairedRows:
    """Source rows and their target rows."""

    source: Rows
    target: Rows

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError("sources and targets differ in number")

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
        with stored_arrays(path, "pairs") as stored:
            source = Rows(stored["source_items"], stored["source_lengths"])
            return cls(source, Rows(stored["target_items"], stored["target_lengths"]))

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
        """Only the pairs with these indices."""
        return PairedRows(self.source.taken(numbers), self.target.taken(numbers))

    @property
    def num_items(self) -> int:
        return self.source.num_items + self.target.num_items

    def batch(self, indices: Iterable[int]) -> PairBatch:
        chosen = np.fromiter(indices, dtype=np.int64)
        source, target = self.source.padded(chosen)[:2], self.target.padded(chosen)[:2]
        return PairBatch(*map(torch.from_numpy, (*source, *target)))


class PairBuckets(Batches):
    """Batches of about the same number of tokens."""

    def __init__(self, pairs: PairedRows, most_items: int, seed: int) -> None:
        """`most_items` limits the tokens of a batch, on both sides and with padding."""
        super().__init__(np.stack((pairs.target.lengths, pairs.source.lengths)), seed)
        self._edges = self._places_to_cut(most_items)
        self.per_epoch = len(self._edges) + 1

    def _places_to_cut(self, most_items: int) -> list[int]:
        """Positions in the sorted pairs: the same in every epoch, whatever the order of equals."""
        sizes = self.lengths[:, np.lexsort(self.lengths[::-1])].T.tolist()
        edges, first, widest = [], 0, (0, 0)
        for place, (target, source) in enumerate(sizes):
            widest = (max(widest[0], target), max(widest[1], source))
            if place > first and (place + 1 - first) * sum(widest) > most_items:
                edges.append(place)
                first, widest = place, (target, source)
        return edges

    def _cut(self, order: Array) -> list[Array]:
        keys = (order, self.lengths[1], self.lengths[0])  # the last key is the primary one
        return np.split(np.lexsort(keys), self._edges)
