"""Rows in JSON: an object on each line (.jsonl, .json), or one array of objects (.json).

Both are read one object at a time. Where an object is expected, a list of messages is a row, too:
one with a single column, "messages". Conversations may also be inside other objects (.json); such a
file is read as a whole. A .json file of another form is not a table.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from glassformer.data.messages import CURE_OF_STRINGS, are_strings, chat_rows, keys_of
from glassformer.data.text_files import (
    DataPath,
    MalformedError,
    at_least_one,
    nul_at,
    open_text,
    read_lines,
)

Layout = Literal["lines", "array", "nested"]
Numbered = tuple[int, dict[str, Any]]  # the line on which an object begins

_HEAD = 2**20  # characters in which the form of a file shows
_AT_ONCE = 2**18  # characters that are read together, at least
_parsed = json.JSONDecoder().raw_decode  # `json.loads` takes much longer for a short line
_BETWEEN = re.compile(r"[\s,]*")
_ROLE = re.compile(r'"(role|from|speaker|sender)"\s*:')


def json_layout(path: DataPath, encoding: str) -> Layout | None:
    """The form of the rows in a .json file; None if it does not contain rows."""
    with open_text(path, encoding) as stream:
        beginning = stream.read(_HEAD).lstrip()
        if beginning.startswith("[") and beginning[1:].lstrip().startswith("{"):
            return "array"
    if beginning.startswith("{"):
        lines = (line for line in _first_lines(path, encoding) if line.strip())
        first, second = next(lines, ""), next(lines, "")
        if all(map(_is_object, (first, second))):
            return "lines"
    # A file of another form is text, unless it contains conversations.
    return "nested" if _ROLE.search(beginning) and _chats(path, encoding) else None


def _first_lines(path: DataPath, encoding: str) -> Iterator[str]:
    with open_text(path, encoding) as stream:
        while line := stream.readline(_HEAD):
            yield line


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_json_lines(path: DataPath, encoding: str) -> Iterator[Numbered]:
    lines = enumerate(read_lines(path, encoding), 1)
    filled = ((number, line) for number, line in lines if line.strip())
    for number, line in at_least_one(filled, f"{path} is empty."):
        try:
            value, end = _parsed(line)
        except (ValueError, RecursionError):
            value, end = None, 0
        if line[end:] not in ("\n", "") or type(value) is not dict:
            value = _object(line, f"{path}:{number}")
        if "\\u" in line:
            _check_surrogates(line, value, f"{path}:{number}")
        yield number, value


def _object(line: str, place: str) -> dict[str, Any]:
    """The object in a line, by all the rules: `_parsed` accepts no whitespace before it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error).replace("line 1 ", "")  # the line is already in the place
        raise MalformedError(
            f"{place}: invalid JSON ({reason}). Each line must be one object."
        ) from None
    if keys_of(value):
        return {"messages": value}
    if not isinstance(value, dict):
        cure = CURE_OF_STRINGS if are_strings(value) else 'Write each line as {"text": "…"}.'
        raise MalformedError(f"{place}: not a JSON object. {cure}")
    return value


def read_json_chats(path: DataPath, encoding: str) -> Iterator[Numbered]:
    """The conversations inside other objects, numbered from 1."""
    yield from enumerate(_chats(path, encoding) or [], 1)


def _chats(path: DataPath, encoding: str) -> list[dict[str, Any]] | None:
    with open_text(path, encoding) as stream:
        text = stream.read()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if "\0" in text:
        raise nul_at(str(path))
    _check_surrogates(text, value, str(path))
    return chat_rows(value)


def read_json_array(path: DataPath, encoding: str) -> Iterator[Numbered]:
    """The objects of an array, of which only one and the text read ahead are in memory."""
    decoder = json.JSONDecoder()
    with open_text(path, encoding) as stream:
        text, at, line = stream.read(_AT_ONCE), 0, 1
        at = text.index("[") + 1
        line += text.count("\n", 0, at)
        while True:
            start = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            line += text.count("\n", at, start)
            more = "" if start < len(text) else stream.read(_AT_ONCE)
            if more:
                text, at = more, 0
                continue
            if text[start : start + 1] in ("]", ""):
                return
            try:
                value, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                # An object that is cut off needs more text; each time twice as much.
                if more := stream.read(max(_AT_ONCE, len(text))):
                    text, at = text[start:] + more, 0
                    continue
                raise MalformedError(
                    f"{path}:{line}: invalid JSON ({error}). Write an array of objects."
                ) from None
            _check(value, text[start:at], f"{path}:{line}")
            yield line, value
            line += text.count("\n", start, at)


def _check(value: Any, text: str, place: str) -> None:
    if not isinstance(value, dict):
        raise MalformedError(f'{place}: not a JSON object. Write each as {{"text": "…"}}.')
    if "\0" in text:
        raise nul_at(place)
    _check_surrogates(text, value, place)


def _check_surrogates(text: str, value: Any, place: str) -> None:
    """JSON can express half a character; UTF-8 cannot."""
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedError(
                f"{place}: unpaired surrogate (\\ud…). Correct or remove it."
            ) from None


READERS: dict[Layout, Callable[[DataPath, str], Iterator[Numbered]]] = {
    "lines": read_json_lines,
    "array": read_json_array,
    "nested": read_json_chats,
}
