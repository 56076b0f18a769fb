"""WARC files: their records, one at a time, with limits on decompressed bytes.

A record that is not read is skipped without being held in memory. Where a file is cut off or
damaged, the records before that place are given, and those behind it if they are compressed one by
one (`warc_stream.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from glassformer.corpus.warc_stream import LONGEST_HEADER, RECORD, BrokenWarcError, WarcStream
from glassformer.data.folders import every_file, is_group
from glassformer.errors import GlassformerError
from glassformer.wording import cause

ENDINGS = (".warc", ".warc.gz", ".warc.zst")
PAGES = ("response", "resource", "conversion")  # types of records that may contain a page
_AT_ONCE = 2**17  # bytes


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
        files = {file for file in inside if file.name.lower().endswith(ENDINGS)}
        if not files:
            raise GlassformerError(
                f"{name} contains no WARC files. Their names must end in .warc, .warc.gz or "
                ".warc.zst."
            )
        found |= files
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
