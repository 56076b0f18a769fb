"""WARC files: reading records one by one, with limits on decompressed bytes, and writing pages.

    page.warc       record, record, …
    page.warc.gz    gzip member, gzip member, …              one record in each
    page.warc.zst   a dictionary, perhaps; frame, frame, …   one record in one frame or several

A record that is not read is skipped without being held in memory. Where a file is cut off or
damaged, the records before that place are given, and those behind it if they are compressed one by
one; a note names the byte.
"""

import io
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from glassformer import __version__
from glassformer.corpus import EXTRA
from glassformer.corpus.http import Response
from glassformer.corpus.urls import Url
from glassformer.data.folders import every_file, is_group
from glassformer.errors import GlassformerError, require
from glassformer.wording import cause

# --- the decompressed bytes of a file, which may be damaged ---
#
# A gzip member and a frame of Zstandard are both called a member here. Where one is damaged,
# reading goes on with the next member that begins with a record. Members are unpacked in slices
# that depend on nothing but where a member begins, so that a damaged one gives the same bytes
# whether reading began with it or long before: to the listing, and to a task that starts in the
# middle of a file.

LONGEST_HEADER = 2**16  # bytes of all lines before the content
RECORD = b"WARC/"
_PLAIN_AT_ONCE = 2**16  # bytes of a plain file
_MOST_SKIPPED = 2**32  # decompressed bytes of one record
_LARGEST_WINDOW = 2**31  # bytes, of zstd --long=31
_LARGEST_DICTIONARY = 2**26  # bytes; readers have to accept 2**23
_MOST_TRIED = 10_000  # places that look like the beginning of a member, and are none
_LONGEST_TRIAL = 2**18  # compressed bytes; a block of Zstandard has up to 2**17
_SEPARATOR = b"\r\n\r\n"  # behind a record


class BrokenWarcError(GlassformerError):
    """A WARC file is damaged at a byte, or ends there too early."""

    def __init__(
        self,
        path: Path,
        byte: int,
        problem: str,
        rule: str,
        hides_record: bool = False,
        next_member: int | None = None,
    ) -> None:
        rest = "What comes before it was read."
        if next_member is not None:
            rest = f"Reading went on at byte {next_member:,}."
        super().__init__(f"{path}, byte {byte:,}: {problem}. {rest}")
        self.rule = rule
        self.hides_record = hides_record
        """Whether a record begins there that was never given."""
        self.next_member = next_member
        """Where the next record can be read, if there is one."""


class _DamagedError(Exception):
    """A member cannot be unpacked."""


class _Member:
    """A member that is being unpacked, by what zlib and zstandard call a decompressobj."""

    def __init__(self, unpacker: Any, error: type[Exception], at_once: int) -> None:
        self._unpacker, self._error = unpacker, error
        self.at_once = at_once
        """Compressed bytes that are unpacked together."""

    @property
    def is_complete(self) -> bool:
        return bool(self._unpacker.eof)

    @property
    def num_unused(self) -> int:
        """Bytes that were passed and belong to the next member."""
        return len(self._unpacker.unused_data)

    def unpacked(self, packed: bytes) -> bytes:
        try:
            return bytes(self._unpacker.decompress(packed))
        except self._error:
            raise _DamagedError from None


class _Gzip:
    name, unit, magic = "gzip", "member", b"\x1f\x8b\x08"
    at_once = 2**14  # compressed bytes, which unpack to at most 17 MB

    def member(self) -> _Member:
        return _Member(zlib.decompressobj(31), zlib.error, self.at_once)

    def skipped(self, file: BinaryIO) -> bool:
        """Whether a part of the file was skipped that contains no records."""
        return False


class _Zstandard:
    name, unit, magic = "Zstandard", "frame", b"\x28\xb5\x2f\xfd"
    at_once = 2**11  # compressed bytes, which unpack to at most 64 MB
    dictionary = b"\x5d\x2a\x4d\x18"  # only at the beginning of a file
    skippable = tuple(bytes((number, 0x2A, 0x4D, 0x18)) for number in range(0x50, 0x60))

    def __init__(self, path: Path, file: BinaryIO) -> None:
        require("zstandard", problem=f"{path} requires zstandard.", to_install=EXTRA)
        import zstandard

        self._error = zstandard.ZstdError
        options: dict[str, Any] = {"max_window_size": _LARGEST_WINDOW}
        file.seek(0)
        if file.read(4) == self.dictionary:
            packed = file.read(min(int.from_bytes(file.read(4), "little"), _LARGEST_DICTIONARY))
            try:
                if packed.startswith(self.magic):
                    unpacker = zstandard.ZstdDecompressor(**options)
                    packed = unpacker.stream_reader(packed).read(_LARGEST_DICTIONARY)
                options["dict_data"] = zstandard.ZstdCompressionDict(packed)
                zstandard.ZstdDecompressor(**options)
            except (zstandard.ZstdError, MemoryError):
                raise GlassformerError(
                    f"{path}: the dictionary at its beginning is damaged, without which nothing in "
                    "it can be read. Download it again."
                ) from None
        self._decompressor = zstandard.ZstdDecompressor(**options)

    def member(self) -> _Member:
        return _Member(self._decompressor.decompressobj(), self._error, self.at_once)

    def skipped(self, file: BinaryIO) -> bool:
        head = file.read(8)
        end = file.tell() + int.from_bytes(head[4:], "little")
        if not head.startswith(self.skippable) or end > os.fstat(file.fileno()).st_size:
            file.seek(-len(head), 1)
            return False
        file.seek(end)
        return True


class WarcStream:
    """The bytes of a file, decompressed, with the place in the file that they came from."""

    def __init__(self, path: Path, file: BinaryIO, offset: int) -> None:
        self._path, self._file = path, file
        self._format = _format_of(path, file)
        self.is_compressed = self._format is not None
        self._has_records = offset > 0
        self._is_inside = False  # a record that was given
        self._left = 0  # bytes of it that were not read
        self._line_is_blank = True
        self._line = offset  # where the first line of a record begins, in a plain file
        self._buffer = bytearray()
        self._begin = offset  # of the member that is being read
        self._num_out = 0  # bytes of it, or of a plain file, that were handed out
        self._member: _Member | None = None
        self._problem: BrokenWarcError | None = None
        self._num_tried = 0
        file.seek(offset)

    # --- records ---

    def record_offset(self, length_of_line: int) -> tuple[int, bool]:
        """Where the record whose first line was just read begins, and whether it is the first one
        of its member."""
        return (
            (self._begin, self._num_out == length_of_line) if self._format else (self._line, True)
        )

    def begin_record(self, length: int) -> None:
        self._has_records = self._is_inside = True
        self._left = length

    def first_line(self) -> bytes:
        """The line with which a record may begin."""
        self._line_is_blank = True
        self._line = self._file.tell() - len(self._buffer)
        line = self.line()
        self._line_is_blank = not line.strip()
        return line

    def line(self) -> bytes:
        """The next line; shorter if the file ends, or if it is far too long."""
        while (end := self._buffer.find(b"\n")) < 0 and len(self._buffer) < LONGEST_HEADER:
            if not self._fill():
                break
        return self._out(end + 1 if end >= 0 else len(self._buffer))

    def take(self, number: int) -> bytes:
        """So many bytes of the current record."""
        while len(self._buffer) < number:
            if not self._fill():
                raise self.cut_off()
        if number == self._left:
            self._check_end(number)
        self._left -= number
        return self._out(number)

    def skip(self) -> None:
        """Pass over what was not read of the current record."""
        if self._problem is not None:  # which the reader of the record met
            raise self._problem
        if self._left > _MOST_SKIPPED and self._format:
            raise self.broken("a record that unpacks to more than 4 GB, like a decompression bomb")
        while self._left:
            if not self._buffer and not self._fill():
                raise self.cut_off()
            self._left -= len(self._out(min(self._left, len(self._buffer))))
        self._check_end(0)
        self._is_inside = False

    def _check_end(self, number: int) -> None:
        """Check what follows so many bytes, the rest of a record, in its member: another record,
        or the checksum."""
        most = number + len(_SEPARATOR + RECORD)
        while self._member and not self._member.is_complete and len(self._buffer) < most:
            self._buffer += self._unpacked(self._member)
        follows = self._buffer[number:most].lstrip(b"\r\n\0")
        if self._format and not RECORD.startswith(follows[: len(RECORD)]):
            raise self.broken("a record that is not as long as its Content-Length")

    # --- damage ---

    def cut_off(self) -> GlassformerError:
        end = self._file.tell()
        if self._format and (next_member := self._next_member()):
            # Damage can make what is behind it look like a part of the same member.
            return self._error(self._begin, "damaged compressed data", "damaged", next_member)
        return self._error(end, "the file ends in the middle of a record", "truncated")

    def broken(self, problem: str) -> GlassformerError:
        if not self._format:
            return self._error(self._line, problem, "damaged")
        return self._error(self._begin, problem, "damaged", self._next_member())

    def _error(
        self, byte: int, problem: str, rule: str, next_member: int | None = None
    ) -> GlassformerError:
        if not self._has_records and next_member is None:
            return GlassformerError(
                f"{self._path} is not a WARC file: it does not begin with a record. Pass files "
                "that a crawler or glassformer corpus fetch wrote."
            )
        # Where a member ends behind its record, no record is missing.
        is_behind = self._line_is_blank and not self._buffer.strip() and self._num_out > 0
        is_between = rule == "truncated" and is_behind
        hides = not self._is_inside and not is_between
        self._problem = BrokenWarcError(self._path, byte, problem, rule, hides, next_member)
        return self._problem

    def recover(self, error: BrokenWarcError) -> bool:
        """Go on behind the damage; False if there is nothing more."""
        if error.next_member is None:
            return False
        self._file.seek(error.next_member)
        self._problem, self._is_inside, self._left = None, False, 0
        self._buffer.clear()
        return self._begin_member()

    def _next_member(self) -> int | None:
        """The next member that begins with a record."""
        offset = self._begin
        while self._num_tried < _MOST_TRIED:
            offset = self._find_magic(offset + 1)
            if offset < 0:
                return None
            if self._begins_with_record(offset):
                return offset
            self._num_tried += 1
        return None

    def _find_magic(self, offset: int) -> int:
        """Where the next member may begin; -1 if nowhere."""
        if self._format is None:
            return -1
        magic = self._format.magic
        self._file.seek(offset)
        while len(block := self._file.read(_PLAIN_AT_ONCE)) >= len(magic):
            if (at := block.find(magic)) >= 0:
                return offset + at
            offset += len(block) - len(magic) + 1
            self._file.seek(offset)
        return -1

    def _begins_with_record(self, offset: int) -> bool:
        if self._format is None:
            return False
        member, content = self._format.member(), b""
        self._file.seek(offset)
        for _ in range(0, _LONGEST_TRIAL, member.at_once):
            packed = self._file.read(member.at_once)
            if not packed or member.is_complete or len(content) >= len(RECORD):
                break
            try:
                content += member.unpacked(packed)
            except _DamagedError:
                break
        return content.startswith(RECORD)

    # --- bytes ---

    def _out(self, number: int) -> bytes:
        content = bytes(self._buffer[:number])
        del self._buffer[:number]
        self._num_out += number
        return content

    def _fill(self) -> bool:
        """Add to the buffer; False at the end of the file."""
        if self._problem is not None:
            raise self._problem
        if self._format is None:
            more = self._file.read(_PLAIN_AT_ONCE)
            self._buffer += more
            return bool(more)
        while True:
            if (self._member is None or self._member.is_complete) and not self._begin_member():
                return False
            if self._member is not None and (more := self._unpacked(self._member)):
                self._buffer += more
                return True

    def _unpacked(self, member: _Member) -> bytes:
        """What the next slice of a member unpacks to."""
        packed = self._file.read(member.at_once)
        if not packed:
            raise self.cut_off()
        try:
            content = member.unpacked(packed)
        except _DamagedError:
            raise self.broken("damaged compressed data") from None
        if member.is_complete:
            self._file.seek(-member.num_unused, 1)
        return content

    def _begin_member(self) -> bool:
        """The next member; False at the end of the file or before padding."""
        if self._format is None:
            return False
        self._begin = self._file.tell()
        while self._format.skipped(self._file):
            pass
        offset = self._file.tell()
        is_member = self._file.read(len(self._format.magic)) == self._format.magic
        self._file.seek(offset)
        if not is_member and self._is_padding():
            return False
        self._num_out = -len(self._buffer)  # what the last member left comes first
        if not is_member:  # perhaps because too much was skipped
            raise self.broken(f"expected a {self._format.name} {self._format.unit} here")
        self._begin = offset
        self._member = self._format.member()
        return True

    def _is_padding(self) -> bool:
        """Whether there are only zeros up to the end of the file."""
        blocks = iter(lambda: self._file.read(_PLAIN_AT_ONCE), b"")
        return not any(block.strip(b"\0") for block in blocks)


def _format_of(path: Path, file: BinaryIO) -> _Gzip | _Zstandard | None:
    """The format by the first bytes; by the name if these are damaged. None: not compressed."""
    head, name = file.read(len(RECORD)), path.name.lower()
    if head.startswith(RECORD):
        return None
    if head.startswith(_Gzip.magic) or name.endswith(".gz"):
        return _Gzip()
    if head.startswith((_Zstandard.magic, _Zstandard.dictionary)) or name.endswith(".zst"):
        return _Zstandard(path, file)
    return None


# --- reading records ---

ENDINGS = (".warc", ".warc.gz", ".warc.zst")
PAGES = ("response", "resource", "conversion")  # types of records that may contain a page
_AT_ONCE = 2**17  # bytes


def warc_files(names: list[str]) -> list[Path]:
    """The WARC files that names of files, folders and patterns stand for, in the order of paths."""
    paths: set[Path] = set()
    for name in names:
        if not is_group(name):
            if not Path(name).is_file():
                raise GlassformerError(
                    f"{name} does not exist. Pass WARC files or a folder of them."
                )
            paths.add(Path(name))
            continue
        inside = [Path(str(file)) for file in every_file(name)]
        files = {file for file in inside if file.name.lower().endswith(ENDINGS)}
        if not files:
            raise GlassformerError(
                f"{name} contains no WARC files. Their names must end in .warc, .warc.gz or "
                ".warc.zst."
            )
        paths |= files
    return sorted(paths)


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
    _stream: WarcStream

    @property
    def may_be_page(self) -> bool:
        return self.kind in PAGES

    def beginning(self, most: int) -> bytes:
        """The first bytes of its content."""
        return self._stream.take(min(most, self.length))


def read_records(
    path: Path, offset: int = 0, damage: Callable[[BrokenWarcError], None] = lambda error: None
) -> Iterator[Record]:
    """The records of a file, from the one at `offset`. What is damaged is passed to `damage`."""
    try:
        with path.open("rb", buffering=_AT_ONCE) as file:
            stream = WarcStream(path, file, offset)
            while True:
                try:
                    record = _next_record(stream)
                    if record is None:
                        return
                    stream.begin_record(record.length)
                    yield record
                    stream.skip()
                except BrokenWarcError as error:
                    damage(error)
                    if not stream.recover(error):
                        return
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None


def _next_record(stream: WarcStream) -> Record | None:
    line = stream.first_line()
    while line in (b"\r\n", b"\n"):  # between records
        line = stream.first_line()
    if not line or (not line.strip(b"\0\r\n") and not stream.is_compressed):  # the end, or padding
        return None
    if not line.startswith(RECORD):
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


def _fields(stream: WarcStream) -> dict[str, str]:
    fields: dict[str, str] = {}
    total = 0
    while (line := stream.line()) not in (b"\r\n", b"\n"):
        total += len(line)
        if not line.endswith(b"\n"):
            raise stream.cut_off()
        if total > LONGEST_HEADER:
            raise stream.broken("a record whose header is too long")
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


# --- writing fetched pages as records, each a gzip member of its own ---
#
# A page is a `response` and the `request` that led to it. As in Common Crawl's files, the body is
# decompressed, and headers that described how it was sent are kept under names with X-Crawl-. The
# field X-Link holds the URL of the link, which differs from the page's after redirects.

_ABOUT_SENDING = ("content-encoding", "transfer-encoding", "content-length")


@dataclass(frozen=True)
class Page:
    """A page as it was fetched."""

    url: Url
    request: dict[str, str]
    """The headers that were sent."""
    response: Response


def page_records(page: Page, link: str) -> bytes:
    """The bytes of both records."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    buffer, url = io.BytesIO(), str(page.url)
    writer = WARCWriter(buffer, gzip=True, warc_version="1.1")
    answer = page.response
    status = _ascii(f"{answer.status} {answer.reason}")
    fields = {"WARC-IP-Address": answer.address, "X-Link": link}
    response = writer.create_warc_record(
        url,
        "response",
        io.BytesIO(answer.body),
        length=len(answer.body),
        warc_headers_dict=fields,
        http_headers=StatusAndHeaders(status, _archived(answer), protocol="HTTP/1.1"),
    )
    request = writer.create_warc_record(
        url,
        "request",
        http_headers=StatusAndHeaders(
            f"GET {page.url.target} HTTP/1.1", list(page.request.items()), is_http_request=True
        ),
    )
    writer.write_request_response_pair(request, response)
    return buffer.getvalue()


def _archived(answer: Response) -> list[tuple[str, str]]:
    headers = [
        (f"X-Crawl-{name}" if name.lower() in _ABOUT_SENDING else _ascii(name), value)
        for name, value in answer.headers
    ]
    return [*headers, ("Content-Length", str(len(answer.body)))]


def _ascii(text: str) -> str:
    """On one line, as records are written."""
    return " ".join(text.encode("ascii", "replace").decode().split())


def warcinfo(name: str, about: dict[str, Any]) -> bytes:
    """The record at the beginning of a file, which says who wrote it and how."""
    from warcio.warcwriter import WARCWriter

    buffer = io.BytesIO()
    writer = WARCWriter(buffer, gzip=True, warc_version="1.1")
    fields = {
        "software": f"glassformer/{__version__}",
        "format": "WARC File Format 1.1",
        "robots": "RFC 9309",
        "http-header-user-agent": about["user_agent"],
    }
    writer.write_record(writer.create_warcinfo_record(name, fields))
    return buffer.getvalue()
