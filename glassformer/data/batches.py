"""Batches: which rows, pairs, captions or windows of a corpus a model reads at a step.

    labelled rows    sorted by length within a pool of batches, and padded
    sentence pairs   sorted by length, with about the same number of tokens in each batch
    captions         with the images that they describe, which are read once each
    windows          of a corpus that is one long sequence of tokens

Everything is stored end to end in memory-mapped files. What batch n contains is a pure function of
(seed, n), so a resumed run needs no saved position.
"""

from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from glassformer.data.image_store import ImageStore
from glassformer.data.images import Pixels
from glassformer.data.rows import ENDING, Array, stored_rows, write_columns, write_rows
from glassformer.errors import GlassformerError
from glassformer.text.word_cache import Ids, id_type
from glassformer.wording import cause

# --- padded rows ---
#
#     The film is fine .           5 tokens
#     A long and winding tale …   61 tokens
#
# A batch is as wide as its longest row; shorter rows are padded, which wastes computation. So rows
# of similar length are batched together: rows are shuffled, sorted by length within a pool of
# batches, and the batches are shuffled again. No padding token is needed, since a batch carries a
# mask: so any vocabulary works.

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

    def select(self, indices: Array) -> "Rows":
        """Only the rows with these indices."""
        return Rows(*end_to_end([self.row(index) for index in indices], self.items.dtype))

    def padded(self, indices: Array) -> tuple[Array, Array, Array]:
        """The rows with these indices, padded to the longest: (B, T) or (B, T, F) items, a mask of
        what is not padding, and the position in `items` of every item."""
        lengths = self.lengths[indices]
        position = np.arange(lengths.max(initial=1))
        is_real = position < lengths[:, None]  # (B, T)
        starts = self._ends[indices] - lengths
        origins = np.where(is_real, starts[:, None] + position, 0)
        items = self.items[origins]  # (B, T) or (B, T, F)
        items = items.astype(np.float32 if items.dtype.kind == "f" else np.int64)
        items[~is_real] = 0
        return items, is_real, origins


class LabelledRows(Rows):
    """Rows with a target for each row, or for each item of a row."""

    def __init__(
        self, items: Array, lengths: Array, targets: Array, is_per_item: bool | None = None
    ) -> None:
        """`is_per_item`: whether targets belong to items; needed if every row has one item."""
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
        """Make rows of lists, with one target or several for each row, or one for each item."""
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
        rows = np.fromiter(indices, dtype=np.int64)
        items, is_real, origins = self.padded(rows)
        if self.is_per_item:
            targets = np.where(is_real, self.targets[origins], IGNORED)
        else:
            targets = self.targets[rows].astype(np.int64)
        return LabelledBatch(*map(torch.from_numpy, (items, is_real, targets)))


def end_to_end(rows: Sequence[Any], dtype: npt.DTypeLike) -> tuple[Array, Array]:
    """The items of all rows, and the length of each row."""
    items = np.concatenate([np.asarray(row, dtype=dtype) for row in rows])
    return items, np.array([len(row) for row in rows], dtype=np.int64)


class BatchSampler:
    """The row indices of each batch; batches are numbered across epochs."""

    per_epoch: int
    _epoch = -1
    _batches: list[Array]

    def __init__(self, lengths: Array, seed: int) -> None:
        self.lengths = np.atleast_2d(lengths)  # (1, N), or (2, N) for pairs of rows
        self.seed = seed

    def __getitem__(self, number: int) -> Array:
        epoch, index = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._draw(epoch)
        return self._batches[index]

    def _draw(self, epoch: int) -> list[Array]:
        random = np.random.default_rng((self.seed, epoch))
        batches = self._cut(random.permutation(self.lengths.shape[1]))
        return [batches[index] for index in random.permutation(len(batches))]

    def _cut(self, order: Array) -> list[Array]:
        """Cut rows in random order into batches of similar length."""
        raise NotImplementedError

    def padding(self) -> float:
        """Fraction of the first epoch's batches that is padding."""
        widths = [self.lengths[:, rows].max(axis=1) * len(rows) for rows in self._draw(epoch=0)]
        return 1 - float(self.lengths.sum() / np.sum(widths))


class Buckets(BatchSampler):
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
    for position, length in enumerate(lengths[order]):
        num_rows = position - edges[-1]
        if num_rows and (length * (num_rows + 1) > most_items or num_rows == most_rows):
            edges.append(position)
    return np.split(order, edges[1:]) if len(order) else []


# --- sentence pairs ---
#
#     A man sleeps .              Ein Mann schläft .
#     Two dogs run .              Zwei Hunde laufen .         the same lengths: one batch
#
# All pairs are sorted by length and cut into batches, each as wide as its longest row; a batch of
# short sentences contains more of them. Pairs of equal length and the order of the batches are
# shuffled in every epoch. A batch is limited by tokens, not rows: `per_device_train_batch_size` is
# the number of pairs in an average batch, so that it means the same for every sentence length.

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
        """The start token and all but the last token of each target: (B, T - 1). The decoder reads
        the right tokens, not its own predictions (teacher forcing)."""
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

    def select(self, indices: Array) -> "PairedRows":
        """Only the pairs with these indices."""
        return PairedRows(self.source.select(indices), self.target.select(indices))

    @property
    def num_items(self) -> int:
        return self.source.num_items + self.target.num_items

    def batch(self, indices: Iterable[int]) -> PairBatch:
        rows = np.fromiter(indices, dtype=np.int64)
        source, target = self.source.padded(rows)[:2], self.target.padded(rows)[:2]
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
            for file, side_lengths, rows in zip(files, lengths, batch, strict=True):
                side_lengths.extend(len(row) // size for row in rows)
                file.write(b"".join(rows))
    return PairLengths(*(np.array(side_lengths, np.int32) for side_lengths in lengths))


def finish_pairs(
    path: Path, lengths: PairLengths, is_kept: Array, dtype: npt.DTypeLike
) -> PairLengths:
    """Remove the pairs that are not kept, and write the lengths of the others."""
    for side, side_lengths in zip(_sides(path), lengths, strict=True):
        if not is_kept.all():
            _compact(side.with_suffix(ENDING), side_lengths, is_kept, np.dtype(dtype))
        write_columns(side, dtype, None, lengths=side_lengths[is_kept])
    return PairLengths(*(side_lengths[is_kept] for side_lengths in lengths))


def _compact(path: Path, lengths: Array, is_kept: Array, dtype: np.dtype[Any]) -> None:
    """Move the rows that are kept to the beginning of the file, and cut off the rest."""
    done, written = 0, 0
    with path.open("r+b") as file:
        for first in range(0, len(lengths), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            size = int(lengths[part].sum()) * dtype.itemsize
            file.seek(done)
            items = np.frombuffer(file.read(size), dtype)
            remaining = items[np.repeat(is_kept[part], lengths[part])].tobytes()
            file.seek(written)
            file.write(remaining)
            done, written = done + size, written + len(remaining)
        file.truncate(written)


def _sides(path: Path) -> list[Path]:
    """train.safetensors → train_source.safetensors, train_target.safetensors"""
    return [path.with_stem(f"{path.stem}_{side}") for side in ("source", "target")]


class PairBuckets(BatchSampler):
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


# --- images with captions ---
#
#     images      0       1       2               read once each
#     captions    a b c   d       e f             the captions of an image are consecutive rows
#
# An epoch shows every image once. An image with more captions than fit in a batch shows some of
# them, and others in the next epochs, until all have had their turn.


class CaptionBatch(NamedTuple):
    """Images, and captions padded on the right."""

    pixels: Tensor  # (B, C, H, W)
    images: Tensor  # (R,): the image of each caption
    captions: Tensor  # (R, T)
    is_learned: Tensor  # (R, T): neither padding nor an unknown word

    def memory(self, model: Any) -> Any:
        """What a captioner makes of the image of each caption."""
        return model.encode(self.pixels).take(self.images)

    @property
    def decoder_input(self) -> Tensor:
        return self.captions[:, :-1]

    @property
    def decoder_targets(self) -> tuple[Tensor, Tensor]:
        """What each token of the input should be followed by, and where that is to be learned."""
        return self.captions[:, 1:], self.is_learned[:, 1:]


class ChosenImages:
    """Some of the images in a store, by their index among those."""

    def __init__(self, store: ImageStore, numbers: Array) -> None:
        self.store, self.numbers = store, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, indices: Any) -> Pixels:
        """uint8 (B, H, W, C)"""
        return self.store[self.numbers[indices]]


class CaptionRows:
    """The captions of images, as rows of tokens. Those of an image are consecutive."""

    def __init__(self, rows: Rows, counts: Array, numbers: Array) -> None:
        """`counts` is the number of captions of each image, `numbers` its number in a store."""
        if counts.sum() != len(rows):
            raise ValueError("the captions and their counts do not match")
        self.rows = rows
        self.counts = counts
        self.numbers = numbers
        self.firsts = np.cumsum(counts) - counts

    @classmethod
    def of(
        cls,
        captions: Sequence[Sequence[Sequence[int]]],
        numbers: Sequence[int],
        dtype: npt.DTypeLike,
    ) -> "CaptionRows":
        """Make rows of the captions of each image, and of its number in a store."""
        rows = [row for texts in captions for row in texts]
        counts = np.array([len(texts) for texts in captions], dtype=np.int64)
        return cls(Rows(*end_to_end(rows, dtype)), counts, np.array(numbers, dtype=np.int64))

    @classmethod
    def load(cls, path: Path) -> "CaptionRows":
        with stored_rows(path, "captions") as (items, columns):
            return cls(Rows(items, columns["lengths"]), columns["counts"], columns["numbers"])

    def save(self, path: Path) -> None:
        write_rows(path, [self.rows.items], self.rows.items.dtype)
        columns = {"lengths": self.rows.lengths, "counts": self.counts, "numbers": self.numbers}
        write_columns(path, self.rows.items.dtype, None, **columns)

    def __len__(self) -> int:
        return len(self.counts)

    def rows_of(self, images: Array) -> tuple[Array, Array]:
        """The rows of all captions of these images, and the index of the image of each row."""
        counts = self.counts[images]
        owners = np.repeat(np.arange(len(images)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.firsts[images][owners] + within, owners

    def padded(self, indices: Array, unknown: int | None) -> tuple[Tensor, Tensor]:
        """Rows padded to the longest, and where a token can be learned: (R, T) each. Unknown words
        are read, but are no targets, so that a captioner never learns to write them."""
        ids, is_text, _ = self.rows.padded(indices)
        if unknown is not None:
            is_text = is_text & (ids != unknown)
        return torch.from_numpy(ids), torch.from_numpy(is_text)


class CaptionTurns:
    """The order of images in training, and of their captions: at most `most` of each image."""

    def __init__(self, captions: CaptionRows, most: int, seed: int) -> None:
        self.captions, self.most, self.seed = captions, most, seed
        self._images = lru_cache(maxsize=2)(self._shuffled_images)  # a batch may be in two epochs
        self._turns = lru_cache(maxsize=4096)(self._shuffled_captions)

    def images(self, numbers: range) -> Array:
        """The images with these numbers, counted from the start of training."""
        total = len(self.captions)
        return np.array([self._images(n // total)[n % total] for n in numbers])

    def rows(self, numbers: range) -> tuple[Array, Array]:
        """The captions that come with `images(numbers)`, and the index of the image of each."""
        rows, owners = list[int](), list[int]()
        for owner, (number, image) in enumerate(zip(numbers, self.images(numbers), strict=True)):
            captions = self._captions_of(int(image), number // len(self.captions))
            rows += captions
            owners += [owner] * len(captions)
        return np.array(rows), np.array(owners)

    def _captions_of(self, image: int, epoch: int) -> list[int]:
        first, count = int(self.captions.firsts[image]), int(self.captions.counts[image])
        if count <= self.most:
            return [*range(first, first + count)]
        turns = range(epoch * self.most, (epoch + 1) * self.most)
        return [first + int(self._turns(image, turn // count)[turn % count]) for turn in turns]

    def _shuffled_images(self, epoch: int) -> Array:
        return np.random.default_rng((self.seed, epoch)).permutation(len(self.captions))

    def _shuffled_captions(self, image: int, round: int) -> Array:
        """The order of the captions of an image in a round, each of them once."""
        count = int(self.captions.counts[image])
        return np.random.default_rng((self.seed, image, round)).permutation(count)


# --- windows of a corpus ---
#
#     ⟨end⟩ first document ⟨end⟩ second document ⟨end⟩ …
#
# The file is memory-mapped: only the windows that are read are in memory.

WindowBatch = npt.NDArray[np.int64]


def write_tokens(file: IO[bytes], pieces: Iterable[Ids]) -> int:
    """Append ids to a file. Returns how many."""
    return sum(file.write(piece.tobytes()) // piece.itemsize for piece in pieces)


def open_tokens(file: Path | IO[bytes], vocab_size: int) -> Ids:
    """The ids, memory-mapped read-only."""
    try:
        return np.memmap(file, dtype=id_type(vocab_size), mode="r")
    except (OSError, ValueError) as error:
        raise GlassformerError(f"{file} cannot be read as tokens: {cause(error)}.") from None


class Windows(Dataset[WindowBatch]):
    """Windows of `context_length` inputs and their targets, shifted by one.

    Every epoch cuts the text at a new random offset and shuffles the windows, so each token is read
    once per epoch, with a different context. Only the remainder at the two ends, less than two
    windows, is skipped in an epoch. Needs more ids than one window.
    """

    def __init__(self, ids: Ids, context_length: int, seed: int) -> None:
        self.ids = ids
        self.context_length = context_length
        self.seed = seed
        self.per_epoch = max(1, len(ids) // context_length - 1)
        self.slack = len(ids) - self.per_epoch * context_length  # offsets to choose from
        self._epoch = -1
        self._starts: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def __getitems__(self, numbers: list[int]) -> WindowBatch:
        """(B, T + 1): the windows with these numbers, counted from the start of training."""
        starts = np.array([self._start(number) for number in numbers])
        return self.ids[starts[:, None] + np.arange(self.context_length + 1)].astype(np.int64)

    def _start(self, number: int) -> int:
        epoch, index = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            random = np.random.default_rng((self.seed, epoch))
            offset = random.integers(self.slack)
            order = random.permutation(self.per_epoch)
            self._epoch, self._starts = epoch, offset + order * self.context_length
        return int(self._starts[index])


class ValidationWindows(Dataset[WindowBatch]):
    """A text in adjacent windows, read once: every token except the first is predicted.

    The last window may be shorter and is then a separate batch.
    """

    def __init__(self, ids: Ids, context_length: int, batch_size: int) -> None:
        self.ids = ids
        self.context_length = context_length
        self.batch_size = batch_size
        self.full = (len(ids) - 1) // context_length
        self.rest = (len(ids) - 1) % context_length

    def __len__(self) -> int:
        """Number of batches."""
        return -(-self.full // self.batch_size) + (self.rest > 0)

    def __getitem__(self, number: int) -> WindowBatch:
        """(B, T + 1): batch `number`."""
        first = min(number * self.batch_size, self.full)
        windows = np.arange(first, min(first + self.batch_size, self.full))
        length = self.context_length
        if len(windows) == 0:  # only the short window is left
            windows, length = np.array([self.full]), self.rest
        starts = windows * self.context_length
        return self.ids[starts[:, None] + np.arange(length + 1)].astype(np.int64)
