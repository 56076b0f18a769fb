"""WARC files: their records, one at a time, with limits on decompressed bytes.

    page.warc.gz    gzip member, gzip member, …     one record in each
    page.warc       record, record, …

A record that is not read is skipped without being held in memory. Where a file is cut off or
damaged, the records before that place are still given; then a `BrokenWarcError` names it.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from glassformer.data.folders import every_file, is_group
from glassformer.errors import GlassformerError
from glassformer.wording import cause

ENDINGS = (".warc", ".warc.gz")
_ZSTANDARD = ".warc.zst"
PAGES = ("response", "resource", "conversion")  # types of records that may contain a page

_GZIP = b"\x1f\x8b"
_AT_ONCE = 2**16
_LONGEST_HEADER = 2**16  # bytes of all lines before the content
_MOST_SKIPPED = 2**32  # decompressed bytes of one record


class BrokenWarcError(GlassformerError):
    """A WARC file cannot be read beyond a byte."""

    def __init__(
        self, path: Path, byte: int, problem: str, rule: str, hides_record: bool = False
    ) -> None:
        super().__init__(f"{path}, byte {byte:,}: {problem}. What comes before it was read.")
        self.rule = rule
        self.hides_record = hides_record
        """Whether a record begins there that was never given."""


def warc_files(names: list[str]) -> list[Path]:
    """The WARC files that names of files, folders and patterns stand for, in the order of paths."""
    found: set[Path] = set()
    for name in names:
        if not is_group(name):
            if not Path(name).is_file():
                raise GlassformerError(
                    f"{name} does not exist. Pass WARC files or a folder of them."
                )
            found.add(Path(name))
            continue
        inside = [Path(str(file)) for file in every_file(name)]
        files = {file for file in inside if file.name.lower().endswith((*ENDINGS, _ZSTANDARD))}
        if not files:
            raise GlassformerError(
                f"{name} contains no WARC files. Their names must end in .warc or .warc.gz."
            )
        found |= files
    for path in sorted(found):
        if path.name.lower().endswith(_ZSTANDARD):
            raise GlassformerError(
                f"{path} is compressed by Zstandard. Decompress it with zstd -d."
            )
    return sorted(found)


def check_warc(path: Path) -> None:
    """Raise unless a file begins with a record."""
    if next(read_records(path), None) is None:
        raise GlassformerError(f"{path} contains no records. Remove it, or download it again.")


@dataclass
class Record:
    """The header of a record. Its content is read before the next record is asked for, or never."""

    kind: str
    url: str
    content_type: str
    date: str
    link: str
    """The URL of the link that led here, if the crawler wrote it; the page may be elsewhere."""
    length: int
    offset: int
    """The byte of the file at which it can be found again."""
    is_seekable: bool
    """Whether reading can begin with it: not if other records precede it in its gzip member."""
    _stream: "_Stream"

    @property
    def may_be_page(self) -> bool:
        return self.kind in PAGES

    def beginning(self, most: int) -> bytes:
        """The first bytes of its content."""
        return self._stream.take(min(most, self.length))


def read_records(path: Path, offset: int = 0) -> Iterator[Record]:
    """The records of a file, from the one at `offset`."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            stream = _Stream(path, file, offset)
            while (record := _next_record(stream)) is not None:
                stream.begin_record(record.length)
                yield record
                stream.skip()
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None


def _next_record(stream: "_Stream") -> Record | None:
    line = stream.first_line()
    while line in (b"\r\n", b"\n"):  # between records
        line = stream.first_line()
    if not line.strip(b"\0\r\n"):  # the end, or padding
        return None
    if not line.startswith(b"WARC/"):
        raise stream.broken("expected a record here")
    offset, is_seekable = stream.record_offset(len(line))
    fields = _fields(stream)
    try:
        length = int(fields.get("content-length", ""))
    except ValueError:
        length = -1
    if length < 0:
        raise stream.broken("a record without a valid Content-Length")
    return Record(
        kind=fields.get("warc-type", ""),
        url=fields.get("warc-target-uri", "").strip("<>"),
        content_type=fields.get("content-type", ""),
        date=fields.get("warc-date", ""),
        link=fields.get("x-link", ""),
        length=length,
        offset=offset,
        is_seekable=is_seekable,
        _stream=stream,
    )


def _fields(stream: "_Stream") -> dict[str, str]:
    fields: dict[str, str] = {}
    total = 0
    while (line := stream.line()) not in (b"\r\n", b"\n"):
        total += len(line)
        if not line.endswith(b"\n"):
            raise stream.cut_off()
        if total > _LONGEST_HEADER:
            raise stream.broken("a record whose header is too long")
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


class _Stream:
    """The bytes of a file, decompressed, with the place in the file that they came from."""

    def __init__(self, path: Path, file: BinaryIO, offset: int) -> None:
        self._path, self._file = path, file
        self._has_records = offset > 0
        self._left = 0  # bytes of the current record that were not read
        self._line_is_blank = True
        self._line = offset  # where the first line of a record begins, in a plain file
        self._buffer = b""
        self._raw = file.read(_AT_ONCE)
        self._raw_end = offset + len(self._raw)  # where reading the file stopped
        self._is_gzip = self._raw.startswith(_GZIP)
        self._member = offset  # where the gzip member began
        self._given = 0  # bytes of this member, or of a plain file, that were handed out
        self._unpacker = zlib.decompressobj(31) if self._is_gzip else None

    def record_offset(self, length_of_line: int) -> tuple[int, bool]:
        """Where the record whose first line was just read begins."""
        return (
            (self._member, self._given == length_of_line) if self._is_gzip else (self._line, True)
        )

    def begin_record(self, length: int) -> None:
        self._has_records = True
        self._left = length

    def cut_off(self) -> GlassformerError:
        return self._error(self._raw_end, "the file ends in the middle of a record", "truncated")

    def broken(self, problem: str) -> GlassformerError:
        return self._error(self._member if self._is_gzip else self._line, problem, "damaged")

    def _error(self, byte: int, problem: str, rule: str) -> GlassformerError:
        if not self._has_records:
            return GlassformerError(
                f"{self._path} is not a WARC file: it does not begin with a record. Pass files "
                "that a crawler or glassformer corpus fetch wrote."
            )
        # Where a gzip member ends behind its record, no record is missing.
        is_behind = self._line_is_blank and not self._buffer.strip() and self._given > 0
        is_between = rule == "truncated" and is_behind
        hides_record = not self._left and not is_between
        return BrokenWarcError(self._path, byte, problem, rule, hides_record)

    def first_line(self) -> bytes:
        """The line with which a record may begin."""
        self._line_is_blank = True
        self._line = self._raw_end - len(self._raw) - len(self._buffer)
        line = self.line()
        self._line_is_blank = not line.strip()
        return line

    def line(self) -> bytes:
        """The next line; shorter if the file ends, or if it is far too long."""
        while (end := self._buffer.find(b"\n")) < 0 and len(self._buffer) < _LONGEST_HEADER:
            if not self._fill():
                break
        return self._out(end + 1 if end >= 0 else len(self._buffer))

    def take(self, number: int) -> bytes:
        """So many bytes of the current record."""
        while len(self._buffer) < number:
            if not self._fill():
                raise self.cut_off()
        self._left -= number
        return self._out(number)

    def skip(self) -> None:
        """Pass over what was not read of the current record."""
        if self._left > _MOST_SKIPPED and self._is_gzip:
            raise self.broken("a record that unpacks to more than 4 GB, like a decompression bomb")
        while self._left:
            if not self._buffer and not self._fill():
                raise self.cut_off()
            self._left -= len(self._out(min(self._left, len(self._buffer))))

    def _out(self, number: int) -> bytes:
        found, self._buffer = self._buffer[:number], self._buffer[number:]
        self._given += len(found)
        return found

    def _fill(self) -> bool:
        """Add to the buffer; False at the end of the file."""
        if self._unpacker is None:
            more, self._raw = self._raw, b""
            self._read_more()
            self._buffer += more
            return bool(more)
        while True:
            if self._unpacker.eof and not self._begin_member():
                return False
            if not self._raw and not self._read_more():
                raise self.cut_off()
            try:
                found = self._unpacker.decompress(self._raw, _AT_ONCE)
            except zlib.error:
                raise self.broken("damaged gzip data") from None
            self._raw = self._unpacker.unused_data or self._unpacker.unconsumed_tail
            if found:
                self._buffer += found
                return True

    def _begin_member(self) -> bool:
        """The next gzip member; False at the end of the file or before padding."""
        if len(self._raw) < len(_GZIP):
            self._read_more()
        if not self._raw.strip(b"\0"):
            return False
        if not self._raw.startswith(_GZIP):
            raise self.broken("expected a gzip member here")
        self._member = self._raw_end - len(self._raw)
        self._given = -len(self._buffer)  # what the last member left comes first
        self._unpacker = zlib.decompressobj(31)
        return True

    def _read_more(self) -> bool:
        more = self._file.read(_AT_ONCE)
        self._raw += more
        self._raw_end += len(more)
        return bool(more)
