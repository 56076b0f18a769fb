"""Rows on disk: all of them together may be too much for memory.

    DiskList, TextStore       what was read, until it is encoded, in files without a name
    write_rows, stored_rows   what a training reads: encoded rows, memory-mapped
    write_jsonl, JsonLines    what a run stores to be shown, or to be read again

A file without a name is gone when the process ends, however it ends.
"""

import codecs
import json
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Generic, TypeVar, get_origin, get_type_hints, overload

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import LongText
from glassformer.wording import cause

T = TypeVar("T")
Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Span = tuple[int, int]

_AT_ONCE = 2**20  # bytes that are read or written together
_MANY = 2**16  # items whose offsets are looked up together


class _UnnamedFile:
    """Pieces of bytes, end to end. In memory is only the end of each piece: eight bytes."""

    def __init__(self, folder: Path) -> None:
        """The file is in `folder`, where there should be room for it."""
        self._file = TemporaryFile(dir=folder, buffering=_AT_ONCE)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.ends = array("q", [0])
        self._is_at_end = True
        self._block, self._first = b"", 0  # what was read last, and where it begins

    def append(self, parts: Iterable[bytes]) -> None:
        if not self._is_at_end:
            self._file.seek(self.ends[-1])
            self._is_at_end = True
        self.ends.append(self.ends[-1] + sum(map(self._file.write, parts)))

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`: fast if reads ascend, and right in any order."""
        if not self._first <= start <= end <= self._first + len(self._block):
            self._file.seek(start)
            self._is_at_end = False
            self._block, self._first = self._file.read(max(_AT_ONCE, end - start)), start
        return self._block[start - self._first : end - self._first]

    def __len__(self) -> int:
        return len(self.ends) - 1


# --- what was read ---

_SEPARATOR = "\0"
# Most items have one of few labels.
_to_json = lru_cache(1_000)(json.dumps)
_from_json = lru_cache(1_000)(lambda text: tuple(json.loads(text)))


class DiskList(Sequence[T], Generic[T]):
    """Named tuples of one kind, whose fields are strings or tuples of strings.

    An item is stored as its fields with a NUL between them, since hardly any text contains one;
    tuples, and items that do contain one, in JSON.
    """

    def __init__(self, folder: Path, kind: type[T], items: Iterable[T] = ()) -> None:
        self._file = _UnnamedFile(folder)
        self._numbers: Numbers | None = None
        self._kind: Any = kind
        hints = get_type_hints(kind)
        self._tuples = [n for n, name in enumerate(hints) if get_origin(hints[name]) is tuple]
        self._num_fields = len(hints)
        for item in items:
            self.append(item)

    def append(self, item: T) -> None:
        values: Any = item
        text = _SEPARATOR.join([part if type(part) is str else _to_json(part) for part in values])
        if text.count(_SEPARATOR) >= self._num_fields:  # which is how such an item is recognised
            text = _SEPARATOR * self._num_fields + json.dumps(values)
        self._file.append((text.encode("utf-8", "surrogatepass"),))

    def take(self, numbers: Numbers) -> "DiskList[T]":
        """The items with these numbers, as a list that is read from the same file."""
        selection = copy(self)
        selection._numbers = numbers if self._numbers is None else self._numbers[numbers]
        return selection

    @property
    def _all(self) -> Numbers | range:
        """The numbers of the items of this list in the file."""
        return range(len(self._file)) if self._numbers is None else self._numbers

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        return self._item(int(self._all[index]))  # raises if there is none

    def __iter__(self) -> Iterator[T]:
        for first in range(0, len(self), _MANY):  # Python's own numbers are read faster
            numbers = self._all[first : first + _MANY]
            yield from map(self._item, numbers if isinstance(numbers, range) else numbers.tolist())

    def _item(self, number: int) -> T:
        ends = self._file.ends
        text = self._file.read(ends[number], ends[number + 1]).decode("utf-8", "surrogatepass")
        values: list[Any] = text.split(_SEPARATOR)
        if len(values) == self._num_fields:
            for at in self._tuples:
                values[at] = _from_json(values[at])
        else:
            stored = json.loads(values[-1])
            values = [tuple(part) if type(part) is list else part for part in stored]
        item: T = self._kind._make(values)
        return item

    @property
    def num_bytes(self) -> int:
        """The size in UTF-8, with what separates the fields."""
        sizes = np.diff(np.asarray(self._file.ends))
        return int((sizes if self._numbers is None else sizes[self._numbers]).sum())


class TextStore:
    """Texts of any length, in the order in which they were added. First all are added, then they
    are read."""

    def __init__(self, folder: Path) -> None:
        self._file = _UnnamedFile(folder)
        self.read_bytes = self._file.read

    def add(self, parts: Iterable[str]) -> None:
        """Add a text that comes in parts."""
        self._file.append(part.encode("utf-8", "surrogatepass") for part in parts)

    def __len__(self) -> int:
        return len(self._file)

    @property
    def offsets(self) -> Numbers:
        """Where each text begins and the last one ends, in bytes: (N + 1,)."""
        return np.frombuffer(self._file.ends, np.int64)

    def all(self) -> "TextPart":
        return TextPart(self, np.ones(len(self), np.bool_))

    def text(self, start: int, end: int) -> Iterable[str]:
        """The text from one byte to another, in parts if it is long."""
        if end - start <= _AT_ONCE:
            return (self.read_bytes(start, end).decode("utf-8", "surrogatepass"),)
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        starts = range(start, end, _AT_ONCE)
        blocks = (self.read_bytes(first, min(first + _AT_ONCE, end)) for first in starts)
        return map(decoder.decode, blocks)


@dataclass(frozen=True)
class TextPart:
    """Some of the texts in a store."""

    store: TextStore
    is_in: Mask
    shortened: Mapping[int, Span] = field(default_factory=dict)
    """Texts that are only partly in this part: their number, and the range that is in it."""
    name: str = "the text"

    def __len__(self) -> int:
        return int(np.count_nonzero(self.is_in))

    @property
    def num_bytes(self) -> int:
        """The size of the text in UTF-8."""
        return int(self.sizes.sum())

    @property
    def sizes(self) -> Numbers:
        """The size of each text in UTF-8."""
        sizes = np.diff(self.store.offsets)
        for number, (start, end) in self.shortened.items():
            sizes[number] = end - start
        return sizes[self.is_in]

    def texts(self, every: int = 1) -> Iterator[LongText]:
        """All texts in order, or one in `every`, in parts. Each must be read before the next."""
        offsets, skipped = self.store.offsets, 0
        for first in range(0, len(self.is_in), _MANY):
            numbers = first + np.flatnonzero(self.is_in[first : first + _MANY])
            numbers, skipped = numbers[skipped::every], (skipped - len(numbers)) % every
            starts, ends = offsets[numbers].tolist(), offsets[numbers + 1].tolist()
            for number, span in zip(numbers.tolist(), zip(starts, ends, strict=True), strict=True):
                span = self.shortened.get(number, span)
                yield LongText(self.store.text(*span), self.name)

    @property
    def is_blank(self) -> bool:
        return all(part.isspace() for text in self.texts() for part in text.parts if part)


# --- the rows of a run ---


def in_bounded_batches(
    items: Iterable[T], size_of: Callable[[T], int], most: int = 4_000, most_size: int = 500_000
) -> Iterator[list[T]]:
    """Lists of items, each small enough to be encoded in memory at once: the size of a text is its
    number of characters, that of a series its number of steps."""
    batch, size = list[T](), 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if len(batch) >= most or size >= most_size:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


ENDING = ".items"


def write_rows(path: Path, rows: Iterable[Any], dtype: npt.DTypeLike) -> Array:
    """Write the items of rows end to end, beside the file of their columns. The rows are read once
    and one by one. Returns the lengths."""
    lengths = array("q")
    with path.with_suffix(ENDING).open("wb", buffering=_AT_ONCE) as file:
        for row in rows:
            items = np.asarray(row, dtype=dtype)
            lengths.append(len(items))
            file.write(items.tobytes())
    return np.asarray(lengths)


def write_columns(path: Path, dtype: npt.DTypeLike, width: int | None, **columns: Array) -> None:
    """Write the lengths of the rows and what else belongs to them, and the type of their items:
    single or vectors of `width`."""
    about = {"items": f"{np.dtype(dtype).str} {width or 0}"}
    save_file({name: np.ascontiguousarray(column) for name, column in columns.items()}, path, about)


@contextmanager
def stored_rows(path: Path, what: str) -> Iterator[tuple[Array, dict[str, Array]]]:
    """The items, memory-mapped, and the columns; errors while they are used name the file."""
    try:
        with safe_open(path, framework="numpy") as file:
            dtype, width = (file.metadata() or {})["items"].split()
            columns = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        is_empty = path.with_suffix(ENDING).stat().st_size == 0
        items = np.empty(0, dtype) if is_empty else np.memmap(path.with_suffix(ENDING), dtype, "r")
        yield items.reshape(-1, int(width)) if int(width) else items, columns
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise GlassformerError(f"{path} cannot be read as {what}: {cause(error)}.") from None


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write values in JSON, one per line."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


class JsonLines(Sequence[Any]):
    """The values that `write_jsonl` wrote, read one by one on access."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _starts(self) -> Sequence[int]:
        with self._path.open("rb") as file:
            return array("q", accumulate(map(len, file), initial=0))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: Any) -> Any:
        with self._path.open("rb") as file:
            file.seek(self._starts[range(len(self))[number]])
            return json.loads(file.readline())

    def __iter__(self) -> Iterator[Any]:
        with self._path.open("rb") as file:
            yield from map(json.loads, file)
