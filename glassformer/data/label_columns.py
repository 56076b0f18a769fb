"""Which columns of a table are the text and the labels, and how the labels of a row are written.

    label              one column: a single label, a list, or labels joined by a separator
    crime, drama, war  a column of 0 and 1 for each label
    text<TAB>label     a file without a header, with the label first or last

`labelled_texts.py` reads the rows.
"""

import ast
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np

from glassformer.data.archives import DataPath, ending
from glassformer.data.documents import text_columns
from glassformer.data.labels import LABEL_COLUMNS, SHOWN, as_number, brief, label_name
from glassformer.data.tables import TEXT_COLUMNS, Row, Table, column, used_twice
from glassformer.data.text_files import EmptyError, looks_binary, read_lines
from glassformer.errors import GlassformerError
from glassformer.wording import shortened

# --- columns with a name ---

IS_SET = {"0": False, "1": True, "false": False, "true": True}


def choose_columns(
    table: Table, wanted_text: Sequence[str], wanted_label: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The text and label columns: those asked for, else detected by name and content."""
    labels = named_labels(table, wanted_label)
    wanted = text_columns(table, wanted_text) if wanted_text else ()
    if both := [label for label in labels if label in wanted]:
        raise used_twice(table, both[0], "text", "label")
    if len(labels) > 1:
        return wanted or text_columns(table, (), used=labels), labels
    label = labels[0] if labels else None
    free = [name for name in table.columns if name not in wanted]
    named = [name for name in free if name.casefold() in LABEL_COLUMNS]
    if label is None and len(named) == 1:
        label = named[0]
    texts = wanted or text_columns(table, (), used=[label] if label else [])
    rest = [name for name in table.columns if name not in texts]
    if not table.has_names and not named:  # then only the content can tell
        rest = [name for name in rest if name in table.categories] or rest
    if label is None and len(rest) == 1:
        label = rest[0]
    binary = indicators(table, rest) if label is None and not named else []
    if len(binary) > 1:
        raise GlassformerError(
            f"{table.name} has several columns of 0 and 1 that could be the label "
            f"({brief(binary)}). Pass one as --label-column, or all that a text may "
            f"have at once, e.g. --label-column {','.join(binary[:2])}."
        )
    return texts, (label or column(table, None, LABEL_COLUMNS, "label", used=texts),)


def named_labels(table: Table, wanted: str | None) -> tuple[str, ...]:
    """The columns that `--label-column` names: one, or several separated by commas."""
    if wanted is None:
        return ()
    is_one = wanted in table.columns or any(row.get(wanted) is not None for row in table.head)
    parts = [wanted] if is_one else [part.strip() for part in wanted.split(",") if part.strip()]
    names = (column(table, part, LABEL_COLUMNS, "label") for part in parts or [wanted])
    return tuple(dict.fromkeys(names))


def indicators(table: Table, names: Iterable[str]) -> list[str]:
    """The columns that contain only 0 and 1, and both of them or only 0."""
    spelled = {name: {str(row.get(name)) for row in table.head} for name in names}
    return [name for name, values in spelled.items() if "0" in values and values <= {"0", "1"}]


def is_set(row: Row, name: str) -> bool:
    """Whether a text has the label that its column is named after."""
    label = label_name(row.get(name), row.place, f'column "{name}"')
    if label not in IS_SET:
        raise GlassformerError(
            f'{row.place}: column "{name}" contains "{shortened(label, SHOWN)}", not 0 or 1. Of '
            "several label columns, each needs a 1 where a text has the label, else a 0."
        )
    return IS_SET[label]


def unpacked(value: Any, separator: str | None) -> Any:
    """A .csv cell can contain a list, written as JSON or as pandas writes it (`['a', 'b']`), or
    with a separator."""
    if isinstance(value, str) and value.strip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(value.strip())
    if separator is not None and isinstance(value, str):
        # A cell without a label stays as it is: then a label is missing.
        return [part.strip() for part in value.split(separator) if part.strip()] or value
    return value


# --- files without a header: lines of text, tab, label or label, tab, text ---

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
        Row(dict(zip(names, fields, strict=True)), str(path), line)
        for line, fields in _lines(path, encoding)
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
