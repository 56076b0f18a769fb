"""Where the labels of a row are: in one column, as a single label, a list or joined by a separator,
or in a column of 0 and 1 for each label.
"""

import ast
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from glassformer.data.labels import LABEL_COLUMNS, SHOWN, label_name
from glassformer.data.tables import Row, Table, column
from glassformer.errors import GlassformerError
from glassformer.wording import shortened

IS_SET = {"0": False, "1": True, "false": False, "true": True}


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
    return [name for name, found in spelled.items() if "0" in found and found <= {"0", "1"}]


def is_set(row: Row, name: str) -> bool:
    """Whether a text has the label that its column is named after."""
    given = label_name(row.get(name), row.place, f'column "{name}"')
    if given not in IS_SET:
        raise GlassformerError(
            f'{row.place}: column "{name}" contains "{shortened(given, SHOWN)}", not 0 or 1. Of '
            "several label columns, each needs a 1 where a text has the label, else a 0."
        )
    return IS_SET[given]


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
