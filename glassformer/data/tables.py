"""Tables as streams of rows: CSV, TSV, JSON, Parquet and the datasets on the Hugging Face hub.

    reviews.csv  →  Row({"text": "Fine film.", "stars": "4"}, place "reviews.csv:2")  →  …

A row remembers its place, so that later errors can report it. In a .csv, quotes protect separators
and line breaks; in a .tsv each line is a row and a quote is an ordinary character. Every format may
be compressed. Rows are streamed; only compressed Parquet is unpacked in memory.
"""

import difflib
import io
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.column_kinds import holds_words, is_prose, lacks_header, num_categories
from glassformer.data.csv_files import read_csv
from glassformer.data.hub import HUB_NAME, open_hub
from glassformer.data.json_files import READERS, json_layout, read_json_lines
from glassformer.data.labels import LABEL_COLUMNS, SHOWN, joined
from glassformer.data.messages import CURE_OF_STRINGS, are_strings
from glassformer.data.reading_report import report
from glassformer.data.text_files import (
    DataPath,
    EmptyError,
    MalformedError,
    SkippedError,
    ending,
    local_path,
    missing,
    open_bytes,
    read_lines,
    reading,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted, first_line, install, shortened

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")  # and .json, if it contains rows

TEXT_COLUMNS = (
    *("text", "content", "body", "document", "sentence", "review"),
    *("article", "story", "comment", "message", "post", "passage", "paragraph"),
)
_OTHERS = "id title headline name date time step source target src tgt url author index year score"
KNOWN_COLUMNS = frozenset((*TEXT_COLUMNS, *LABEL_COLUMNS, *_OTHERS.split()))

_SAMPLE = 100  # rows that are read to learn the columns
_BATCH = 256  # rows read from Parquet at a time


class NoTextColumnError(SkippedError):
    """A table has no column that is obviously text."""

    reason = "no text column"


class Row(NamedTuple):
    """One row and its place: the first line in a text file, the row number elsewhere."""

    values: dict[str, Any]
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def get(self, name: str) -> Any:
        """The value in a column, or at a dotted path into nested objects; None if there is none."""
        if name in self.values or "." not in name:
            return self.values.get(name)
        value: Any = self.values
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value


@dataclass(frozen=True, slots=True)
class Table:
    """A stream of rows, and the columns of the first ones."""

    name: str
    columns: tuple[str, ...]
    worded: tuple[str, ...]
    """The columns that contain words, not only numbers."""
    rows: Iterator[Row]
    prose: tuple[str, ...] = ()
    """The columns that contain text of several words."""
    categories: tuple[str, ...] = ()
    """The columns with few different values, those with the fewest first."""
    head: tuple[Row, ...] = ()
    """The first rows."""

    @property
    def has_names(self) -> bool:
        """Whether its columns have names; without a header, they are numbered from 1."""
        return self.columns != tuple(str(number) for number, _ in enumerate(self.columns, 1))

    @property
    def repeated(self) -> tuple[str, ...]:
        """The columns whose neighbouring rows have equal values."""
        pairs = list(itertools.pairwise(self.head))
        return tuple(
            name for name in self.columns if any(a.get(name) == b.get(name) for a, b in pairs)
        )


def open_table(source: str | Path, encoding: str) -> Table:
    """Open a file, or a hub dataset named `namespace/name:config@split`."""
    path = local_path(source)
    classes: Collection[str] = ()
    with reading(source):
        if path.is_file():
            rows = read_rows(path, encoding)
        elif path.exists():
            raise GlassformerError(f"{source} is neither a file nor a folder.")
        elif HUB_NAME.fullmatch(str(path)) and not (
            path.suffix[1:].isalpha() or path.parent.is_dir()  # a local file that is missing
        ):
            name, classes, batches = open_hub(str(source))
            rows = _arrow_rows(name, batches)
        else:
            raise missing(path)
    head = list(itertools.islice(rows, _SAMPLE))
    if not head:
        raise EmptyError(f"{source} has no rows.")
    columns = tuple(dict.fromkeys(name for row in head for name in row.values))
    values = {name: [row.values.get(name) for row in head] for name in columns}
    few = {name: number for name in columns if (number := num_categories(values[name]))}
    return Table(
        name=str(source),
        columns=columns,
        worded=tuple(each for each in columns if each not in classes and holds_words(values[each])),
        rows=itertools.chain(head, rows),
        prose=tuple(each for each in columns if each not in classes and is_prose(values[each])),
        categories=tuple(sorted(few, key=lambda name: few[name])),
        head=tuple(head),
    )


def is_table(path: DataPath, encoding: str) -> bool:
    """Whether a file contains rows and columns, by its ending or, if that is .json, its content."""
    if ending(path) == ".json" and path.is_file():
        return json_layout(path, encoding) is not None
    return ending(path) in TABLE_ENDINGS


def read_rows(path: DataPath, encoding: str) -> Iterator[Row]:
    """The rows of a file, whose ending determines the format."""
    match ending(path):
        case ".csv":
            records, separator = read_csv(path, encoding)
            return _with_header(path, records, f"Quote fields that contain a {separator}.")
        case ".tsv":
            lines = enumerate(read_lines(path, encoding), 1)
            split = ((number, line.rstrip("\n").split("\t")) for number, line in lines)
            cure = "Fields cannot contain a tab or a line break; use .csv for these."
            return _with_header(path, split, cure)
        case ".jsonl":
            file = str(path)
            return (Row(row, file, line) for line, row in read_json_lines(path, encoding))
        case ".json":
            layout = json_layout(path, encoding)
            if layout is None:
                raise UsageError(
                    f"{path} is not a table: write an array of objects, or an object on each line."
                )
            return (Row(row, str(path), line) for line, row in READERS[layout](path, encoding))
        case ".parquet":
            return _parquet_rows(path)
    raise UsageError(f"{path} is not a table. Supported extensions: {', '.join(TABLE_ENDINGS)}.")


def column(
    table: Table,
    wanted: str | None,
    candidates: Collection[str],
    role: str = "text",
    taken: Collection[str] = (),
) -> str:
    """The column for `role`: the one asked for, else the one whose name or content suggests it."""
    free = [name for name in table.columns if name not in taken]

    def short(name: str) -> str:
        """A name to type; the number of a column with a long one."""
        return name if len(name) <= SHOWN else str(table.columns.index(name) + 1)

    if wanted is not None:
        if wanted in table.columns or any(row.get(wanted) is not None for row in table.head):
            return wanted
        if wanted.isdecimal() and 1 <= int(wanted) <= len(table.columns):
            return table.columns[int(wanted) - 1]
        problem = f'has no column "{shortened(wanted, SHOWN)}"'
        fitting = table.categories if role == "label" else table.prose
        likely = difflib.get_close_matches(wanted, free, n=1)
        likely = likely or [name for name in fitting if name in free]
    else:
        named = [name for name in free if name.casefold() in candidates]
        likely = named or [name for name in free if name in table.worded]
        if len(likely) == 1:
            return likely[0]
        if role == "label" and not named:
            likely = [name for name in table.categories if name in free] or likely
        problem = f"has no obvious {role} column"
        if named:
            problem = f"has several columns that could be the {role}"
    kind = NoTextColumnError if wanted is None and role == "text" else GlassformerError
    if wanted is None and role == "label" and len(table.columns) == 1:
        raise GlassformerError(
            f'{table.name} has a single column, "{shortened(table.columns[0], SHOWN)}", so there '
            "are no labels in it. Add a column with the label of each row."
        )
    if kind is NoTextColumnError and not likely:
        lists = [name for name in free if any(are_strings(row.get(name)) for row in table.head)]
        if len(lists) == 1:  # several are the words of sentences and their tags
            raise kind(
                f'{table.name}: column "{lists[0]}" contains lists of strings, not text. '
                f"{CURE_OF_STRINGS}"
            )
    names = "columns" if table.has_names else "columns, without a header"
    raise kind(
        f"{table.name} {problem} ({names}: {joined(table.columns) or 'none'}). "
        f"Pass --{role}-column {' or '.join(map(short, likely[:3])) or 'NAME'}."
    )


def used_twice(table: Table, name: str, *roles: str) -> UsageError:
    """The error of a column that two options name."""
    options = " and ".join(f"--{role}-column" for role in roles)
    return UsageError(
        f'{table.name}: column "{shortened(name, SHOWN)}" cannot be both the '
        f"{' and the '.join(roles)}. Pass different columns as {options} (columns: "
        f"{joined(table.columns)})."
    )


def columns_in_words(table: Table, roles: dict[str, Sequence[str]]) -> str:
    """text review; label; not used: title, id. A column called like its role stands alone."""
    rest = [name for name in table.columns if not any(name in names for names in roles.values())]
    used = {**roles, "not used:": rest} if rest else roles
    return "; ".join(
        role if [*names] == [role] else f"{role} {joined(names)}" for role, names in used.items()
    )


# --- formats ---


def _with_header(
    path: DataPath, records: Iterator[tuple[int, list[str]]], cure: str
) -> Iterator[Row]:
    filled: Iterator[tuple[int, list[str]]] = (
        (line, fields) for line, fields in records if any(map(str.strip, fields))
    )
    top, header = next(filled, (0, []))
    if not header:
        raise EmptyError(f"{path} is empty.")
    names = [name.strip() for name in header]
    ahead = list(itertools.islice(filled, _SAMPLE))
    filled = itertools.chain(ahead, filled)
    if lacks_header(names, [fields for _, fields in ahead], KNOWN_COLUMNS):
        filled = itertools.chain([(top, header)], filled)
        names = [str(number) for number in range(1, len(header) + 1)]
        report().remark(
            f"{path} has no header: its first line is read as a row, and its columns are called "
            f"{joined(names)}"
        )
    if twice := [name for index, name in enumerate(names) if name in names[:index]]:
        raise MalformedError(
            f'{path}:{top}: two columns are named "{shortened(twice[0], SHOWN)}". Rename one.'
        )
    file, width = str(path), len(names)
    for line, fields in filled:
        if len(fields) != width:
            raise MalformedError(
                f"{path}:{line}: expected {counted(len(names), 'field')} ({joined(names)}), found "
                f"{len(fields):,}. {cure}"
            )
        yield Row(dict(zip(names, fields, strict=True)), file, line)


def _parquet_rows(path: DataPath) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise GlassformerError(f"{path} requires pyarrow. Run {install('pyarrow')}.") from None
    with open_bytes(path) as raw:
        is_plain = isinstance(path, Path) and path.suffix.lower() == ".parquet"
        seekable = raw if is_plain else io.BytesIO(raw.read())
        try:
            file = parquet.ParquetFile(seekable)
        except ArrowException as error:
            raise MalformedError(f"{path} is not Parquet: {first_line(error)}") from None
        batches = (batch.to_pylist() for batch in file.iter_batches(batch_size=_BATCH))
        yield from _arrow_rows(str(path), batches)


def _arrow_rows(name: str, batches: Iterable[list[dict[str, Any]]]) -> Iterator[Row]:
    from pyarrow import ArrowException

    number = 0
    try:
        for number, values in enumerate(itertools.chain.from_iterable(batches), 1):
            yield Row(values, name, number)
    except (ArrowException, ValueError, OverflowError) as error:  # e.g. text that is not UTF-8
        raise GlassformerError(f"{name}, after row {number:,}: {first_line(error)}") from None
