"""Tables as streams of rows: CSV, TSV, JSONL, Parquet and the datasets on the Hugging Face hub.

    reviews.csv  →  Row({"text": "Fine film.", "stars": "4"}, place "reviews.csv:2")  →  …

A row remembers its place, so that later errors can report it. In a .csv, quotes protect commas and
line breaks; in a .tsv each line is a row and a quote is an ordinary character. Every format may be
gzipped. Rows are streamed; only gzipped Parquet is unpacked in memory.
"""

import csv
import difflib
import gzip
import io
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.hub import HUB_NAME, open_hub
from glassformer.data.labels import joined
from glassformer.data.text_files import (
    EmptyError,
    at_least_one,
    ending,
    local_path,
    missing,
    open_bytes,
    read_lines,
    reading,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted, first_line, install

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")

_SAMPLE = 100  # rows that are read to learn the columns
_BATCH = 256  # rows read from Parquet at a time
_NO_LIMIT = 2**31 - 1  # the largest limit that csv accepts on every platform


@dataclass(frozen=True, slots=True)
class Row:
    """One row and its place: the first line in a text file, the row number elsewhere."""

    values: dict[str, Any]
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Table:
    """A stream of rows, and the columns of the first ones."""

    name: str
    columns: tuple[str, ...]
    worded: tuple[str, ...]
    """The columns that contain words, not only numbers."""
    rows: Iterator[Row]


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
            found = open_hub(str(source))
            rows, classes = _arrow_rows(found.name, found.batches), found.classes
        else:
            raise missing(path)
    head = list(itertools.islice(rows, _SAMPLE))
    if not head:
        raise EmptyError(f"{source} has no rows.")
    columns = tuple(dict.fromkeys(name for row in head for name in row.values))
    worded = tuple(
        name
        for name in columns
        if name not in classes and _holds_words(row.values.get(name) for row in head)
    )
    return Table(str(source), columns, worded, itertools.chain(head, rows))


def read_rows(path: Path, encoding: str) -> Iterator[Row]:
    """The rows of a file, whose ending determines the format."""
    match ending(path):
        case ".csv":
            cure = "Quote fields that contain a comma."
            return _with_header(path, _csv_records(path, encoding), cure)
        case ".tsv":
            lines = enumerate(read_lines(path, encoding), 1)
            records = ((number, line.rstrip("\n").split("\t")) for number, line in lines)
            cure = "Fields cannot contain a tab or a line break; use .csv for these."
            return _with_header(path, records, cure)
        case ".jsonl":
            return _jsonl_rows(path, encoding)
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
    if wanted is not None:
        if wanted in table.columns:
            return wanted
        problem, likely = f'has no column "{wanted}"', difflib.get_close_matches(wanted, free, n=1)
    else:
        named = [name for name in free if name.casefold() in candidates]
        likely = named or [name for name in free if name in table.worded]
        if len(likely) == 1:
            return likely[0]
        problem = f"has no obvious {role} column"
        if named:
            problem = f"has several columns that could be the {role}"
    raise GlassformerError(
        f"{table.name} {problem} (columns: {joined(table.columns) or 'none'}). "
        f"Pass --{role}-column {' or '.join(likely[:3]) or 'NAME'}."
    )


def columns_in_words(table: Table, roles: dict[str, Sequence[str]]) -> str:
    """text review; label sentiment; not used: title, id"""
    rest = [name for name in table.columns if not any(name in names for names in roles.values())]
    used = {**roles, "not used:": rest} if rest else roles
    return "; ".join(f"{role} {joined(names)}" for role, names in used.items())


# --- formats ---


def _csv_records(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_NO_LIMIT)  # a document is often longer than the default of 128 KiB
    lines = read_lines(path, encoding)
    first = next(lines, "")
    delimiter = ";" if ";" in first and "," not in first else ","  # Excel, in much of Europe
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise GlassformerError(
            f"{path}:{line}: invalid CSV ({error}). Double each quote inside a quoted field."
        ) from None


def _with_header(path: Path, records: Iterator[tuple[int, list[str]]], cure: str) -> Iterator[Row]:
    filled = ((line, fields) for line, fields in records if any(map(str.strip, fields)))
    top, header = next(filled, (0, []))
    if not header:
        raise EmptyError(f"{path} is empty.")
    names = [name.strip() for name in header]
    if twice := [name for index, name in enumerate(names) if name in names[:index]]:
        raise GlassformerError(f'{path}:{top}: two columns are named "{twice[0]}". Rename one.')
    for line, fields in filled:
        if len(fields) != len(names):
            raise GlassformerError(
                f"{path}:{line}: expected {counted(len(names), 'field')} ({joined(names)}), found "
                f"{len(fields)}. {cure}"
            )
        yield Row(dict(zip(names, fields, strict=True)), str(path), line)


def _jsonl_rows(path: Path, encoding: str) -> Iterator[Row]:
    lines = enumerate(read_lines(path, encoding), 1)
    filled = ((number, line) for number, line in lines if line.strip())
    for number, line in at_least_one(filled, f"{path} is empty."):
        yield Row(_json_object(line, f"{path}:{number}"), str(path), number)


def _json_object(line: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
        if "\\ud" in line or "\\uD" in line:  # JSON can express half a character; UTF-8 cannot
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise GlassformerError(
            f"{place}: unpaired surrogate (\\ud…). Correct or remove it."
        ) from None
    except (ValueError, RecursionError) as error:
        reason = str(error).replace("line 1 ", "")  # the line of the file is already in `place`
        raise GlassformerError(
            f"{place}: invalid JSON ({reason}). Each line must be one object."
        ) from None
    if not isinstance(value, dict):
        raise GlassformerError(f'{place}: not a JSON object. Write each line as {{"text": "…"}}.')
    return value


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise GlassformerError(f"{path} requires pyarrow. Run {install('pyarrow')}.") from None
    with open_bytes(path) as raw:
        seekable = io.BytesIO(raw.read()) if isinstance(raw, gzip.GzipFile) else raw
        try:
            file = parquet.ParquetFile(seekable)
        except ArrowException as error:
            raise GlassformerError(f"{path} is not Parquet: {first_line(error)}") from None
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


def _holds_words(values: Iterable[Any]) -> bool:
    present = [value for value in values if value not in (None, "")]
    texts = [value for value in present if isinstance(value, str)]
    # A stray number among texts is reported when its row is read; it does not hide the column.
    is_mostly_text = 10 * len(texts) >= 9 * len(present)
    return is_mostly_text and not all(map(_is_number, texts))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
