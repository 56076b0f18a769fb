"""Texts of any length on disk, since all of them together may be too much for memory.

    store = TextStore(folder)
    store.add(parts of a text);  store.all().texts();  TextPart(store, mask).texts()

In memory is only the place of each text in the file: eight bytes. The file has no name, so it is
gone when the process ends, however it ends.
"""

import codecs
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt

from glassformer.text.chunks import LongText

_AT_ONCE = 2**20  # bytes that are read or written together
_MANY = 2**16  # texts that are counted together

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
Span = tuple[int, int]


class TextStore:
    """Texts in the order in which they were added. First all are added, then they are read."""

    def __init__(self, folder: Path) -> None:
        """The file is in `folder`, where there should be room for it."""
        self._file = TemporaryFile(dir=folder, buffering=_AT_ONCE)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._ends = array("q", [0])

    def add(self, parts: Iterable[str]) -> None:
        """Add a text that comes in parts."""
        end = self._ends[-1]
        for part in parts:
            end += self._file.write(part.encode("utf-8", "surrogatepass"))
        self._ends.append(end)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def places(self) -> Places:
        """Where each text begins, and where the last one ends: (N + 1,), in bytes."""
        return np.frombuffer(self._ends, np.int64)

    def read_bytes(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        return self._file.read(end - start)

    def all(self) -> "TextPart":
        return TextPart(self, np.ones(len(self), np.bool_))

    def texts(self, spans: Iterable[Span]) -> Iterator[Iterable[str]]:
        """The texts from one byte to another. Each must be read before the next."""
        block, first = b"", 0  # the block begins at byte `first` of the file
        for start, end in spans:
            if end - start > _AT_ONCE:
                yield self._parts(start, end)
                continue
            if not first <= start <= end <= first + len(block):
                block, first = self.read_bytes(start, start + _AT_ONCE), start
            yield (block[start - first : end - first].decode("utf-8", "surrogatepass"),)

    def _parts(self, start: int, end: int) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        for first in range(start, end, _AT_ONCE):
            yield decoder.decode(self.read_bytes(first, min(first + _AT_ONCE, end)))


@dataclass(frozen=True)
class TextPart:
    """Some of the texts in a store."""

    store: TextStore
    is_in: Mask
    shortened: Mapping[int, Span] = field(default_factory=dict)
    """Texts of which not everything is in this part: their number, and from where to where."""
    name: str = "the text"

    def __len__(self) -> int:
        return int(np.count_nonzero(self.is_in))

    @property
    def num_bytes(self) -> int:
        """The size of the text in UTF-8."""
        return int(self.sizes.sum())

    @property
    def sizes(self) -> Places:
        """The size of each text in UTF-8."""
        sizes = np.diff(self.store.places)
        for number, (start, end) in self.shortened.items():
            sizes[number] = end - start
        return sizes[self.is_in]

    def texts(self, every: int = 1) -> Iterator[LongText]:
        """All texts in order, or one in `every`, in parts. Each must be read before the next."""
        for spans in self._spans(every):
            for parts in self.store.texts(spans):
                yield LongText(parts, self.name)

    def _spans(self, every: int) -> Iterator[Iterable[Span]]:
        places, skipped = self.store.places, 0
        for first in range(0, len(self.is_in), _MANY):
            numbers = first + np.flatnonzero(self.is_in[first : first + _MANY])
            numbers, skipped = numbers[skipped::every], (skipped - len(numbers)) % every
            spans: Iterable[Span]
            spans = zip(places[numbers].tolist(), places[numbers + 1].tolist(), strict=True)
            if self.shortened:
                of = zip(numbers.tolist(), spans, strict=True)
                spans = [self.shortened.get(number, span) for number, span in of]
            yield spans

    @property
    def is_blank(self) -> bool:
        return all(part.isspace() for text in self.texts() for part in text.parts if part)
