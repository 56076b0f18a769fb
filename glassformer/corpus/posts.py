"""Posts in Reddit-style dumps: what was linked, and how many people recommended it.

    RS_2013-08.zst      an object on each line, as Pushshift publishes them
    posts.jsonl.gz      the same (.ndjson, too)
    TrueReddit.csv      a table with a header (.tsv, too)
    top.json            an array of objects, a listing of Reddit's API, or an object on each line

Dumps of different years and tools have their quirks: scores as strings, as fractions ("12.0") or
null, `ups` instead of `score`, `&amp;` inside URLs, self posts whose URL is their own page, and
crossposts whose URL is the page of the other post.

Memory is bounded: a line has a limit on its decompressed bytes, so that a decompression bomb cannot
fill it.
"""

import csv
import gzip
import html
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from glassformer.corpus import EXTRA
from glassformer.data.archives import DataPath, local_path
from glassformer.data.folders import every_file, is_group
from glassformer.data.tables import declared_separator
from glassformer.data.text_files import missing
from glassformer.errors import GlassformerError, require
from glassformer.wording import cause, readable_size

Row = dict[str, Any]
Malformed = Callable[[str], None]  # is given the place and the problem

COMPRESSIONS = (".zst", ".gz")
JSON_LINES, TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
_ENDINGS = ".jsonl, .ndjson, .json, .csv or .tsv, plain, .gz or .zst"
LONGEST_LINE = 2**24  # bytes; Reddit limits a post to 40,000 characters
_LARGEST_WINDOW = 2**31  # of .zst files; Pushshift's need all of it
_HEAD = 256  # bytes in which UTF-16 shows
_AT_ONCE = 2**11  # compressed bytes, which unpack to at most 64 MB

SCORES = ("score", "ups")
_ENOUGH = 1_000  # posts among which some must have a URL and a score
_LARGEST_JSON = 2**30  # bytes of a .json file, which is read as a whole
_ESCAPED = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&"}
_HALF = re.compile("[\ud800-\udfff]")  # of a character
_REDDIT = "https://www.reddit.com"


@dataclass(frozen=True, slots=True)
class Post:
    """One post of a dump."""

    url: str
    """Empty if there is none."""
    score: float | None
    title: str
    subreddit: str
    is_self: bool
    over_18: bool


def read_posts(path: DataPath, malformed: Malformed) -> Iterator[Post]:
    """The posts of a file, one at a time. What cannot be read is passed to `malformed`, which may
    raise; a file without URLs or scores is an error."""
    columns: set[str] = set()
    count = 0
    for row in _rows(path, malformed):
        post = _post(row)
        if count < _ENOUGH and not post.is_self:
            count += 1
            columns.update(map(str, row))
            if count == _ENOUGH:
                _check_columns(path, columns)
        yield post
    if count:
        _check_columns(path, columns)


def _check_columns(path: DataPath, columns: set[str]) -> None:
    if "url" not in columns or not columns & {*SCORES}:
        name = "score (or ups)" if "url" in columns else "url"
        raise GlassformerError(
            f"{path} has no column {name} (columns: {', '.join(sorted(columns)) or 'none'}). "
            "Pass a dump of posts, not of comments."
        )


# --- from a row to a post ---


def _post(row: Row) -> Post:
    parents = row.get("crosspost_parent_list")
    origin = parents[0] if isinstance(parents, list) and parents else row
    origin = origin if isinstance(origin, dict) else row
    is_self = _is_true(origin.get("is_self")) or _text(origin.get("domain")).startswith("self.")
    return Post(
        _url(origin.get("url")),
        next((score for name in SCORES if (score := _number(row.get(name))) is not None), None),
        " ".join(html.unescape(_text(row.get("title"))).split()),
        _text(row.get("subreddit")) or _subreddit_in(_text(row.get("permalink"))),
        is_self,
        _is_true(row.get("over_18")) or _is_true(origin.get("over_18")),
    )


def _subreddit_in(permalink: str) -> str:
    match = re.search(r"/r/(\w+)/", permalink)
    return match[1] if match else ""


def _url(value: Any) -> str:
    """Only the characters that HTML must escape: `&copy=1` in a URL is a parameter."""
    text = _text(value).strip()
    while "&amp;amp;" in text:
        text = text.replace("&amp;amp;", "&amp;")
    for escaped, character in _ESCAPED.items():
        text = text.replace(escaped, character)
    return f"{_REDDIT}{text}" if text.startswith(("/r/", "/u/", "/user/")) else text


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _is_true(value: Any) -> bool:
    return value is True or str(value).strip().lower() in ("true", "1", "1.0")


def _text(value: Any) -> str:
    """A string that can be written as UTF-8: JSON can express half a character."""
    return _HALF.sub("\ufffd", value) if isinstance(value, str) else ""


# --- from a file to rows ---


def _rows(path: DataPath, malformed: Malformed) -> Iterator[Row]:
    kind = kind_of(path)
    with open_dump(path) as stream:
        if kind in TABLES:
            yield from _table(path, stream, malformed)
        elif kind == ".json":
            yield from _json(path, stream, malformed)
        else:
            yield from _json_lines(path, stream, malformed)


def _json_lines(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[Row]:
    for number, line in numbered_lines(stream):
        where = f"{path}:{number}"
        if line is None:
            malformed(f"{where}: longer than {readable_size(LONGEST_LINE)}")
            continue
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = str(error).replace("line 1 ", "")
            malformed(f"{where}: invalid JSON ({reason})")
            continue
        if isinstance(row, dict):
            yield row
        else:
            malformed(f"{where}: not a JSON object")


def _json(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[Row]:
    """An array of posts, a listing of Reddit's API, or an object on each line."""
    content = stream.read(_LARGEST_JSON + 1)
    if len(content) > _LARGEST_JSON:
        raise GlassformerError(
            f"{path} has more than {readable_size(_LARGEST_JSON)}. Write it as .jsonl, with a "
            "post on each line."
        )
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        yield from _json_lines(path, io.BytesIO(content), malformed)
        return
    for number, post in enumerate(_posts_in(value), 1):
        inner = post.get("data") if isinstance(post, dict) else None
        row = inner if isinstance(inner, dict) else post
        if isinstance(row, dict):
            yield row
        else:
            malformed(f"{path}, post {number:,}: not a JSON object")


def _posts_in(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    inner = value.get("data") if isinstance(value, dict) else None
    children = inner.get("children") if isinstance(inner, dict) else inner
    return children if isinstance(children, list) else [value]


def _table(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_LINE)
    lines = _decoded_lines(path, stream, malformed)
    header, first = next(lines, ""), 1
    separator = declared_separator(header)
    if separator is None:
        separator = max(",;\t|", key=header.count)
    else:
        header, first = next(lines, ""), 2
    reader = csv.reader(chain((header,), lines), delimiter=separator, strict=True)
    names: list[str] = []
    while True:
        begin = reader.line_num + first
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "expected after" not in str(error):  # an open quote, which swallowed what follows
                raise GlassformerError(
                    f"{path}:{begin}: invalid CSV ({error}). Close the quoted field, and double "
                    "each quote inside it."
                ) from None
            malformed(f"{path}:{begin}: invalid CSV ({error})")
            continue
        if not names:
            names = [name.strip().lower() for name in fields]
            _check_columns(path, set(names))
        elif len(fields) == len(names):
            yield dict(zip(names, fields, strict=True))
        elif any(fields):
            malformed(f"{path}:{begin}: expected {len(names)} columns, found {len(fields)}")


def _decoded_lines(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[str]:
    """Lines of a table. One that is not UTF-8 is read as Windows-1252, as browsers do."""
    for number, line in numbered_lines(stream):
        if line is None:
            malformed(f"{path}:{number}: longer than {readable_size(LONGEST_LINE)}")
            continue
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            yield line.decode("windows-1252", "replace")


# --- from files to decompressed lines ---


def kind_of(path: DataPath) -> str | None:
    """The ending of a file of posts, without its compression, which is empty for RS_2013-08.zst;
    None for another file."""
    suffixes = [suffix.lower() for suffix in Path(path.name).suffixes]
    is_compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    ending = "".join(suffixes[-2:-1] if is_compressed else suffixes[-1:])
    if ending in (*JSON_LINES, ".json", *TABLES):
        return ending
    return "" if is_compressed and path.name.startswith("RS_") else None


def dump_files(paths: Sequence[str]) -> tuple[list[DataPath], list[DataPath]]:
    """The files of posts that these paths stand for, in the order of their names, and the files
    that were found in folders but contain no posts."""
    files: dict[str, DataPath] = {}
    others: list[DataPath] = []
    for name in paths:
        path = local_path(name)
        if not is_group(name):
            if not path.exists():
                raise missing(path, f"Pass files of posts ({_ENDINGS}) or folders of them.")
            if kind_of(path) is None:
                raise GlassformerError(f"{path} is not a file of posts. Pass {_ENDINGS}.")
            files[str(path)] = path
            continue
        for file in every_file(name):
            if kind_of(file) is None:
                others.append(file)
            else:
                files[str(file)] = file
    if not files:
        raise GlassformerError(f"{', '.join(paths)} contains no files of posts. Pass {_ENDINGS}.")
    return [files[name] for name in sorted(files)], others


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
