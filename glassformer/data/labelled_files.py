"""Labelled texts from tables, the hub, or a folder for each label.

    reviews.csv       →  Example("Fine film.", ("pos",), "reviews.csv:2")  →  …
    reviews/pos/7.txt →  Example("Fine film.", ("pos",), "reviews/pos/7.txt")  →  …

A label is a string, whatever its type in the file: 1, 1.0 and "1" are the same label. Lists of
labels make the data multi-label: each example then has none, one or several.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.corpus import (
    TEXT_ENDINGS,
    Document,
    joined_text,
    read_documents,
    text_columns,
)
from glassformer.data.headerless_files import headerless_rows
from glassformer.data.labels import LABEL_COLUMNS, label_name
from glassformer.data.tables import TABLE_ENDINGS, Row, Table, column, columns_in_words, open_table
from glassformer.data.tagged_files import TAGGED_ENDINGS
from glassformer.data.text_files import (
    EmptyError,
    check_encoding,
    ending,
    files_below,
    files_in,
    local_path,
    reading,
    visible_entries,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted


@dataclass(frozen=True, slots=True)
class Example:
    """A text, its labels (exactly one unless the data is multi-label), and where it was read."""

    text: str
    labels: tuple[str, ...]
    source: str

    @property
    def input(self) -> str:
        return self.text

    @property
    def content(self) -> bytes:
        return self.text.encode("utf-8", "surrogatepass")


@dataclass(slots=True)
class Labelled:
    """The examples of files, the columns they were read from, and notes on what was left out."""

    examples: list[Example] = field(default_factory=list)
    text_column: tuple[str, ...] = ()
    """The columns of the first table; empty for folders of texts and files without a header."""
    label_column: str | None = None
    notes: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    """How the columns of tables are used, in words, each with the first such table."""
    first_list: str | None = None
    """The place of the first list of labels, which makes the data multi-label."""

    @property
    def is_multi_label(self) -> bool:
        return self.first_list is not None


def read_examples(
    paths: Iterable[str],
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    encoding: str = "utf-8",
) -> Labelled:
    """The labelled texts of files, folders and hub datasets, in a fixed order."""
    check_encoding(encoding)
    names = list(paths)
    reader = _Reader(tuple(text_column), label_column, encoding)
    for name in names:
        with reading(name):
            reader.read(name)
    found = reader.found
    if not found.examples:
        raise EmptyError(f"{', '.join(names)} contains no labelled text.")
    if reader.blank:
        number = counted(len(reader.blank), "example")
        found.notes.append(f"left out: {number} without text (first: {reader.blank[0]})")
    if found.is_multi_label and reader.num_single:
        found.notes.append(
            f"{reader.num_single:,} of {len(found.examples):,} examples have a single label, the "
            f"others a list (first: {found.first_list}): all are treated as multi-label data"
        )
    return found


def read_texts(
    paths: Iterable[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
) -> Iterator[Document]:
    """The texts of files, with or without labels."""
    for name in paths:
        with reading(name):
            rows = None if text_column else headerless_rows(local_path(name), encoding)
        if rows is None:
            yield from read_documents([name], text_column, encoding)
        else:
            yield from (Document(row.values["text"], row.place) for row in rows)


@dataclass(slots=True)
class _Reader:
    """Reads one path after the other and collects the examples."""

    text_column: tuple[str, ...]
    label_column: str | None
    encoding: str
    found: Labelled = field(default_factory=Labelled)
    blank: list[str] = field(default_factory=list)
    """The places without text."""
    num_single: int = 0
    """How many labels are not in a list."""

    def read(self, name: str) -> None:
        path = local_path(name)
        if not path.is_dir():
            self._read_table(name)
        elif folders := _label_folders(path):
            self._read_folders(path, folders)
        else:
            for file in _tables_below(path):
                with suppress(EmptyError):  # an empty file among others does no harm
                    self._read_table(str(file))

    def _read_folders(self, path: Path, folders: list[Path]) -> None:
        if loose := files_in(path, TEXT_ENDINGS):
            self.found.notes.append(
                f"left out: {counted(len(loose), 'text file')} in {path} outside the label folders "
                f"(first: {loose[0]})"
            )
        for folder in folders:
            for file in files_in(folder, TEXT_ENDINGS):
                try:
                    (document,) = read_documents([str(file)], encoding=self.encoding)
                except EmptyError:
                    self.blank.append(str(file))
                else:
                    example = Example(document.text, (folder.name,), document.source)
                    self.found.examples.append(example)

    def _read_table(self, name: str) -> None:
        path = local_path(name)
        is_named = bool(self.text_column or self.label_column)
        pairs = None if is_named else headerless_rows(path, self.encoding)
        if pairs:
            order = ", ".join(pairs[0].values)
            self.found.notes.append(f"{path} has no header; its columns are read as {order}")
            self._read_rows(pairs, ("text",), "label")
            return
        if path.is_file() and ending(path) not in TABLE_ENDINGS:
            raise _of_another_kind(path)
        table = open_table(name, self.encoding)
        texts, label = self._columns(table)
        if self.found.label_column is None:
            self.found.text_column, self.found.label_column = texts, label
        words = columns_in_words(table, {"text": texts, "label": [label]})
        self.found.columns.setdefault(words, name)
        self._read_rows(table.rows, texts, label)

    def _columns(self, table: Table) -> tuple[tuple[str, ...], str]:
        """The text and label columns: those asked for, else detected by name and content."""
        label = self.label_column and column(table, self.label_column, LABEL_COLUMNS, "label")
        if label in self.text_column:
            raise UsageError(f'column "{label}" cannot be both the text and the label.')
        free = [name for name in table.columns if name not in self.text_column]
        named = [name for name in free if name.casefold() in LABEL_COLUMNS]
        if label is None and len(named) == 1:
            label = named[0]
        texts = text_columns(table, self.text_column, taken=[label] if label else [])
        rest = [name for name in table.columns if name not in texts]
        if label is None and len(rest) == 1:
            label = rest[0]
        return texts, label or column(table, None, LABEL_COLUMNS, "label", taken=texts)

    def _read_rows(self, rows: Iterable[Row], texts: tuple[str, ...], label: str) -> None:
        for row in rows:
            text = joined_text(row, texts)
            if not text:
                self.blank.append(row.place)
                continue
            value = _unpacked(row.values.get(label))
            if isinstance(value, list):
                self.found.first_list = self.found.first_list or row.place
            else:
                self.num_single += 1
                value = [value]
            labels = (label_name(each, row.place, f'column "{label}"') for each in value)
            self.found.examples.append(Example(text, tuple(dict.fromkeys(labels)), row.place))


def _unpacked(value: Any) -> Any:
    """A .csv cell can contain a list, written as JSON: `["a", "b"]`."""
    if isinstance(value, str) and value.strip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _of_another_kind(path: Path) -> UsageError:
    """An error for a file without labelled texts, with a cure that depends on its ending."""
    others = dict.fromkeys(
        TAGGED_ENDINGS, "tagged words. Use train tagger or finetune --task tag"
    ) | {".npz": "time series. Train rnn-classifier or classifier"}
    if content := others.get(ending(path)):
        return UsageError(
            f"{path} is not a table of texts: it contains {content}, or pass labelled texts."
        )
    return UsageError(
        f"{path} is not a table ({', '.join(TABLE_ENDINGS)}), and its lines are not text, tab, "
        "label. Pass one of these, or a folder with a subfolder of text files for each label."
    )


def _label_folders(folder: Path) -> list[Path]:
    """The direct subfolders that directly contain text files, by name."""
    folders = (entry for entry in visible_entries(folder) if entry.is_dir())
    return [each for each in folders if files_in(each, TEXT_ENDINGS)]


def _tables_below(folder: Path) -> list[Path]:
    found = list(files_below(folder, TABLE_ENDINGS, set()))
    if not found:
        raise GlassformerError(
            f"{folder} contains neither tables ({', '.join(TABLE_ENDINGS)}) nor a subfolder of "
            f"text files for each label. Add, for example, {folder}/good and {folder}/bad."
        )
    return found
