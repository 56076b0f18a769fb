"""Labelled texts in files without a header: lines of text, tab, label or label, tab, text."""

from itertools import islice
from pathlib import Path

from glassformer.data.corpus import TEXT_COLUMNS, TEXT_ENDINGS
from glassformer.data.labels import LABEL_COLUMNS, as_number
from glassformer.data.tables import Row
from glassformer.data.text_files import ending, read_lines
from glassformer.errors import GlassformerError

HEADED_ENDINGS = (".csv", ".jsonl", ".parquet")  # tables that always have a header
_SAMPLE = 100  # lines that are checked for tabs


def headerless_rows(path: Path, encoding: str) -> list[Row] | None:
    """The rows of a file of texts and labels without a header; None for any other file."""
    if not path.is_file() or ending(path) in HEADED_ENDINGS:
        return None
    if ending(path) != ".tsv" and not _has_tabs(path, encoding):
        return None
    return _without_header(path, encoding)


def _has_tabs(path: Path, encoding: str) -> bool:
    """Whether each of the first lines has exactly one tab, whatever the ending of the file."""
    try:
        first = "".join(islice(read_lines(path, encoding), _SAMPLE)).strip("\n")
    except GlassformerError:
        if ending(path) in TEXT_ENDINGS:
            raise
        return False  # not a text file
    # A blank line has none: it ends a sentence of tagged words.
    return all(line.count("\t") == 1 for line in first.split("\n"))


def _without_header(path: Path, encoding: str) -> list[Row] | None:
    """The rows of tab-separated lines, or None if the first line is a header.

    The first line is an example if its two fields are not known column names and one of them is a
    number or occurs again further down.
    """
    lines = (
        (number, [cell.strip() for cell in line.split("\t")])
        for number, line in enumerate(read_lines(path, encoding), 1)
        if line.strip()
    )
    top, first = next(lines, (0, []))
    if len(first) != 2 or {cell.casefold() for cell in first} & {*TEXT_COLUMNS, *LABEL_COLUMNS}:
        return None
    pairs = [(top, first), *lines]
    for number, fields in pairs:
        if len(fields) != 2:
            raise GlassformerError(
                f"{path}:{number}: expected 2 fields, found {len(fields)}. Write each line as "
                "text, tab, label, without a tab in the text."
            )
    later = [{fields[side] for _, fields in pairs[1:]} for side in (0, 1)]
    repeated = (cell in values for cell, values in zip(first, later, strict=True))
    if not any(repeated) and all(as_number(cell) is None for cell in first):
        return None
    # Labels repeat and texts hardly do, so a file with the label first can be recognized.
    names = ("label", "text") if 2 * len(later[0]) <= len(later[1]) else ("text", "label")
    return [Row(dict(zip(names, fields, strict=True)), str(path), at) for at, fields in pairs]
