"""What several verbs read alike."""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import typer

from glassformer.errors import GlassformerError, UsageError

if TYPE_CHECKING:
    from glassformer.text.tokenizers import Tokenizer

T = TypeVar("T")

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}


def read_text(argument: str | None) -> str:
    """The argument, or all of stdin without its last line break."""
    if argument is not None:
        return argument
    if sys.stdin is None or sys.stdin.isatty():  # None: closed by the shell
        raise UsageError("no text. Give it as an argument, or pipe it in.")
    try:
        return sys.stdin.read().removeprefix("\ufeff").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(f"byte {error.start:,}") from None


def read_lines(argument: str | None) -> Iterator[str]:
    """The argument, or the lines of stdin as they come."""
    if argument is not None:
        yield argument
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no text. Give it as an argument, or pipe it in, a text per line.")
    for number, line in enumerate(sys.stdin.buffer, 1):  # bytes: text is decoded ahead of its line
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise _not_utf8(f"line {number:,}") from None


def _not_utf8(place: str) -> GlassformerError:
    return GlassformerError(f"stdin, {place}: not UTF-8. Convert it, for example with iconv.")


def some_at_once(items: Iterable[T], number: int = 1024) -> Iterator[list[T]]:
    """In lists, so that many are worked on together and none has to wait for the last. What comes
    before a fault is not lost to it."""
    rest = iter(items)
    while True:
        batch = list[T]()
        try:
            batch.extend(islice(rest, number))
        except GlassformerError:
            if batch:
                yield batch
            raise
        if not batch:
            return
        yield batch


@contextmanager
def options_named(settings: Iterable[str]) -> Iterator[None]:
    """A complaint about settings in the words of the command line: num_beams is --num-beams."""
    names = "|".join(settings)
    try:
        yield
    except UsageError as error:
        said = re.sub(r" in the settings of \w+", "", str(error))
        # Names of one word are words of the language as well, but for the first of a sentence.
        names = rf"\b(?=\w*_)({names})\b|^({names})\b(?= is )"
        said = re.sub(names, lambda found: "--" + found[0].replace("_", "-"), said)
        raise UsageError(said) from None


def note_unknown(tokenizer: "Tokenizer", text: str) -> None:
    """Say on stderr if words of `text` are read as unknown ones."""
    if tokenizer.unknown is None:
        return
    ids = tokenizer.encode(text)
    if unknown := ids.count(tokenizer.unknown):
        typer.echo(
            f"note: {unknown} of the text's {len(ids)} tokens are words that the model does not "
            f"know ({tokenizer.token(tokenizer.unknown)}).",
            err=True,
        )


def count(text: str) -> int:
    """A whole number from 1 on, also written 9e9."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer() or number < 1:
        raise typer.BadParameter(f"{text} is not a whole number from 1 on.")
    return int(number)


def unescape(text: str) -> str:
    r"""`\n` as typed in a shell is two characters; here it means the line break."""
    result, rest = "", text
    while rest:
        pair = rest[:2]
        result += _ESCAPES.get(pair, rest[0])
        rest = rest[2:] if pair in _ESCAPES else rest[1:]
    return result
