"""Labelled texts in files without a header: lines of text, tab, label or label, tab, text."""

from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath

import numpy as np

from glassformer.data.labels import LABEL_COLUMNS, as_number
from glassformer.data.tables import TEXT_COLUMNS, Row, Table
from glassformer.data.text_files import DataPath, EmptyError, ending, looks_binary, read_lines
from glassformer.errors import GlassformerError

HEADED_ENDINGS = (".csv", ".jsonl", ".json", ".parquet")  # tables that always have a header
_SAMPLE = 100  # lines that are checked for tabs


def headerless_table(path: DataPath, encoding: str) -> Table | None:
    """The rows of a file of texts and labels without a header; None for any other file."""
    if not path.is_file() or ending(path) in HEADED_ENDINGS:
        return None
    # Whatever its ending, a file is a table if each of the first lines has exactly one tab.
    if ending(path) != ".tsv" and {*_tabs(path, encoding)} != {1}:
        return None
    if (names := _names(path, encoding)) is None:
        return None
    rows = (
        Row(dict(zip(names, fields, strict=True)), str(path), number)
        for number, fields in _lines(path, encoding)
    )
    return Table(str(path), names, ("text",), rows)


def advice_for_tabs(path: DataPath, encoding: str) -> str | None:
    """What to do with a file that is no `headerless_table` if its lines have tabs."""
    if min(_tabs(path, encoding), default=0) == 0:
        return None
    renamed = PurePath(path.name).with_suffix(".tsv")
    return (
        f"{path} is not a table by its ending, but its lines have tabs. Rename it to {renamed} to "
        "have it read as a table."
    )


def _tabs(path: DataPath, encoding: str) -> list[int]:
    """The number of tabs in each of the first lines; none if it is not a text."""
    try:
        if looks_binary(path):
            return []
    except EmptyError:
        return []
    first = "".join(islice(read_lines(path, encoding), _SAMPLE)).strip("\n")
    # A blank line has none: it ends a sentence of tagged words.
    return [line.count("\t") for line in first.split("\n")]


def _lines(path: DataPath, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that is not blank, and its number."""
    for number, line in enumerate(read_lines(path, encoding), 1):
        if line.strip():
            yield number, [cell.strip() for cell in line.split("\t")]


def _names(path: DataPath, encoding: str) -> tuple[str, str] | None:
    """The names of the two columns, or None if the first line is a header.

    The first line is an example if its two fields are not known column names and one of them is a
    number or occurs again further down.
    """
    lines = _lines(path, encoding)
    _, first = next(lines, (0, []))
    if len(first) != 2 or {cell.casefold() for cell in first} & {*TEXT_COLUMNS, *LABEL_COLUMNS}:
        return None
    later = array("q"), array("q")  # hashes: there may be millions of lines
    for number, fields in lines:
        if len(fields) != 2:
            raise GlassformerError(
                f"{path}:{number}: expected 2 fields, found {len(fields):,}. Write each line as "
                "text, tab, label, without a tab in the text."
            )
        for side, cell in zip(later, fields, strict=True):
            side.append(hash(cell))
    is_repeated = any(hash(cell) in side for cell, side in zip(first, later, strict=True))
    if not is_repeated and all(as_number(cell) is None for cell in first):
        return None
    # Labels repeat and texts hardly do, so a file with the label first can be recognized.
    num_kinds = [len(np.unique(side)) for side in later]
    return ("label", "text") if 2 * num_kinds[0] <= num_kinds[1] else ("text", "label")
