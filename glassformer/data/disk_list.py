"""A list on disk: for items that are read several times and may be too many for memory.

    items = DiskList(folder, Example)
    items.append(example);  items[7];  items.taken([2, 3, 5]);  for example in items: …

In memory is only the place of each item in the file: eight bytes. The file has no name, so it is
gone when the process ends, however it ends.

An item is stored as its fields with a NUL between them, since hardly any text contains one; tuples,
and items that do contain one, in JSON.
"""

import json
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Generic, TypeVar, get_origin, get_type_hints, overload

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Numbers = npt.NDArray[np.int64]

_SEPARATOR = "\0"
_MANY = 1_000  # tuples that are remembered: most items have one of few labels
_AT_ONCE = 2**20  # bytes that are read or written together
_NUMBERS = 2**14


class DiskList(Sequence[T], Generic[T]):
    """Named tuples of one kind, whose fields are strings or tuples of strings."""

    def __init__(self, folder: Path, kind: type[T], items: Iterable[T] = ()) -> None:
        """The file is in `folder`, where there should be room for it."""
        self._file = TemporaryFile(dir=folder, buffering=_AT_ONCE)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._kind: Any = kind
        hints = get_type_hints(kind)
        self._tuples = [n for n, name in enumerate(hints) if get_origin(hints[name]) is tuple]
        self._num_fields = len(hints)
        self._written: dict[tuple[str, ...], str] = {}
        self._parsed: dict[str, tuple[str, ...]] = {}
        self._ends = array("q", [0])
        self._at_end = True
        for item in items:
            self.append(item)

    def append(self, item: T) -> None:
        values: Any = item
        text = _SEPARATOR.join(
            [each if type(each) is str else self._in_json(each) for each in values]
        )
        if text.count(_SEPARATOR) >= self._num_fields:  # which is how such an item is recognised
            text = _SEPARATOR * self._num_fields + json.dumps(values)
        stored = text.encode("utf-8", "surrogatepass")
        if not self._at_end:
            self._file.seek(self._ends[-1])
            self._at_end = True
        self._file.write(stored)
        self._ends.append(self._ends[-1] + len(stored))

    def _in_json(self, strings: tuple[str, ...]) -> str:
        found = self._written.get(strings)
        if found is None:
            found = json.dumps(strings)
            if len(self._written) < _MANY:
                self._written[strings] = found
        return found

    def _out_of_json(self, text: str) -> tuple[str, ...]:
        found = self._parsed.get(text)
        if found is None:
            found = tuple(json.loads(text))
            if len(self._parsed) < _MANY:
                self._parsed[text] = found
        return found

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return self.taken(np.arange(len(self))[index])
        number = range(len(self))[index]  # raises if there is none, and counts from the end
        return next(self._read([number]))

    def __iter__(self) -> Iterator[T]:
        return self._read(range(len(self)))

    def taken(self, numbers: Numbers) -> "Taken[T]":
        """The items with these numbers, as a list that is read from the same file."""
        return Taken(self, numbers)

    @property
    def num_bytes(self) -> int:
        """Roughly, in UTF-8: with what separates the fields."""
        return self._ends[-1]

    def _read(self, numbers: Iterable[int]) -> Iterator[T]:
        """The items with these numbers: fast where they ascend, and right wherever they are."""
        make = self._kind._make
        ends, block, first = self._ends, b"", 0  # the block begins at byte `first` of the file
        for number in numbers:
            start, end = ends[number], ends[number + 1]
            if not first <= start <= end <= first + len(block):
                self._file.flush()
                self._file.seek(start)
                self._at_end = False
                block, first = self._file.read(max(_AT_ONCE, end - start)), start
            text = block[start - first : end - first].decode("utf-8", "surrogatepass")
            values: list[Any] = text.split(_SEPARATOR)
            if len(values) == self._num_fields:
                for place in self._tuples:
                    values[place] = self._out_of_json(values[place])
            else:
                stored = json.loads(values[-1])
                values = [tuple(each) if type(each) is list else each for each in stored]
            yield make(values)


class Taken(Sequence[T], Generic[T]):
    """Some items of a list on disk, in an order of their own."""

    def __init__(self, items: DiskList[T], numbers: Numbers) -> None:
        self._items, self.numbers = items, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Taken(self._items, self.numbers[index])
        return self._items[int(self.numbers[index])]

    def __iter__(self) -> Iterator[T]:
        for first in range(0, len(self), _NUMBERS):  # a list of Python's numbers is read faster
            yield from self._items._read(self.numbers[first : first + _NUMBERS].tolist())

    @property
    def num_bytes(self) -> int:
        ends = np.asarray(self._items._ends)
        return int((ends[self.numbers + 1] - ends[self.numbers]).sum())
