"""Batches of source and target rows with about the same number of tokens.

    A man sleeps .              Ein Mann schläft .
    Two dogs run .              Zwei Hunde laufen .         the same lengths: one batch

All pairs are sorted by length and cut into batches, each as wide as its longest row; a batch of
short sentences contains more of them. Pairs of equal length and the order of the batches are
shuffled in every epoch. The pairs of a batch depend only on the seed and its number.
"""

from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.data.padded_batches import Batches, Rows, end_to_end
from glassformer.data.rows import ENDING, Array, stored_rows, write_columns

_ROWS_AT_ONCE = 10_000


class PairBatch(NamedTuple):
    """Rows padded on the right: (B, S) and (B, T) ids, each with a mask of what is not padding."""

    source: Tensor
    source_is_text: Tensor
    target: Tensor
    target_is_text: Tensor

    def memory(self, model: Any) -> Any:
        """What a translator makes of the sources."""
        return model.encode(self.source, self.source_is_text)

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
        sides = []
        for side in _sides(path):
            with stored_rows(side, "pairs") as (items, columns):
                sides.append(Rows(items, columns["lengths"]))
        return cls(*sides)

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


class PairLengths(NamedTuple):
    """The length of each source row and of each target row."""

    source: Array
    target: Array


def write_pairs(
    path: Path, batches: Iterable[tuple[list[bytes], list[bytes]]], dtype: npt.DTypeLike
) -> PairLengths:
    """Write the items of source rows and target rows, which come in batches, each row as the bytes
    of its items. Returns the lengths, with which `finish_pairs` completes the files."""
    size = np.dtype(dtype).itemsize
    lengths = array("i"), array("i")
    with ExitStack() as stack:
        paths = [side.with_suffix(ENDING) for side in _sides(path)]
        files = [stack.enter_context(side.open("wb", buffering=2**20)) for side in paths]
        for batch in batches:
            for file, known, rows in zip(files, lengths, batch, strict=True):
                known.extend(len(row) // size for row in rows)
                file.write(b"".join(rows))
    return PairLengths(*(np.array(known, np.int32) for known in lengths))


def finish_pairs(
    path: Path, lengths: PairLengths, is_kept: Array, dtype: npt.DTypeLike
) -> PairLengths:
    """Remove the pairs that are not kept, and write the lengths of the others."""
    for side, each in zip(_sides(path), lengths, strict=True):
        if not is_kept.all():
            _compact(side.with_suffix(ENDING), each, is_kept, np.dtype(dtype))
        write_columns(side, dtype, None, lengths=each[is_kept])
    return PairLengths(*(each[is_kept] for each in lengths))


def _compact(path: Path, lengths: Array, is_kept: Array, dtype: np.dtype[Any]) -> None:
    """Move the rows that are kept to the beginning of the file, and cut off the rest."""
    done, written = 0, 0
    with path.open("r+b") as file:
        for first in range(0, len(lengths), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            size = int(lengths[part].sum()) * dtype.itemsize
            file.seek(done)
            items = np.frombuffer(file.read(size), dtype)
            kept = items[np.repeat(is_kept[part], lengths[part])].tobytes()
            file.seek(written)
            file.write(kept)
            done, written = done + size, written + len(kept)
        file.truncate(written)


def _sides(path: Path) -> list[Path]:
    """train.safetensors → train_source.safetensors, train_target.safetensors"""
    return [path.with_stem(f"{path.stem}_{side}") for side in ("source", "target")]


class PairBuckets(Batches):
    """Batches of about the same number of tokens."""

    def __init__(self, pairs: PairedRows, most_items: int, seed: int) -> None:
        """`most_items` limits the tokens of a batch, on both sides and with padding."""
        super().__init__(np.stack((pairs.target.lengths, pairs.source.lengths)), seed)
        self._edges = self._places_to_cut(most_items)
        self.per_epoch = len(self._edges) + 1

    def _places_to_cut(self, most_items: int) -> list[int]:
        """Positions in the sorted pairs: the same in every epoch, whatever the order of equals."""
        targets, sources = self.lengths[:, np.lexsort(self.lengths[::-1])]
        edges, first = list[int](), 0
        while True:
            # No batch has more pairs than if all were as short as its first.
            most = max(1, most_items // int(targets[first] + sources[first]))
            part = slice(first, first + most + 1)
            widths = targets[part] + np.maximum.accumulate(sources[part])  # targets are sorted
            is_full = widths.astype(np.int64) * np.arange(1, len(widths) + 1) > most_items
            is_full[0] = False  # a pair that is too long is a batch of its own
            if not is_full.any():
                return edges
            first += int(is_full.argmax())
            edges.append(first)

    def _cut(self, order: Array) -> list[Array]:
        keys = (order, self.lengths[1], self.lengths[0])  # the last key is the primary one
        return np.split(np.lexsort(keys), self._edges)
