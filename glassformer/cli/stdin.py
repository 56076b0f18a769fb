"""Text from an argument or from standard input."""

import codecs
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from glassformer.errors import GlassformerError, UsageError

T = TypeVar("T")


def read_text(argument: str | None) -> str:
    """The argument, or all of stdin without its last line break."""
    if argument is not None:
        return argument
    if sys.stdin is None or sys.stdin.isatty():  # None: closed by the shell
        raise UsageError("no text. Pass it as an argument, or pipe it in.")
    try:
        return sys.stdin.read().removeprefix("\ufeff").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(f"byte {error.start:,}") from None


def read_lines(argument: str | None) -> Iterator[str]:
    """The argument, or the lines of stdin as they arrive."""
    if argument is not None:
        yield argument
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no text. Pass it as an argument, or pipe it in, one text per line.")
    for number, line in enumerate(sys.stdin.buffer, 1):  # text would be decoded ahead of its line
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise _not_utf8(f"line {number:,}") from None


def check_text_or_data(
    text: str | None, data: list[str] | None, text_column: list[str] | None
) -> None:
    """For a verb that reads a text, stdin, or files."""
    if data and text is not None:
        raise UsageError("both a text and --data were passed. Leave out one of them.")
    if text_column and not data:
        raise UsageError("--text-column needs --data: it names a column of a table.")


def in_batches(items: Iterable[T], size: int = 1024) -> Iterator[list[T]]:
    """Lists of up to `size` items. Items that were read before an error are yielded before it is
    raised."""
    rest = iter(items)
    while True:
        batch = list[T]()
        try:
            batch.extend(islice(rest, size))
        except GlassformerError:
            if batch:
                yield batch
            raise
        if not batch:
            return
        yield batch


def _not_utf8(place: str) -> GlassformerError:
    return GlassformerError(f"stdin, {place}: invalid UTF-8. Convert it, for example with iconv.")
