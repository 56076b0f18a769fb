"""Labelled texts: read from tables, the hub, or a folder for each label, and split.

    reviews.csv       →  Example("Fine film.", ("pos",), "reviews.csv:2")  →  …
    reviews/pos/7.txt →  Example("Fine film.", ("pos",), "reviews/pos/7.txt")  →  …

A label is a string, whatever its type in the file (`labels.py`). Several labels of a text make the
data multi-label: each example has none, one or several. They are written in one of three ways:

    a list            ["crime", "drama"]
    a separator       crime; drama             (label_separator ";")
    columns of 0, 1   crime 1, drama 1, war 0  (label_column "crime,drama,war")

What cannot be learned is refused: a single label, continuous values, a label for every text.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from glassformer.data import label_columns, tables, text_files
from glassformer.data.archives import DataPath, ending, local_path
from glassformer.data.chats import TEMPLATE, with_chats
from glassformer.data.documents import Document, LabelledConfig, joined_text, read_documents
from glassformer.data.encodings import NotTextError
from glassformer.data.folders import files_for, has_folders, labelled_by_folder
from glassformer.data.label_columns import headerless_table
from glassformer.data.labels import SHOWN, brief, in_order, label_name, likely_separator, one_name
from glassformer.data.rows import DiskList
from glassformer.data.split import (
    Items,
    LabelledSplit,
    check_classes,
    check_kinds,
    content_key,
    fraction_of,
    normalised,
    split_labelled,
)
from glassformer.data.tables import TABLE_ENDINGS, Row, is_table
from glassformer.data.tagged_sentences import TAGGED_ENDINGS
from glassformer.data.text_files import EmptyError, reading, report
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted, shortened

# --- what the names of the data stand for ---


def named_one_by_one(names: Sequence[str], encoding: str) -> list[DataPath]:
    """The text files of several names, as a shell expands `reviews/*/*.txt` or `reviews/*`, if they
    are in different folders; else none."""
    paths = [local_path(name) for name in names]
    if len({path.parent if path.is_file() else path for path in paths}) < 2:
        return []
    if all(path.is_file() for path in paths):
        is_text = all(not is_table(path, encoding) for path in paths)
        return paths if is_text and headerless_table(paths[0], encoding) is None else []
    if not all(path.is_dir() for path in paths) or any(map(has_folders, paths)):
        return []
    files = [file for name in names for file in files_for(name) or ()]
    return [] if any(is_table(file, encoding) for file in files) else files


# --- examples ---

MANY = 1_000  # labels whose names are remembered while a table is read


class Example(NamedTuple):
    """A text, its labels (exactly one unless the data is multi-label), and where it was read."""

    text: str
    labels: tuple[str, ...]
    source: str

    @property
    def input(self) -> str:
        return self.text

    @property
    def content(self) -> str:
        return self.text

    def key(self, seed: int) -> int:
        return content_key(self.text, seed=seed)


@dataclass(slots=True)
class ExampleReader:
    """The examples of files, the columns they were read from, and notes on what was left out."""

    wanted_text: tuple[str, ...] = ()
    """The columns of the text, and the column or columns of the labels, where they are named."""
    wanted_label: str | None = None
    label_separator: str | None = None
    encoding: str = "utf-8"
    chat_template: Sequence[str] = TEMPLATE
    may_lack_header: bool = True
    examples: Any = field(default_factory=list)
    """A list, or the `into` of `read_examples`."""
    text_column: tuple[str, ...] = ()
    """The columns of the first table; empty for folders of texts and files without a header."""
    label_column: str | None = None
    has_names: bool = True
    """Whether the columns of the first table have names, not only numbers."""
    notes: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    """Descriptions of how columns are used, each with the first such table."""
    first_list: str | None = None
    """The place of the first list of labels, which makes the data multi-label."""
    _num_blank: int = 0
    """How many rows have no text."""
    _first_blank: str = ""
    """The place of the first row without text."""
    _num_single: int = 0
    """How many labels are not in a list."""
    _has_joined: bool = False
    """Whether a cell contains several labels, joined or as a list."""
    _is_ever_set: dict[str, bool] = field(default_factory=dict)
    """Whether each column of 0 and 1 contains a 1."""
    _names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels by how they are written: most rows have one of few."""

    @property
    def is_multi_label(self) -> bool:
        return self.first_list is not None

    def _read_all(self, names: Sequence[str]) -> None:
        with text_files.collecting() as happened:
            with reading(names[0] if names else ""):
                in_folders = named_one_by_one(names, self.encoding)
            self._read_folders(in_folders)
            for name in () if in_folders else names:
                with reading(name):
                    self._read(name)
        self.notes += happened.notes()
        if not len(self.examples):
            raise EmptyError(f"{', '.join(names)} contains no labelled text.")
        self.notes += self._oddities()

    def _oddities(self) -> Iterator[str]:
        """What the rows had together that may be a mistake."""
        if self._num_blank:
            blank = counted(self._num_blank, "example")
            yield f"left out: {blank} without text (first: {self._first_blank})"
        if self.label_separator is not None and not self._has_joined:
            yield f'no label contains the separator "{self.label_separator}"'
        if self.is_multi_label and self._num_single and self.label_separator is None:
            yield (
                f"{self._num_single:,} of {counted(len(self.examples), 'example')} have a single "
                f"label, the others a list (first: {self.first_list}): all are treated as "
                "multi-label data"
            )
        if unset := [name for name, has_one in self._is_ever_set.items() if not has_one]:
            yield f"no text has the {'label' if len(unset) == 1 else 'labels'} {brief(unset)}"

    def _read(self, name: str) -> None:
        files = files_for(name)
        if files is None:
            self._read_table(name)
            return
        table_files = [file for file in files if is_table(file, self.encoding)]
        texts = [file for file in files if file not in {*table_files}]
        texts = labelled_by_folder(name, texts)
        if texts:
            self._note_unused(name, files, texts, "that are not directly in a label folder")
            self._read_folders(texts)
        elif table_files:
            why = "that are neither tables nor in a label folder"
            self._note_unused(name, files, table_files, why)
            for file in table_files:
                with suppress(EmptyError):  # an empty file among others does no harm
                    self._read_table(str(file))
                    report().read(file)
        else:
            raise GlassformerError(
                f"{name} contains neither tables ({', '.join(TABLE_ENDINGS)}) nor a subfolder of "
                f"text files for each label. Add, for example, {name}/good and {name}/bad."
            )

    def _read_folders(self, texts: list[DataPath]) -> None:
        for file in texts:
            try:
                (document,) = read_documents([str(file)], encoding=self.encoding)
            except EmptyError:
                self._leave_out(str(file))
            except NotTextError:
                report().skip(file, text_files.UNRECOGNISED)
            else:
                report().read(file)
                label = one_name(file.parent.name)
                self.examples.append(Example(document.text, (label,), document.source))

    def _note_unused(
        self, name: str, files: Sequence[DataPath], used: Collection[DataPath], why: str
    ) -> None:
        used_files = {*used}
        if rest := [file for file in files if file not in used_files]:
            count = counted(len(rest), "file")
            self.notes.append(f"left out: {count} in {name} {why} (first: {rest[0]})")

    def _leave_out(self, source: str) -> None:
        self._num_blank += 1
        self._first_blank = self._first_blank or source

    def _read_table(self, name: str) -> None:
        path = local_path(name)
        if self.may_lack_header and (pairs := headerless_table(path, self.encoding)):
            order = ", ".join(pairs.columns)
            self.notes.append(f"{path} has no header; its columns are read as {order}")
            self._read_rows(pairs.rows, ("text",), ("label",))
            return
        if path.is_file() and not is_table(path, self.encoding):
            raise _of_another_kind(path, self.encoding)
        table = with_chats(tables.open_table(name, self.encoding), self.chat_template)
        texts, labels = label_columns.choose_columns(table, self.wanted_text, self.wanted_label)
        if self.label_column is None:
            is_clear = len(labels) == 1 or not any("," in name for name in labels)
            self.text_column = texts
            self.label_column = ",".join(labels) if is_clear else self.wanted_label
            self.has_names = table.has_names
        role = "label" if len(labels) == 1 else "labels"
        words = tables.columns_in_words(table, {"text": texts, role: labels})
        self.columns.setdefault(words, name)
        self._read_rows(table.rows, texts, labels)

    def _read_rows(
        self, rows: Iterable[Row], texts: tuple[str, ...], columns: tuple[str, ...]
    ) -> None:
        labels_of = self._listed_labels
        if len(columns) > 1:
            self._is_ever_set = dict.fromkeys(columns, False) | self._is_ever_set
            labels_of = self._set_labels
        for row in rows:
            if text := joined_text(row, texts):
                self.examples.append(Example(text, labels_of(row, columns), row.place))
            else:
                self._leave_out(row.place)

    def _set_labels(self, row: Row, columns: tuple[str, ...]) -> tuple[str, ...]:
        """The labels whose columns contain 1; the other columns contain 0."""
        self.first_list = self.first_list or row.place
        names = [name for name in columns if label_columns.is_set(row, name)]
        self._is_ever_set |= dict.fromkeys(names, True)
        return tuple(dict.fromkeys(map(one_name, names)))

    def _listed_labels(self, row: Row, columns: tuple[str, ...]) -> tuple[str, ...]:
        """The label, or the list of labels, in a column."""
        (name,) = columns
        value = row.get(name)
        if isinstance(value, str) and value in self._names:
            self._num_single += 1
            return self._names[value]
        several = label_columns.unpacked(value, self.label_separator)
        if self.label_separator is not None:
            is_joined = isinstance(several, list) and (len(several) != 1 or value == several)
            self._has_joined = self._has_joined or is_joined
        if isinstance(several, list):
            self.first_list = self.first_list or row.place
        else:
            self._num_single += 1
            several = [several]
        holder = f'column "{name}"'
        labels = tuple(dict.fromkeys(label_name(label, row.place, holder) for label in several))
        if isinstance(value, str) and [value] == several and len(self._names) < MANY:
            self._names[value] = labels
        return labels


def read_examples(
    paths: Iterable[str],
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    encoding: str = "utf-8",
    chat_template: Sequence[str] = TEMPLATE,
    into: Items[Example] | None = None,
    may_lack_header: bool | None = None,
    label_separator: str | None = None,
) -> ExampleReader:
    """The labelled texts of files, folders and hub datasets, in a fixed order: in a list, or added
    to what is given, one by one. A file without a header is recognised (None: unless columns are
    named)."""
    text_files.check_encoding(encoding)
    if may_lack_header is None:
        may_lack_header = not (text_column or label_column)
    reader = ExampleReader(
        tuple(text_column), label_column, label_separator, encoding, chat_template, may_lack_header
    )
    if into is not None:
        reader.examples = into
    reader._read_all(list(paths))
    return reader


def read_texts(
    paths: Iterable[str],
    text_column: Sequence[str] = (),
    encoding: str = "utf-8",
    usual: Sequence[str] = (),
    chat_template: Sequence[str] = TEMPLATE,
) -> Iterator[Document]:
    """The texts of files, with or without labels. The `usual` columns are used in tables with a
    header if no others are named."""
    for name in paths:
        with reading(name):
            table = None if text_column else headerless_table(local_path(name), encoding)
        if table is None:
            yield from read_documents([name], text_column or usual, encoding, chat_template)
        else:
            yield from (Document(row.values["text"], row.place) for row in table.rows)


def _of_another_kind(path: DataPath, encoding: str) -> UsageError:
    """An error for a file without labelled texts, with a cure that depends on its ending."""
    others = dict.fromkeys(
        TAGGED_ENDINGS, "tagged words. Use train tagger or finetune --task tag"
    ) | {".npz": "time series. Train rnn-classifier or classifier"}
    if content := others.get(ending(path)):
        return UsageError(
            f"{path} is not a table of texts: it contains {content}, or pass labelled texts."
        )
    if advice := label_columns.advice_for_tabs(path, encoding):
        return UsageError(advice)
    return UsageError(
        f"{path} is not a table ({', '.join(TABLE_ENDINGS)}), and its lines are not text, tab, "
        "label. Pass one of these, or a folder with a subfolder of text files for each label."
    )


# --- the split of labelled texts ---

ENOUGH = 10  # examples; if most of this many have a label of their own, they are not labels
DIFFERENT = 0.7  # the share of different labels from which on they are not labels


class LabelledTextsConfig(LabelledConfig):
    """Which labelled texts to train on, and how their labels are written."""

    label_separator: str | None = Field(None, min_length=1)
    """What separates several labels in a cell, e.g. ";" (null: each cell is one label)."""


def read_labelled(
    config: LabelledTextsConfig, seed: int, folder: Path | None = None
) -> LabelledSplit[Example]:
    """All examples, split as the config says; on disk, in `folder`, or (None) in memory."""
    parts: list[Items[Example]] = []
    read: list[ExampleReader] = []
    options = config.text_column, config.label_column, config.encoding, config.chat_template
    for paths in config.parts:
        store = None if folder is None else DiskList(folder, Example)
        parts.append(Items(paths, "example", seed, store, body="text"))
        read.append(
            read_examples(paths, *options, parts[-1], label_separator=config.label_separator)
            if paths
            else ExampleReader()
        )
    training, validation, test = parts
    is_multi_label = read[0].is_multi_label or read[1].is_multi_label
    with text_files.explaining(lambda: [note for part in read for note in part.notes]):
        check_kinds(training)
        if not read[0].is_multi_label:
            check_classes(training)
            _check_repetition(training, read[0].label_column)
        if not is_multi_label:
            _check_single_labels(test, training.where)
        fraction = config.validation_fraction or fraction_of(len(training))
        split = split_labelled(training, validation, test, fraction)
    split.notes[:0] = _doubtful_labels(training, read[0])
    columns: dict[str, str] = {}  # how they are used, and the first table in which they are
    for part in read:
        columns |= {words: name for words, name in part.columns.items() if words not in columns}
    return replace(
        split,
        is_multi_label=is_multi_label,
        text_column=read[0].text_column,
        label_column=read[0].label_column,
        notes=[note for part in read for note in part.notes] + split.notes,
        columns=[
            f"columns{f' of {name}' if len(columns) > 1 else ''}: {words}"
            for words, name in columns.items()
        ],
    )


def _doubtful_labels(items: Items[Example], read: ExampleReader) -> Iterator[str]:
    """Labels that look like a mistake in the data."""
    name = read.label_column
    if name is not None and read.has_names and one_name(name) in items.labels:
        yield (
            f'the label column is named "{name}", which is also one of its labels. If '
            f"{items.where} has no header, its first line was taken for one: add a header"
        )
    alike: dict[str, list[str]] = {}
    for label in in_order(items.labels):
        alike.setdefault(normalised(label), []).append(label)
    if (separator := likely_separator(items.labels)) and not read.is_multi_label:
        example = in_order(label for label in items.labels if separator in label)[0]
        yield (
            f'labels look joined by "{separator}" (such as "{shortened(example, SHOWN)}"): pass '
            f'--label-separator "{separator}" to read them as several labels of a text'
        )
    if several := [brief(spellings) for spellings in alike.values() if len(spellings) > 1]:
        yield (
            "labels that differ only in case, whitespace or Unicode normalization are separate: "
            f"{'; '.join(several[:3])}"
        )


def _check_single_labels(test: Items[Example], where: str) -> None:
    """The test data must have the same kind of labels as the training data."""
    if others := [code for code, answer in enumerate(test.kinds) if len(answer) != 1]:
        example = test.first(test.of_kinds(others))
        raise GlassformerError(
            f"{example.source}: {len(example.labels)} labels, but each text in {where} has one."
            " Give training and test data the same kind of labels."
        )


def _check_repetition(items: Items[Example], label_column: str | None) -> None:
    """Refuse labels that nearly all differ: nothing can be learned from them."""
    count, kinds = len(items), len(items.kinds)
    if count >= ENOUGH and kinds > DIFFERENT * count:
        where = "" if label_column is None else f' in column "{shortened(label_column, SHOWN)}"'
        cure = "Pass the column that contains the labels (--label-column)."
        if separator := likely_separator(items.labels):
            cure = f'They look joined by "{separator}": pass --label-separator "{separator}".'
        raise GlassformerError(
            f"{items.where} has {kinds:,} different labels for {count:,} examples{where}. {cure}"
        )
