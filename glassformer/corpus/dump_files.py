"""Files of posts: tables and lines of JSON, plain or compressed, read in bounded memory.

    RS_2013-08.zst      an object on each line, as Pushshift publishes them
    posts.jsonl.gz      the same (.ndjson, too)
    TrueReddit.csv      a table with a header (.tsv, too)
    top.json            an array of objects, a listing of Reddit's API, or an object on each line

A line has a limit on its decompressed bytes, so that a decompression bomb cannot fill the memory.
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from glassformer.corpus.urls import EXTRA
from glassformer.data.folders import every_file, is_group
from glassformer.data.text_files import DataPath, local_path, missing
from glassformer.errors import GlassformerError, require
from glassformer.wording import cause

COMPRESSIONS = (".zst", ".gz")
JSON_LINES, TABLES = (".jsonl", ".ndjson", ""), (".csv", ".tsv")  # "": RS_2013-08.zst
LONGEST_LINE = 2**24  # bytes; Reddit limits a post to 40,000 characters
_LARGEST_WINDOW = 2**31  # of .zst files; Pushshift's need all of it
_HEAD = 256  # bytes in which UTF-16 shows
_AT_ONCE = 2**11  # compressed bytes, which unpack to at most 64 MB

_ENDINGS = ".jsonl, .ndjson, .json, .csv or .tsv, plain, .gz or .zst"


def kind_of(path: DataPath) -> str | None:
    """The ending of a file of posts, without its compression; None for another file."""
    suffixes = [each.lower() for each in Path(path.name).suffixes]
    is_compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    ending = "".join(suffixes[-2:-1] if is_compressed else suffixes[-1:])
    if ending in (*JSON_LINES[:-1], ".json", *TABLES):
        return ending
    return "" if is_compressed and path.name.startswith("RS_") else None


def dump_files(paths: Sequence[str]) -> tuple[list[DataPath], list[DataPath]]:
    """The files of posts that these paths stand for, in the order of their names, and the files
    that were found in folders but contain no posts."""
    chosen: dict[str, DataPath] = {}
    others: list[DataPath] = []
    for name in paths:
        path = local_path(name)
        if not is_group(name):
            if not path.exists():
                raise missing(path, f"Pass files of posts ({_ENDINGS}) or folders of them.")
            if kind_of(path) is None:
                raise GlassformerError(f"{path} is not a file of posts. Pass {_ENDINGS}.")
            chosen[str(path)] = path
            continue
        for file in every_file(name):
            if kind_of(file) is None:
                others.append(file)
            else:
                chosen[str(file)] = file
    if not chosen:
        raise GlassformerError(f"{', '.join(paths)} contains no files of posts. Pass {_ENDINGS}.")
    return [chosen[name] for name in sorted(chosen)], others


@contextmanager
def open_dump(path: DataPath) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed."""
    again = "Download it again."
    try:
        with path.open("rb") as raw:
            stream = _decompressed(raw, path)
            if b"\0" in cast(io.BufferedReader, stream).peek(_HEAD)[:_HEAD]:
                raise GlassformerError(
                    f"{path} is not UTF-8. If it is text in UTF-16, save it as UTF-8."
                )
            yield stream
    except EOFError:
        raise GlassformerError(f"{path} is truncated. {again}") from None
    except (gzip.BadGzipFile, zlib.error):
        raise GlassformerError(f"{path} is not gzip, or is damaged. {again}") from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None


def _decompressed(raw: BinaryIO, path: DataPath) -> BinaryIO:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=raw), 2**16))
    if suffix == ".zst":
        return cast(BinaryIO, io.BufferedReader(_Unzstd(raw, path), 2**16))
    return raw


class _Unzstd(io.RawIOBase):
    """Frames of Zstandard, one after the other. zstandard's own reader ends silently where a file
    was cut off; this one raises EOFError."""

    def __init__(self, raw: BinaryIO, path: DataPath) -> None:
        require("zstandard", problem=f"{path} requires zstandard.", to_install=EXTRA)
        import zstandard

        self._raw, self._path, self._error = raw, path, zstandard.ZstdError
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._frame: Any = None  # the one that is being read
        self._packed, self._ready = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._packed and not (packed := self._raw.read(_AT_ONCE)):
                if self._frame is not None:
                    raise EOFError
                return 0
            self._packed = self._packed or packed
            self._unpack()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _unpack(self) -> None:
        self._frame = self._frame or self._unpacker.decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(self._packed))
        except self._error:
            raise GlassformerError(
                f"{self._path} is not Zstandard, or is damaged. Download it again."
            ) from None
        self._packed = b""
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file with their numbers; None for one that is longer than the limit."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) <= LONGEST_LINE:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
        yield number, None
