"""Tables as streams of rows: CSV, TSV, JSON, Parquet and the datasets on the Hugging Face hub.

    reviews.csv  →  Row({"text": "Fine film.", "stars": "4"}, place "reviews.csv:2")  →  …

A row remembers its place, so that later errors can report it. In a .csv, quotes protect separators
and line breaks; in a .tsv each line is a row and a quote is an ordinary character. Every format may
be compressed. Rows are streamed; only compressed Parquet is unpacked in memory.
"""

import csv
import difflib
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from glassformer.data import text_files
from glassformer.data.archives import DataPath, ending, local_path
from glassformer.data.columns import (
    CURE_OF_STRINGS,
    are_strings,
    chat_rows,
    holds_words,
    is_prose,
    keys_of,
    lacks_header,
    num_categories,
)
from glassformer.data.labels import LABEL_COLUMNS, SHOWN, brief
from glassformer.data.text_files import MalformedError, open_text, read_lines
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted, first_line, install, shortened

# --- tables ---

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")  # and .json, if it contains rows

TEXT_COLUMNS = (
    "text", "content", "body", "document", "sentence", "review", "article", "story", "comment",
    "message", "post", "passage", "paragraph",
)  # fmt: skip
_OTHERS = "id title headline name date time step source target src tgt url author index year score"
KNOWN_COLUMNS = frozenset((*TEXT_COLUMNS, *LABEL_COLUMNS, *_OTHERS.split()))

_SAMPLE = 100  # rows that are read to learn the columns


class NoTextColumnError(text_files.SkippedError):
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
        pairs = list(pairwise(self.head))
        return tuple(
            name for name in self.columns if any(a.get(name) == b.get(name) for a, b in pairs)
        )


def open_table(source: str | Path, encoding: str) -> Table:
    """Open a file, or a hub dataset named `namespace/name:config@split`."""
    path = local_path(source)
    classes: Collection[str] = ()
    with text_files.reading(source):
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
            raise text_files.missing(path)
    head = list(islice(rows, _SAMPLE))
    if not head:
        raise text_files.EmptyError(f"{source} has no rows.")
    columns = tuple(dict.fromkeys(name for row in head for name in row.values))
    values = {name: [row.values.get(name) for row in head] for name in columns}
    few = {name: number for name in columns if (number := num_categories(values[name]))}
    return Table(
        name=str(source),
        columns=columns,
        worded=tuple(name for name in columns if name not in classes and holds_words(values[name])),
        rows=chain(head, rows),
        prose=tuple(name for name in columns if name not in classes and is_prose(values[name])),
        categories=tuple(sorted(few, key=lambda name: few[name])),
        head=tuple(head),
    )


def is_table(path: DataPath, encoding: str) -> bool:
    """Whether a file contains rows and columns, by its ending or, if that is .json, its content."""
    if ending(path) == ".json" and path.is_file():
        return json_layout(path, encoding) is not None
    return ending(path) in TABLE_ENDINGS


def column(
    table: Table,
    wanted: str | None,
    candidates: Collection[str],
    role: str = "text",
    used: Collection[str] = (),
) -> str:
    """The column for `role`: the one asked for, else the one whose name or content suggests it."""
    free = [name for name in table.columns if name not in used]

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
        f"{table.name} {problem} ({names}: {brief(table.columns) or 'none'}). "
        f"Pass --{role}-column {' or '.join(map(short, likely[:3])) or 'NAME'}."
    )


def used_twice(table: Table, name: str, *roles: str) -> UsageError:
    """The error of a column that two options name."""
    options = " and ".join(f"--{role}-column" for role in roles)
    return UsageError(
        f'{table.name}: column "{shortened(name, SHOWN)}" cannot be both the '
        f"{' and the '.join(roles)}. Pass different columns as {options} (columns: "
        f"{brief(table.columns)})."
    )


def columns_in_words(table: Table, roles: dict[str, Sequence[str]]) -> str:
    """text review; label; not used: title, id. A column called like its role stands alone."""
    rest = [name for name in table.columns if not any(name in names for names in roles.values())]
    used = {**roles, "not used:": rest} if rest else roles
    return "; ".join(
        role if [*names] == [role] else f"{role} {brief(names)}" for role, names in used.items()
    )


# --- rows of each format ---

Record = tuple[int, list[str]]  # the line on which it begins, and its fields


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


def _with_header(path: DataPath, records: Iterator[Record], cure: str) -> Iterator[Row]:
    filled: Iterator[Record] = (record for record in records if any(map(str.strip, record[1])))
    top, header = next(filled, (0, []))
    if not header:
        raise text_files.EmptyError(f"{path} is empty.")
    names = [name.strip() for name in header]
    ahead = list(islice(filled, _SAMPLE))
    filled = chain(ahead, filled)
    if lacks_header(names, [fields for _, fields in ahead], KNOWN_COLUMNS):
        filled = chain([(top, header)], filled)
        names = [str(number) for number in range(1, len(header) + 1)]
        text_files.report().remark(
            f"{path} has no header: its first line is read as a row, and its columns are called "
            f"{brief(names)}"
        )
    if twice := [name for index, name in enumerate(names) if name in names[:index]]:
        raise MalformedError(
            f'{path}:{top}: two columns are named "{shortened(twice[0], SHOWN)}". Rename one.'
        )
    file, width = str(path), len(names)
    for line, fields in filled:
        if len(fields) != width:
            raise MalformedError(
                f"{path}:{line}: expected {counted(len(names), 'field')} ({brief(names)}), found "
                f"{len(fields):,}. {cure}"
            )
        yield Row(dict(zip(names, fields, strict=True)), file, line)


def _parquet_rows(path: DataPath) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise GlassformerError(f"{path} requires pyarrow. Run {install('pyarrow')}.") from None
    with text_files.open_bytes(path) as raw:
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
        for number, values in enumerate(chain.from_iterable(batches), 1):
            yield Row(values, name, number)
    except (ArrowException, ValueError, OverflowError) as error:  # e.g. text that is not UTF-8
        raise GlassformerError(f"{name}, after row {number:,}: {first_line(error)}") from None


# --- .csv: whichever of four characters separates the fields ---
# Spreadsheets of much of Europe write semicolons, databases tabs or bars. The separator is the one
# that divides the first records into equally many fields:
#
#     "Fine, really";4      ,  →  an error: a field ends at its closing quote
#     Bad, and long;1       ;  →  2 fields, 2 fields
#
# A first line `sep=;`, which Excel reads and does not show, names the separator instead.

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_DECLARED = re.compile(r'"?sep=(?:([^\w\s"\'])"?[ \t]*|(\t)"?)\r?\n?', re.IGNORECASE)
_CSV_SAMPLE = 200  # lines that are read to find the separator
_MOST = 0.9  # of the records have as many fields as the first, so that a bad line is reported
_NO_LIMIT = 2**31 - 1  # the largest limit that csv accepts on every platform


def read_csv(path: DataPath, encoding: str) -> tuple[Iterator[Record], str]:
    """The records of a file, and the name of its separator."""
    csv.field_size_limit(_NO_LIMIT)  # a document is often longer than the default of 128 KiB
    lines = read_lines(path, encoding)
    head = list(islice(lines, _CSV_SAMPLE))
    separator, first = declared_separator(head[0]) if head else None, 2
    if separator is None:
        separator, first = _separator(head), 1
    records = _records(path, chain(head[first - 1 :], lines), separator, first)
    return records, SEPARATORS.get(separator, repr(separator))


def declared_separator(line: str) -> str | None:
    """The separator that a first line `sep=;` names; None if it is a row."""
    declaration = _DECLARED.fullmatch(line)
    return None if declaration is None else declaration[1] or declaration[2]


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


# --- JSON: an object on each line (.jsonl, .json), or one array of objects (.json) ---
# Both are read one object at a time. Where an object is expected, a list of messages is a row, too:
# one with a single column, "messages". Conversations may also be inside other objects (.json); such
# a file is read as a whole. A .json file of another form is not a table.

Layout = Literal["lines", "array", "nested"]
Numbered = tuple[int, dict[str, Any]]  # the line on which an object begins

_HEAD = 2**20  # characters in which the form of a file shows
_AT_ONCE = 2**18  # characters that are read together, at least
_parsed = json.JSONDecoder().raw_decode  # `json.loads` takes much longer for a short line
_BETWEEN = re.compile(r"[\s,]*")
_ROLE = re.compile(r'"(role|from|speaker|sender)"\s*:')


def json_layout(path: DataPath, encoding: str) -> Layout | None:
    """The form of the rows in a .json file; None if it does not contain rows."""
    with open_text(path, encoding) as stream:
        beginning = stream.read(_HEAD).lstrip()
        if beginning.startswith("[") and beginning[1:].lstrip().startswith("{"):
            return "array"
    if beginning.startswith("{"):
        lines = (line for line in _first_lines(path, encoding) if line.strip())
        first, second = next(lines, ""), next(lines, "")
        if all(map(_is_object, (first, second))):
            return "lines"
    # A file of another form is text, unless it contains conversations.
    return "nested" if _ROLE.search(beginning) and _chats(path, encoding) else None


def _first_lines(path: DataPath, encoding: str) -> Iterator[str]:
    with open_text(path, encoding) as stream:
        while line := stream.readline(_HEAD):
            yield line


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_json_lines(path: DataPath, encoding: str) -> Iterator[Numbered]:
    lines = enumerate(read_lines(path, encoding), 1)
    filled = ((line_number, line) for line_number, line in lines if line.strip())
    for line_number, line in text_files.at_least_one(filled, f"{path} is empty."):
        try:
            value, end = _parsed(line)
        except (ValueError, RecursionError):
            value, end = None, 0
        if line[end:] not in ("\n", "") or type(value) is not dict:
            value = _object(line, f"{path}:{line_number}")
        if "\\u" in line:
            _check_surrogates(line, value, f"{path}:{line_number}")
        yield line_number, value


def _object(line: str, place: str) -> dict[str, Any]:
    """The object in a line, by all the rules: `_parsed` accepts no whitespace before it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error).replace("line 1 ", "")  # the line is already in the place
        raise MalformedError(
            f"{place}: invalid JSON ({reason}). Each line must be one object."
        ) from None
    if keys_of(value):
        return {"messages": value}
    if not isinstance(value, dict):
        cure = CURE_OF_STRINGS if are_strings(value) else 'Write each line as {"text": "…"}.'
        raise MalformedError(f"{place}: not a JSON object. {cure}")
    return value


def read_json_chats(path: DataPath, encoding: str) -> Iterator[Numbered]:
    """The conversations inside other objects, numbered from 1."""
    yield from enumerate(_chats(path, encoding) or [], 1)


def _chats(path: DataPath, encoding: str) -> list[dict[str, Any]] | None:
    with open_text(path, encoding) as stream:
        text = stream.read()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if "\0" in text:
        raise text_files.nul_at(str(path))
    _check_surrogates(text, value, str(path))
    return chat_rows(value)


def read_json_array(path: DataPath, encoding: str) -> Iterator[Numbered]:
    """The objects of an array, of which only one and the text read ahead are in memory."""
    decoder = json.JSONDecoder()
    with open_text(path, encoding) as stream:
        text, at, line = stream.read(_AT_ONCE), 0, 1
        at = text.index("[") + 1
        line += text.count("\n", 0, at)
        while True:
            start = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            line += text.count("\n", at, start)
            more = "" if start < len(text) else stream.read(_AT_ONCE)
            if more:
                text, at = more, 0
                continue
            if text[start : start + 1] in ("]", ""):
                return
            try:
                value, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                # An object that is cut off needs more text; each time twice as much.
                if more := stream.read(max(_AT_ONCE, len(text))):
                    text, at = text[start:] + more, 0
                    continue
                raise MalformedError(
                    f"{path}:{line}: invalid JSON ({error}). Write an array of objects."
                ) from None
            _check(value, text[start:at], f"{path}:{line}")
            yield line, value
            line += text.count("\n", start, at)


def _check(value: Any, text: str, place: str) -> None:
    if not isinstance(value, dict):
        raise MalformedError(f'{place}: not a JSON object. Write each as {{"text": "…"}}.')
    if "\0" in text:
        raise text_files.nul_at(place)
    _check_surrogates(text, value, place)


def _check_surrogates(text: str, value: Any, place: str) -> None:
    """JSON can express half a character; UTF-8 cannot."""
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedError(
                f"{place}: unpaired surrogate (\\ud…). Correct or remove it."
            ) from None


READERS: dict[Layout, Callable[[DataPath, str], Iterator[Numbered]]] = {
    "lines": read_json_lines,
    "array": read_json_array,
    "nested": read_json_chats,
}


# --- datasets on the Hugging Face hub: `namespace/name:config@split` ---
#
#     films/reviews@test  →  [{"text": "Fine film.", "label": "pos"}, …]  →  …
#
# The hub stores classes as numbers. Rows get the names of the classes instead.

HUB_NAME = re.compile(
    r"(?P<name>[a-z0-9][\w.-]*/[a-z0-9][\w.-]*)(:(?P<config>[\w.+-]+))?(@(?P<split>\S+))?",
    re.IGNORECASE | re.ASCII,
)
_BATCH = 256  # rows fetched at a time

Naming = Callable[[Any], Any]  # stored value → the same with class names


def open_hub(source: str) -> tuple[str, frozenset[str], Iterator[list[dict[str, Any]]]]:
    """The name of `namespace/name:config@split`, its columns that contain class names, not text,
    and its rows in batches, from the local cache if they are there."""
    parts = HUB_NAME.fullmatch(source)
    if parts is None:
        raise UsageError(f"{source} is not a dataset name such as roneneldan/TinyStories@train.")
    split = parts["split"] or "train"
    dataset = _loaded(source, parts["name"], parts["config"], split)
    namings = {
        column: naming
        for column, feature in dataset.features.items()
        if (naming := _naming(feature)) is not None
    }
    # In Arrow format, images and audio next to the text are not decoded.
    batches = dataset.with_format("arrow").iter(batch_size=_BATCH)
    named = (
        [row | {column: naming(row[column]) for column, naming in namings.items()} for row in rows]
        for rows in (batch.to_pylist() for batch in batches)
    )
    return f"{parts['name']}@{split}", frozenset(namings), named


def _loaded(source: str, name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise GlassformerError(
            f"{source} is not a local file or folder. To load it from the Hugging Face hub, run "
            f"{install('datasets')}."
        ) from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs every retry
    try:
        # Release 4 and later run no code that comes with a dataset.
        return datasets.load_dataset(name, config, split=split)
    except ConnectionError:
        raise GlassformerError(
            f"{source} is not on this machine, and the Hugging Face hub cannot be reached. "
            "Check the connection and HF_HUB_OFFLINE, or pass a file."
        ) from None
    except FileNotFoundError as error:
        raise GlassformerError(
            f"{source} is neither a local file nor an accessible dataset on the Hugging Face hub: "
            f"{first_line(error)} Check the name; private datasets require HF_TOKEN."
        ) from None
    except Exception as error:  # the call depends on a network, a disk and many formats
        raise GlassformerError(f"{source} cannot be loaded: {first_line(error)}") from error


def _naming(feature: Any) -> Naming | None:
    """How to name the classes, or lists of classes, in a column; None if it has none."""
    names = getattr(feature, "names", None)
    if isinstance(names, list):
        # Rows without a label, as in many test splits, have the class -1.
        return lambda value: names[value] if value is not None and value >= 0 else None
    inner = _naming(feature.feature) if hasattr(feature, "feature") else None
    if inner is None:
        return None
    return lambda values: None if values is None else [inner(value) for value in values]
