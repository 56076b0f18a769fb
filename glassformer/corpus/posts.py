"""Posts in Reddit-style dumps: what was linked, and how many people recommended it.

Dumps of different years and tools have their quirks: scores as strings, as fractions ("12.0") or
null, `ups` instead of `score`, `&amp;` inside URLs, self posts whose URL is their own page, and
crossposts whose URL is the page of the other post.
"""

import csv
import html
import io
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

from glassformer.corpus.dump_files import (
    LONGEST_LINE,
    TABLES,
    kind_of,
    numbered_lines,
    open_dump,
)
from glassformer.data.csv_files import declared_separator
from glassformer.data.text_files import DataPath
from glassformer.errors import GlassformerError
from glassformer.wording import readable_size

Row = dict[str, Any]
Malformed = Callable[[str], None]  # is given the place and the problem
Numbered = Iterator[tuple[int, Row]]  # the line on which a row begins

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
        next((found for name in SCORES if (found := _number(row.get(name))) is not None), None),
        " ".join(html.unescape(_text(row.get("title"))).split()),
        _text(row.get("subreddit")) or _subreddit_in(_text(row.get("permalink"))),
        is_self,
        _is_true(row.get("over_18")) or _is_true(origin.get("over_18")),
    )


def _subreddit_in(permalink: str) -> str:
    found = re.search(r"/r/(\w+)/", permalink)
    return found[1] if found else ""


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
        place = f"{path}:{number}"
        if line is None:
            malformed(f"{place}: longer than {readable_size(LONGEST_LINE)}")
            continue
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = str(error).replace("line 1 ", "")
            malformed(f"{place}: invalid JSON ({reason})")
            continue
        if isinstance(row, dict):
            yield row
        else:
            malformed(f"{place}: not a JSON object")


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
    for number, each in enumerate(_posts_in(value), 1):
        inner = each.get("data") if isinstance(each, dict) else None
        row = inner if isinstance(inner, dict) else each
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
