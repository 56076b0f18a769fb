"""Labelled texts from tables, the hub or a folder per label.

    reviews.csv       →  Example("Fine film.", ("pos",), "reviews.csv:2")  →  …
    reviews/pos/7.txt →  Example("Fine film.", ("pos",), "reviews/pos/7.txt")  →  …

A label is a string, whatever it was in the file: 1, 1.0 and "1" are one label. A list of labels
makes a set multi-label: each example then has none, one or several.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.corpus import (
    TEXT_COLUMNS,
    TEXT_ENDINGS,
    Document,
    cell,
    read_documents,
)
from glassformer.data.tables import (
    TABLE_ENDINGS,
    EmptyError,
    Row,
    Table,
    check_encoding,
    column,
    columns_in_words,
    ending,
    local_path,
    nul_at,
    open_table,
    read_lines,
    reading,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

HEADED_ENDINGS = (".csv", ".jsonl", ".parquet")  # of tables whose columns always have names
TAGGED_ENDINGS = (".conllu", ".conll", ".bio", ".iob", ".iob2", ".bioes", ".annotated")  # words
LABEL_COLUMNS = (
    *("label", "labels", "class", "classes", "category", "categories", "sentiment", "target"),
    *("intent", "topic", "topics", "stars", "rating", "y", "tag", "tags", "emotion", "polarity"),
)


_SAMPLE = 100  # lines that are looked at for tabs


@dataclass(frozen=True, slots=True)
class Example:
    """A text, its labels (exactly one, unless the set is multi-label), and where it came from."""

    text: str
    labels: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """What files hold: the examples, how they were found, and what was left out in words."""

    examples: list[Example]
    is_multi_label: bool
    text_column: tuple[str, ...]
    """The columns that were used; empty for folders of text and files without a header."""
    label_column: str | None
    notes: list[str]
    columns: dict[str, str] = field(default_factory=dict)
    """What the columns of tables were taken for, in words, each with the first such table."""


def read_examples(
    paths: Iterable[str],
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    encoding: str = "utf-8",
) -> Labelled:
    """The labelled texts of files, folders and hub data sets, in a fixed order."""
    check_encoding(encoding)
    names = list(paths)
    found = _Reader(tuple(text_column), label_column, encoding)
    for name in names:
        with reading(name):
            found.read(name)
    if not found.examples:
        raise EmptyError(f"{', '.join(names)} has no text with a label.")
    if found.blank:
        number = len(found.blank)
        found.notes.append(
            f"{counted(number, 'example')} {'has' if number == 1 else 'have'} no text and "
            f"{'is' if number == 1 else 'are'} left out (first: {found.blank[0]})"
        )
    if found.listed and found.alone:
        found.notes.append(
            f"{found.alone:,} of {len(found.examples):,} labels stand alone, the others in lists "
            f"(first: {found.listed}): taken as data in which a text may have several labels"
        )
    texts, label = found.columns or ((), None)
    several = found.listed is not None
    return Labelled(found.examples, several, texts, label, found.notes, found.taken_for)


def read_texts(
    paths: Iterable[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
) -> Iterator[Document]:
    """The texts of files whose labels, if there are any, do not matter."""
    for name in paths:
        with reading(name):
            rows = None if text_column else _pairs(local_path(name), encoding)
        if rows is None:
            yield from read_documents([name], text_column, encoding)
        else:
            yield from (Document(row.values["text"], row.place) for row in rows)


@dataclass(slots=True)
class _Reader:
    """Reads one path after the other, and gathers what is found."""

    text_column: tuple[str, ...]
    label_column: str | None
    encoding: str
    examples: list[Example] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    columns: tuple[tuple[str, ...], str] | None = None
    """The text and label columns of the first table with a header."""
    taken_for: dict[str, str] = field(default_factory=dict)
    listed: str | None = None
    """Where the first list of labels stands."""
    alone: int = 0
    """How many labels stand in no list."""

    def read(self, name: str) -> None:
        path = local_path(name)
        if not path.is_dir():
            self._read_table(name)
        elif folders := _label_folders(path):
            self._read_folders(path, folders)
        else:
            for file in _tables_in(path):
                with suppress(EmptyError):  # among others an empty file is no more than a blank row
                    self._read_table(str(file))

    def _read_folders(self, path: Path, folders: list[Path]) -> None:
        if loose := _text_files(path):
            self.notes.append(
                f"{counted(len(loose), 'text file')} in {path} outside the folders of the labels "
                f"{'is' if len(loose) == 1 else 'are'} left out (first: {loose[0]})"
            )
        for folder in folders:
            for file in _text_files(folder):
                try:
                    (document,) = read_documents([str(file)], encoding=self.encoding)
                except EmptyError:
                    self.blank.append(str(file))
                else:
                    self.examples.append(Example(document.text, (folder.name,), document.source))

    def _read_table(self, name: str) -> None:
        path = local_path(name)
        is_named = bool(self.text_column or self.label_column)
        pairs = None if is_named else _pairs(path, self.encoding)
        if pairs:
            order = ", ".join(pairs[0].values)
            self.notes.append(f"{path} has no header; its columns are taken as {order}")
            self._read_rows(pairs, ("text",), "label")
            return
        if path.is_file() and ending(path) not in TABLE_ENDINGS:
            raise _of_another_kind(path)
        table = open_table(name, self.encoding)
        texts, label = _columns(table, self.text_column, self.label_column)
        self.columns = self.columns or (texts, label)
        taken_for = columns_in_words(table, {"text": texts, "label": [label]})
        self.taken_for.setdefault(taken_for, name)
        self._read_rows(table.rows, texts, label)

    def _read_rows(self, rows: Iterable[Row], texts: tuple[str, ...], label: str) -> None:
        for row in rows:
            text = _text(row, texts)
            if not text:
                self.blank.append(row.place)
                continue
            value, holder = _unpacked(row.values.get(label)), f'column "{label}"'
            if isinstance(value, list):
                self.listed = self.listed or row.place
                several = (label_name(each, row.place, holder) for each in value)
                labels = tuple(dict.fromkeys(several))
            else:
                labels = (label_name(value, row.place, holder),)
                self.alone += 1
            self.examples.append(Example(text, labels, row.place))


def label_name(value: Any, place: str, holder: str) -> str:
    """A label as a string; `place` and `holder` say where it stands if it is none."""
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case str() | int() | float():
            name = str(value).strip()
        case None:
            name = ""
        case _:
            raise GlassformerError(
                f"{place}: {holder} holds a value of type {type(value).__name__}, not a label. "
                "Say another --label-column."
            )
    if not name or name.casefold() == "nan":  # what pandas writes for a missing value
        raise GlassformerError(f"{place} has no label in {holder}. Fill it in, or delete the row.")
    if "\0" in name:
        raise nul_at(place)
    return name


def _unpacked(value: Any) -> Any:
    """A cell of a .csv can hold a list as well, spelt as in JSON: `["a", "b"]`."""
    if isinstance(value, str) and value.strip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _text(row: Row, columns: tuple[str, ...]) -> str:
    return "\n".join(part for name in columns if (part := cell(row, name)).strip())


# --- which columns, which files ---


def _columns(
    table: Table, text_column: tuple[str, ...], label_column: str | None
) -> tuple[tuple[str, ...], str]:
    """The columns of the text and of the label: as asked, else as their names and content say."""
    label = label_column and column(table, label_column, LABEL_COLUMNS, "label")
    if label in text_column:
        raise UsageError(f'column "{label}" cannot be both the text and the label.')
    named = [
        name
        for name in table.columns
        if name.casefold() in LABEL_COLUMNS and name not in text_column
    ]
    if label is None and len(named) == 1:
        label = named[0]
    wanted: Sequence[str | None] = text_column or [None]
    taken = [label] if label else []
    texts = tuple(column(table, each, TEXT_COLUMNS, taken=taken) for each in wanted)
    rest = [name for name in table.columns if name not in texts]
    if label is None and len(rest) == 1:
        label = rest[0]
    return texts, label or column(table, None, LABEL_COLUMNS, "label", taken=texts)


def _of_another_kind(path: Path) -> UsageError:
    """For a file that holds no labelled texts: what it holds, by its ending, or how to write it."""
    if ending(path) in TAGGED_ENDINGS:
        return UsageError(
            f"{path} is not a table of texts: it holds words with their tags, which only a tagger "
            "reads. Say train tagger or finetune --task tag, or give texts with a label each."
        )
    if ending(path) == ".npz":
        return UsageError(
            f"{path} is not a table of texts: it holds sequences of numbers. Train rnn-classifier "
            "or classifier, or give texts with a label each."
        )
    return UsageError(
        f"{path} is not a table ({', '.join(TABLE_ENDINGS)}), and its lines are not text, tab, "
        "label. Write them so, or give a folder with a folder of text files for each label."
    )


def _pairs(path: Path, encoding: str) -> list[Row] | None:
    """The rows of a file of text and label without a header; None for any other."""
    if not path.is_file() or ending(path) in HEADED_ENDINGS:
        return None
    if ending(path) != ".tsv" and not _has_tabs(path, encoding):
        return None
    return _without_header(path, encoding)


def _has_tabs(path: Path, encoding: str) -> bool:
    """Has each of the first lines exactly one tab, whatever the file's name ends in?"""
    try:
        first = "".join(islice(read_lines(path, encoding), _SAMPLE)).strip("\n")
    except GlassformerError:
        if ending(path) in TEXT_ENDINGS:
            raise
        return False  # no text at all
    # A blank line between others has none: it ends a sentence of words and their tags.
    return all(line.count("\t") == 1 for line in first.split("\n"))


def _without_header(path: Path, encoding: str) -> list[Row] | None:
    """The rows of lines with a tab in them, if these have no header.

    Its first line is an example, not a header, if it has two fields that are no names of columns,
    and one of them is a number or comes again further down.
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
                f"{path}:{number}: the number of fields is {len(fields)}, but 2 in the first line. "
                "Write each line as text, tab, label; no field may hold a tab or a line break."
            )
    later = ({fields[0] for _, fields in pairs[1:]}, {fields[1] for _, fields in pairs[1:]})
    if not any(
        cell in values or _is_number(cell) for cell, values in zip(first, later, strict=True)
    ):
        return None
    # Labels come again and again, texts hardly: so a file with the label first gives itself away.
    names = ("label", "text") if 2 * len(later[0]) <= len(later[1]) else ("text", "label")
    return [Row(dict(zip(names, fields, strict=True)), str(path), at) for at, fields in pairs]


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


def _label_folders(folder: Path) -> list[Path]:
    """The folders right below that have text files right in them, by name."""
    return [entry for entry in _visible(folder) if entry.is_dir() and _text_files(entry)]


def _text_files(folder: Path) -> list[Path]:
    return [file for file in _visible(folder) if file.is_file() and ending(file) in TEXT_ENDINGS]


def _tables_in(folder: Path) -> list[Path]:
    found = [
        file
        for file in sorted(folder.rglob("*"))
        if ending(file) in TABLE_ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    if not found:
        raise GlassformerError(
            f"{folder} has neither a folder of text files for each label, such as {folder}/good "
            f"and {folder}/bad, nor tables ({', '.join(TABLE_ENDINGS)}). Give one that has."
        )
    return found


def _visible(folder: Path) -> Iterator[Path]:
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return (entry for entry in entries if not entry.name.startswith("."))
