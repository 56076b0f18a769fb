"""What several verbs read alike."""

import sys

import typer

from glassformer.errors import UsageError

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}


def read_text(argument: str | None) -> str:
    """The argument, or all of stdin without its last line break."""
    if argument is not None:
        return argument
    if sys.stdin is None or sys.stdin.isatty():  # None: closed by the shell
        raise UsageError("no text. Give it as an argument, or pipe it in.")
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin, byte {error.start:,}: not UTF-8.") from None


def count(text: str) -> int:
    """A whole number, also written 9e9."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise typer.BadParameter(f"{text} is not a whole number.")
    return int(number)


def unescape(text: str) -> str:
    r"""`\n` as typed in a shell is two characters; here it means the line break."""
    result, rest = "", text
    while rest:
        pair = rest[:2]
        result += _ESCAPES.get(pair, rest[0])
        rest = rest[2:] if pair in _ESCAPES else rest[1:]
    return result
