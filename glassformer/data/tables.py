"""Tables as streams of rows: CSV, TSV, JSONL, Parquet and the data sets of the Hugging Face hub.

    reviews.csv  →  Row({"text": "Fine film.", "stars": "4"}, place "reviews.csv:2")  →  …

A row remembers its place, so that whoever finds fault with it later can say where. In a .csv,
quotes protect commas and line breaks; in a .tsv a line is a row and a quote is a character like
any other. Every format may be gzipped. Rows stream; only gzipped Parquet is unpacked in memory.
"""

import codecs
import csv
import difflib
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from glassformer.data.hub import HUB_NAME, open_hub
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import first_line, install

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")

_GIVE = "Give a file, a folder, or a Hugging Face data set such as roneneldan/TinyStories."
_SAMPLE = 100  # rows that are looked at to learn the columns
_BATCH = 256  # rows that are taken from Parquet at a time
_NO_LIMIT = 2**31 - 1  # the most that csv accepts on every platform


class EmptyError(GlassformerError):
    """There is nothing in the file."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and where it stands: its first line in a text file, its number elsewhere."""

    values: dict[str, Any]
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows still to be read, and the columns that the first of them have."""

    name: str
    columns: tuple[str, ...]
    worded: tuple[str, ...]
    """The columns that hold words, not only numbers."""
    rows: Iterator[Row]


def open_table(source: str | Path, encoding: str) -> Table:
    """A file, or a data set of the hub named `namespace/name:config@split`."""
    path = local_path(source)
    classes: Collection[str] = ()
    with reading(source):
        if path.is_file():
            rows = read_rows(path, encoding)
        elif path.exists():
            raise GlassformerError(f"{source} is neither a file nor a folder.")
        elif HUB_NAME.fullmatch(str(path)) and not _is_local(path):
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
    """The rows of a file, in the format that its ending names."""
    match ending(path):
        case ".csv":
            return _with_header(path, _csv_records(path, encoding), "Quote a field with a comma.")
        case ".tsv":
            cure = "No field may hold a tab or a line break; a .csv may."
            return _with_header(path, _tsv_records(path, encoding), cure)
        case ".jsonl":
            return _jsonl_rows(path, encoding)
        case ".parquet":
            return _parquet_rows(path)
    raise UsageError(
        f"{path} is not a table. The endings of tables are {', '.join(TABLE_ENDINGS)}."
    )


def column(
    table: Table,
    wanted: str | None,
    candidates: Collection[str],
    role: str = "text",
    taken: Collection[str] = (),
) -> str:
    """The column that plays `role`: the one wanted, else the one whose name or content says so."""
    if wanted is not None and wanted in table.columns:
        return wanted
    free = [name for name in table.columns if name not in taken]
    if wanted is not None:
        near = difflib.get_close_matches(wanted, free, n=1)
        raise _unclear(table, f'has no column "{wanted}"', role, near)
    named = [name for name in free if name.casefold() in candidates]
    worded = [name for name in free if name in table.worded]
    if len(named) == 1 or (not named and len(worded) == 1):
        return (named or worded)[0]
    if named:
        raise _unclear(table, f"has more than one column that may be the {role}", role, named)
    raise _unclear(table, f"has no column that is plainly the {role}", role, worded)


def columns_in_words(table: Table, roles: dict[str, Sequence[str]]) -> str:
    """text review; label sentiment; not used: title, id"""
    rest = [name for name in table.columns if not any(name in names for names in roles.values())]
    said = [f"{role} {_listed(names)}" for role, names in roles.items()]
    return "; ".join([*said, *([f"not used: {_listed(rest)}"] if rest else [])])


def local_path(name: str | Path) -> Path:
    """The path of that name; `~/` is home also where no shell has put it in."""
    return Path(name).expanduser() if str(name).startswith("~/") else Path(name)


def _is_local(path: Path) -> bool:
    return path.suffix[1:].isalpha() or path.parent.is_dir()


def ending(path: Path) -> str:
    """`.csv` of both `Reviews.CSV` and `reviews.csv.gz`."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


# --- files ---


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """What the operating system or gzip has against reading `name`, as an error of ours."""
    try:
        yield
    except EOFError:
        raise GlassformerError(f"{name} breaks off before its end. Fetch it again.") from None
    except (gzip.BadGzipFile, zlib.error):
        raise GlassformerError(f"{name} is not gzip, or is damaged. Fetch it again.") from None
    except OSError as error:
        raise GlassformerError(f"{name} cannot be read: {error.strerror or error}.") from None


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """A file or its gzip as text: no byte order mark, and every line ends in `\\n`."""
    codec = check_encoding(encoding)
    with open_bytes(path) as raw:
        stream = io.TextIOWrapper(raw, "utf-8-sig" if codec == "utf-8" else codec)
        try:
            yield stream
        except UnicodeError as error:
            raise _undecodable(path, codec, error, raw.tell()) from None


def check_encoding(encoding: str) -> str:
    """Python's own name for an encoding of text; any other name is refused."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise UsageError(
            f"unknown encoding {encoding!r}. Say, for example, --encoding utf-8 or latin-1."
        ) from None
    return codecs.lookup(encoding).name


def nul_at(place: str) -> GlassformerError:
    return GlassformerError(
        f"{place}: a NUL byte. A binary file is not text; if this is UTF-16, say "
        "--encoding utf-16-le."
    )


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    with reading(path):
        if path.stat().st_size == 0:
            raise EmptyError(f"{path} is empty. Give a file with text in it.")
        is_gzip = path.suffix.lower() == ".gz"
        with cast(BinaryIO, gzip.open(path)) if is_gzip else path.open("rb") as raw:
            yield raw


def read_lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file or its gzip, one at a time, each with its `\\n`."""
    with open_text(path, encoding) as stream:
        for number, line in enumerate(stream, 1):
            if "\0" in line:
                raise nul_at(f"{path}:{number}")
            yield line


def _undecodable(path: Path, codec: str, error: UnicodeError, end: int) -> GlassformerError:
    if not isinstance(error, UnicodeDecodeError):  # UTF-16 without its mark
        return GlassformerError(f"{path}: not {codec} ({error}). Say another --encoding.")
    # The decoder fails on its last piece, which ends where reading stopped: count back from there.
    # The first byte of a file is byte 0.
    offset = end - len(error.object) + error.start
    found = error.object[error.start]
    cure = "Say the --encoding it was saved in."
    if codec.startswith("utf-8"):
        other = "utf-16" if offset == 0 and found in (0xFE, 0xFF) else "latin-1"
        if other == "latin-1" and b"\0" in error.object:
            return GlassformerError(f"{path} is not text but a binary file. Give text, or a table.")
        codec, cure = "UTF-8", f"Save it as UTF-8, or say --encoding {other}."
    return GlassformerError(f"{path}, byte {offset:,}: not {codec} (0x{found:02X}). {cure}")


def missing(path: Path, cure: str = _GIVE) -> GlassformerError:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    if near := difflib.get_close_matches(path.name, names, n=1, cutoff=0.8):
        cure = f"Did you mean {folder / near[0]}?"
    return GlassformerError(f"{path} does not exist. {cure}")


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
            f"{path}:{line}: not CSV ({error}). Inside a quoted field, write a quote twice."
        ) from None


def _tsv_records(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path, encoding), 1):
        yield number, line.rstrip("\n").split("\t")


def _with_header(path: Path, records: Iterator[tuple[int, list[str]]], cure: str) -> Iterator[Row]:
    filled = ((line, fields) for line, fields in records if any(map(str.strip, fields)))
    top, header = next(filled, (0, []))
    if not header:
        raise EmptyError(f"{path} is empty.")
    names = [name.strip() for name in header]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise GlassformerError(f'{path}:{top}: two columns are called "{name}". Rename one.')
    for line, fields in filled:
        if len(fields) != len(names):
            raise GlassformerError(
                f"{path}:{line}: the number of fields is {len(fields)}, but {len(names)} in the "
                f"header ({_listed(names)}). {cure}"
            )
        yield Row(dict(zip(names, fields, strict=True)), str(path), line)


def _jsonl_rows(path: Path, encoding: str) -> Iterator[Row]:
    is_empty = True
    for number, line in enumerate(read_lines(path, encoding), 1):
        if line.strip():
            is_empty = False
            yield Row(_json_object(line, f"{path}:{number}"), str(path), number)
    if is_empty:
        raise EmptyError(f"{path} is empty.")


def _json_object(line: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
        if "\\ud" in line or "\\uD" in line:  # JSON can spell half a character; UTF-8 cannot
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise GlassformerError(f"{place}: half of a surrogate pair. Mend that \\ud….") from None
    except (ValueError, RecursionError) as error:
        reason = str(error).replace("line 1 ", "")  # our own line is the one that helps
        raise GlassformerError(
            f"{place}: not JSON ({reason}). Each line must be one object."
        ) from None
    if not isinstance(value, dict):
        raise GlassformerError(f'{place}: not an object. Write each line as {{"text": "…"}}.')
    return value


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise GlassformerError(f"{path} needs pyarrow. Run {install('pyarrow')}.") from None
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
        for batch in batches:
            for values in batch:
                number += 1
                yield Row(values, name, number)
    except (ArrowException, ValueError, OverflowError) as error:  # say, text that is not UTF-8
        raise GlassformerError(f"{name}, after row {number:,}: {first_line(error)}") from None


# --- words ---


def _unclear(table: Table, problem: str, role: str, likely: Sequence[str]) -> GlassformerError:
    hint = f"Say --{role}-column {' or '.join(likely[:3]) if likely else 'NAME'}."
    return GlassformerError(f"{table.name} {problem}. It has: {_listed(table.columns)}. {hint}")


def _holds_words(values: Iterable[Any]) -> bool:
    present = [value for value in values if value is not None and value != ""]
    texts = [value for value in present if isinstance(value, str)]
    # A stray number among texts is refused where it stands; here it hides no column.
    is_mostly_text = 10 * len(texts) >= 9 * len(present)
    return is_mostly_text and not all(map(_is_number, texts))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more]) or "none"
