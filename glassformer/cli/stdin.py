"""Text from an argument, from the file that it names, or from standard input."""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from glassformer.cli.options import Strings
from glassformer.cli.output import note
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import similar

T = TypeVar("T")
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}")
# A word with one of these is the name of a file, even if no other file has a similar name.
_ENDINGS = frozenset((".txt", ".md", ".csv", ".tsv", ".json", ".jsonl", ".html", ".log", ".xml"))
_ENDINGS |= {".conll", ".conllu", ".parquet", ".gz", ".zip", ".pdf", ".png", ".jpg", ".jpeg"}
_LONGEST_NAME = 255  # characters of a file's name


def text_of(argument: str) -> str:
    """The argument, or the content of the file that it names, without its last line break."""
    if (path := file_named(argument)) is not None:
        return _content(path, argument)
    _check_is_text(argument)
    return argument


def _check_is_text(argument: str) -> None:
    """Raise if it is probably the mistyped name of a file."""
    path = Path(argument).expanduser() if argument.startswith("~/") else Path(argument)
    has_suffix = _SUFFIX.fullmatch(path.suffix) is not None
    is_path = len(path.parts) > 1
    may_be_name = "\n" not in argument and "://" not in argument and len(path.name) <= _LONGEST_NAME
    if not may_be_name or not (has_suffix or is_path):
        return
    neighbour = _similar(path)
    is_word = not re.search(r"\s", argument)
    is_name = is_word and has_suffix and (is_path or path.suffix.lower() in _ENDINGS)
    if neighbour is not None or is_name:
        cure = "Check the name." if neighbour is None else f"Did you mean {neighbour}?"
        raise GlassformerError(
            f"there is no file {argument}. {cure} To use the argument itself as text, pipe it in."
        )


def _similar(path: Path) -> Path | None:
    """A file in the same folder whose name differs by a few letters."""
    try:
        files = {file.name: file for file in path.parent.iterdir() if file.is_file()}
    except (OSError, ValueError):  # there is no such folder, or a text that cannot be a name
        return None
    name = similar(path.name, files, cutoff=0.8)
    return files[name] if name else None


def file_named(argument: str) -> Path | None:
    """The file that an argument names, if there is one."""
    try:
        path = Path(argument).expanduser() if argument.startswith("~/") else Path(argument)
        return path if path.is_file() else None
    except (OSError, ValueError):  # a text that cannot be a name
        return None


def _content(path: Path, argument: str) -> str:
    from glassformer.data.text_files import open_text

    with open_text(path, "utf-8") as stream:
        text = stream.read()
    if "\0" in text:
        raise GlassformerError(f"{argument} is a binary file, not text.")
    note(f"{argument} is a file: its content is read. To use a name as text, pipe it in.")
    return text.removesuffix("\n")


def read_text(argument: str | None) -> str:
    """The argument, the file that it names, or all of stdin without its last line break."""
    if argument is not None:
        return text_of(argument)
    if sys.stdin is None or sys.stdin.isatty():  # None: closed by the shell
        raise UsageError("no text. Pass it as an argument, or pipe it in.")
    try:
        text = sys.stdin.buffer.read().decode()  # sys.stdin itself would decode by the locale
    except UnicodeDecodeError as error:
        raise _not_utf8(f"byte {error.start:,}") from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n")


def read_lines(argument: str | None) -> Iterator[str]:
    """The argument, the lines of the file that it names, or those of stdin as they arrive."""
    if argument is not None:
        text = text_of(argument)
        yield from [text] if file_named(argument) is None else text.split("\n")
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no text. Pass it as an argument, or pipe it in, one text per line.")
    number = 0
    for number, line in enumerate(sys.stdin.buffer, 1):  # text would be decoded ahead of its line
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise _not_utf8(f"line {number:,}") from None
    if not number:
        note("stdin is empty: there is nothing to read.")


def check_text_or_data(text: str | Strings, data: Strings, text_column: Strings) -> None:
    """For a verb that reads a text, stdin, or files."""
    if data and text:
        raise UsageError("both a text and --data were passed. Leave out one of them.")
    if text_column and not data:
        raise UsageError("--text-column needs --data: it names a column of a table.")
    from glassformer.data.tables import is_table

    for argument in [text] if isinstance(text, str) else text or ():
        if (path := file_named(argument)) and is_table(path, "utf-8"):
            raise UsageError(f"{argument} is a table. To use its rows, pass --data {argument}.")


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
