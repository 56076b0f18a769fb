"""Records of a .csv, whichever of four characters separates its fields.

Spreadsheets of much of Europe write semicolons, databases tabs or bars. The separator is the one
that divides the first records into equally many fields:

    "Fine, really";4      ,  →  an error: a field ends at its closing quote
    Bad, and long;1       ;  →  2 fields, 2 fields

A first line `sep=;`, which Excel reads and does not show, names the separator instead.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from glassformer.data.text_files import DataPath, MalformedError, read_lines

Record = tuple[int, list[str]]  # the line on which it begins, and its fields

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_DECLARED = re.compile(r'"?sep=(?:([^\w\s"\'])"?[ \t]*|(\t)"?)\r?\n?', re.IGNORECASE)
_SAMPLE = 200  # lines that are read to find the separator
_MOST = 0.9  # of the records have as many fields as the first, so that a bad line is reported
_NO_LIMIT = 2**31 - 1  # the largest limit that csv accepts on every platform


def read_csv(path: DataPath, encoding: str) -> tuple[Iterator[Record], str]:
    """The records of a file, and the name of its separator."""
    csv.field_size_limit(_NO_LIMIT)  # a document is often longer than the default of 128 KiB
    lines = read_lines(path, encoding)
    head = list(islice(lines, _SAMPLE))
    separator, first = declared_separator(head[0]) if head else None, 2
    if separator is None:
        separator, first = _separator(head), 1
    records = _records(path, chain(head[first - 1 :], lines), separator, first)
    return records, SEPARATORS.get(separator, repr(separator))


def declared_separator(line: str) -> str | None:
    """The separator that a first line `sep=;` names; None if it is a row."""
    found = _DECLARED.fullmatch(line)
    return None if found is None else found[1] or found[2]


def _records(path: DataPath, lines: Iterator[str], separator: str, first: int) -> Iterator[Record]:
    """`first` is the number of the first line."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    line = first
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + first
    except csv.Error as error:
        raise MalformedError(
            f"{path}:{line}: invalid CSV ({error}). Double each quote inside a quoted field."
        ) from None


def _separator(head: Sequence[str]) -> str:
    scores = {separator: _regularity(head, separator) for separator in SEPARATORS}
    best = max(scores, key=lambda separator: scores[separator])  # of equal ones the first
    if scores[best] >= _MOST:
        return best
    first = head[0] if head else ""
    return ";" if ";" in first and "," not in first else ","


def _regularity(head: Sequence[str], separator: str) -> float:
    """The share of records with as many fields as the first one, which has at least two."""
    widths: list[int] = []
    try:
        for fields in csv.reader(head, delimiter=separator, strict=True):
            if any(map(str.strip, fields)):
                widths.append(len(fields))
    except csv.Error:  # a bad quote, or a record that is longer than the sample
        pass
    if not widths or widths[0] < 2:
        return 0.0
    return widths.count(widths[0]) / len(widths)
