"""A corpus: documents from files, folders, tables or the hub, split into training and validation.

    paths  →  Document, Document, Document, …  →  TextStore  →  training | validation

A text file is one document, and so is a row of a table. All text is copied to one file on disk, so
that the hub and compressed files are read only once: from there it is compared, held out, sampled
for the tokenizer and encoded.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from pydantic import Field

from glassformer.config import Config, StringTuple
from glassformer.data import tables, text_files
from glassformer.data.chats import TEMPLATE, chat_documents, with_chats
from glassformer.data.columns import CURE_OF_STRINGS, are_strings
from glassformer.data.folders import is_group, read_all
from glassformer.data.rows import Mask, TextPart, TextStore
from glassformer.data.split import SLACK, USUAL, Groups, Keys, choose, leaks, long_content_key, verb
from glassformer.data.tables import Row, Table, column, is_table, open_table
from glassformer.data.text_files import DataPath, EmptyError, at_least_one, ending, local_path
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import LongText
from glassformer.wording import counted, readable_size

# --- what to read ---

_AT_ONCE = 2**20  # characters of a text file that are read together


class CorpusConfig(Config):
    """The text to train on, and the text to validate on."""

    paths: StringTuple = Field(min_length=1)
    """Files, folders, or datasets on the Hugging Face hub (`namespace/name:config@split`)."""
    validation_paths: StringTuple = ()
    """Separate validation text (empty: a part of `paths` is held out)."""
    text_column: StringTuple = ()
    """The text column of a table, by name, dotted path or number; several are joined by a line
    break (empty: detected by name and content)."""
    encoding: str = "utf-8"
    """Encoding of files that are not valid UTF-8 (utf-8: detected)."""
    chat_template: StringTuple = TEMPLATE
    """How a message of a conversation is written: strings with {role} and {content}."""
    validation_fraction: float | None = Field(None, gt=0, lt=0.5)
    """The fraction to hold out if there are no `validation_paths` (null: a tenth, but of less than
    200 labelled texts more: 20, or a third of them)."""

    @property
    def names(self) -> tuple[str, ...]:
        """All files to train on."""
        return self.paths


class LabelledConfig(CorpusConfig):
    """Which labelled data to train on, and which to validate on."""

    label_column: str | None = None
    """The column of the labels (null: detected by name and content)."""
    test_paths: StringTuple = ()
    """Test data: the best model is evaluated on it once, at the end of training."""

    @property
    def parts(self) -> tuple[StringTuple, StringTuple, StringTuple]:
        """The files to train, to validate and to test on."""
        return self.paths, self.validation_paths, self.test_paths


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and where it was read."""

    text: str
    source: str


def columns_of(config: CorpusConfig) -> list[str]:
    """How the columns of the first table are used, in words, if there is a table."""
    for name in config.paths:
        path = local_path(name)
        if ending(path) == ".json" and path.is_file() and not is_table(path, config.encoding):
            return [f"{name} is read as text as it is: it is no array of objects, or of messages"]
        if not is_group(name) and not (path.is_file() and not is_table(path, config.encoding)):
            table = with_chats(open_table(name, config.encoding), config.chat_template)
            if not config.text_column and chat_documents(table, config.chat_template):
                return []
            columns = text_columns(table, config.text_column)
            return [f"columns: {tables.columns_in_words(table, {'text': columns})}"]
    return []


# --- documents ---


def stream_documents(
    paths: Iterable[str],
    text_column: Sequence[str] = (),
    encoding: str = "utf-8",
    chat_template: Sequence[str] = TEMPLATE,
) -> Iterator[LongText]:
    """The documents of files, folders and the hub, in order. Each must be read before the next."""
    text_files.check_encoding(encoding)
    return read_all(
        paths,
        read=lambda name: _documents_of(name, text_column, encoding, chat_template),
        cure="Text files and tables are read; binary and hidden files are not.",
    )


def read_documents(
    paths: Iterable[str],
    text_column: Sequence[str] = (),
    encoding: str = "utf-8",
    chat_template: Sequence[str] = TEMPLATE,
) -> Iterator[Document]:
    """The same for documents that fit into memory, one at a time."""
    for document in stream_documents(paths, text_column, encoding, chat_template):
        yield Document("".join(document.parts), document.source)


def _documents_of(
    name: str, text_column: Sequence[str], encoding: str, chat_template: Sequence[str]
) -> Iterator[LongText]:
    path = local_path(name)
    if path.is_file() and not is_table(path, encoding):
        yield _text_document(path, encoding)
        return
    table = with_chats(open_table(name, encoding), chat_template)
    if not text_column and (chats := chat_documents(table, chat_template)):
        yield from chats
        return
    columns = text_columns(table, text_column)
    texts = ((joined_text(row, columns), row.place) for row in table.rows)
    documents = (LongText((text,), place) for text, place in texts if text)
    yield from at_least_one(documents, f'{name} has no text in column "{", ".join(columns)}".')


def text_columns(
    table: Table, text_column: Sequence[str], used: Collection[str] = ()
) -> tuple[str, ...]:
    """The text columns: those asked for, else all whose name or content suggests it."""
    if text_column:
        return tuple(column(table, name, tables.TEXT_COLUMNS, used=used) for name in text_column)
    free = [name for name in table.columns if name not in used]
    likely = [
        name
        for name in free
        if name in table.prose or (name in table.worded and name.casefold() in tables.TEXT_COLUMNS)
    ]
    if not likely:  # short texts, such as names, beside a category
        likely = [name for name in free if name in table.worded and name not in table.categories]
        likely = likely if len(likely) == 1 else []
    return tuple(likely) or (column(table, None, tables.TEXT_COLUMNS, used=used),)


def joined_text(row: Row, columns: Sequence[str]) -> str:
    """The text of several columns, joined by line breaks."""
    if len(columns) == 1:
        text = cell(row, columns[0])
        return "" if text.isspace() else text
    return "\n".join(part for name in columns if (part := cell(row, name)).strip())


def _text_document(path: DataPath, encoding: str) -> LongText:
    parts, beginning = _text_parts(path, encoding), list[str]()
    for part in parts:
        beginning.append(part)
        if not part.isspace():
            return LongText(chain(beginning, parts), str(path))
    raise EmptyError(f"{path} contains only whitespace. Pass a file that contains text.")


def _text_parts(path: DataPath, encoding: str) -> Iterator[str]:
    line = 1
    with text_files.open_text(path, encoding) as stream:
        while part := stream.read(_AT_ONCE):
            if "\0" in part:
                line += part.count("\n", 0, part.index("\0"))
                raise text_files.nul_at(f"{path}:{line}")
            line += part.count("\n")
            yield part


def cell(row: Row, name: str, role: str = "text") -> str:
    """The text in a column of a row; empty if there is none."""
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        kind, other = type(value).__name__, f"Correct it, or pass another --{role}-column."
        raise GlassformerError(
            f'{row.place}: column "{name}" contains a value of type {kind}, not text. '
            + (CURE_OF_STRINGS if role == "text" and are_strings(value) else other)
        )
    if "\0" in value:
        raise text_files.nul_at(row.place)
    return value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value


# --- the split of a corpus ---
# The held-out part consists of whole documents if there are many, else of the end of the text.
# Random windows would leak: their neighbours, almost the same text, would be in the training set.
# Documents of equal content (`data/split.py`) stay together.

MANY = 10  # different documents; with at least this many, whole ones are held out
_BLANK = "one end is only whitespace"
_TINY = 100  # bytes of text that are too few, wherever its whitespace is
_NEAR = 2**20  # bytes in which the end of a line or of a word is looked for


@dataclass(frozen=True, slots=True)
class Split:
    """Two disjoint parts of a corpus, and what was held out, in words."""

    training: TextPart
    validation: TextPart
    held_out: str
    notes: list[str] = field(default_factory=list)


def read_corpus(config: CorpusConfig, seed: int, folder: Path) -> Split:
    """Copy all text of a corpus to a file in `folder`, and split it as its config says."""
    store, source = TextStore(folder), ""
    options = config.text_column, config.encoding, config.chat_template
    with text_files.collecting() as happened:
        for document in stream_documents(config.paths, *options):
            source = source or document.source
            store.add(document.parts)
        num_training = len(store)
        for document in stream_documents(config.validation_paths, *options):
            store.add(document.parts)
    if not config.validation_paths:
        parts = split(store, config.validation_fraction or USUAL, seed, source)
        parts.notes[:0] = happened.notes()
        return parts
    keys = _keys_of(store, seed)
    training, validation = keys[:num_training], keys[num_training:]
    notes = [
        *happened.notes(),
        *leaks(validation, "document", "validation", [training], "training"),
    ]
    is_held_out = np.arange(len(store)) >= num_training
    held_out = f"all of {', '.join(config.validation_paths)}"
    return _whole_documents(store, is_held_out, held_out, notes)


def split(store: TextStore, fraction: float, seed: int, source: str) -> Split:
    """Hold out about `fraction`: whole documents if there are many, else the end of the text.

    `source` names the first document, for messages.
    """
    count = len(store)
    what = source if count == 1 else counted(count, "document")
    if store.offsets[-1] < 2:
        raise _cannot_hold_out(what, "too short")
    groups = Groups.of(_keys_of(store, seed) if count > 1 else np.zeros(1, np.uint64))
    if count > len(groups) == 1:
        raise _cannot_hold_out(what, "all have the same content")
    single: list[int] = []  # documents without a copy, if there are few
    if len(groups) < MANY:
        single = np.sort(groups.order[groups.starts[groups.sizes == 1]]).tolist()
    if single:
        parts = _hold_out_end(store, fraction, single, what)
    else:
        parts = _hold_out_documents(store, fraction, groups)
    if copies := count - len(groups):
        parts.notes.append(
            f"{counted(copies, 'document')} {verb(copies, 'repeat')} another, ignoring case and "
            "whitespace; equal documents stay on the same side of the split"
        )
    return parts


def _keys_of(store: TextStore, seed: int) -> Keys:
    """A number for each document: random, but the same for equal content."""
    keys = (long_content_key(text.parts, seed) for text in store.all().texts())
    return np.fromiter(keys, np.uint64, len(store))


def _hold_out_documents(store: TextStore, fraction: float, groups: Groups) -> Split:
    """Hold out random groups of equal documents, about `fraction` of the text."""
    sizes, total = np.diff(store.offsets), int(store.offsets[-1])
    group_sizes = np.add.reduceat(sizes[groups.order], groups.starts)
    everything, enough = np.arange(len(groups), dtype=np.int32), fraction * total
    is_held_out = groups.mask(choose(everything, group_sizes, enough, SLACK * enough))
    share = f"{100 * int(sizes[is_held_out].sum()) / total:.2g}% of the text"
    count = np.count_nonzero(is_held_out)
    held_out = f"{count:,} of {counted(len(store), 'document')}, {share}"
    return _whole_documents(store, is_held_out, held_out, [])


def _whole_documents(store: TextStore, is_held_out: Mask, held_out: str, notes: list[str]) -> Split:
    return Split(TextPart(store, ~is_held_out), TextPart(store, is_held_out), held_out, notes)


def _hold_out_end(store: TextStore, fraction: float, single: list[int], what: str) -> Split:
    """Hold out the end of the text, leaving aside documents that have a copy: if one of them were
    cut, its end would be on both sides."""
    bounds = store.offsets.tolist()
    total = bounds[-1]
    held_out = fraction * total
    if len(single) < len(store):
        held_out = min(held_out, sum(bounds[n + 1] - bounds[n] for n in single) / 2)
    tail, index = 0, len(single)  # bytes in the documents single[index:]
    while tail < held_out:
        index -= 1
        tail += bounds[single[index] + 1] - bounds[single[index]]
    cut_document = single[index]
    start, end = bounds[cut_document], bounds[cut_document + 1]
    cut = _boundary(store, start, end, at=start + int(tail - held_out), reach=held_out / 2)
    is_held_out = np.zeros(len(store), np.bool_)
    is_held_out[single[index + 1 :]] = True
    is_training = ~is_held_out
    is_held_out[cut_document], is_training[cut_document] = cut < end, cut > start
    training = TextPart(store, is_training, {cut_document: (start, cut)} if cut > start else {})
    validation = TextPart(store, is_held_out, {cut_document: (cut, end)} if cut < end else {})
    if training.is_blank or validation.is_blank:
        why = f"only {readable_size(total)} of text" if total < _TINY else _BLANK
        raise _cannot_hold_out(what, why)
    share = 100 * validation.num_bytes / total
    return Split(training, validation, f"last {share:.2g}% of {what}")


def _boundary(store: TextStore, start: int, end: int, at: int, reach: float) -> int:
    """The start of the line nearest to `at`, else of the nearest word in reach, else of the
    character at `at`."""
    low, high = max(start, at - _NEAR), min(end, at + _NEAR)
    text = store.read_bytes(low, high)
    for separator in (b"\n", b" "):
        before = text.rfind(separator, 0, at - low)
        behind = text.find(separator, at - low)
        candidates = [low + position + 1 for position in (before, behind) if position >= 0]
        candidates += [start] * (before < 0 and low == start) + [end] * (behind < 0 and high == end)
        nearest = min(candidates, key=lambda position: abs(position - at), default=at - _NEAR)
        if abs(nearest - at) <= min(reach, _NEAR - 1):
            return nearest
    while at > low and text[at - low] & 0xC0 == 0x80:  # within a character
        at -= 1
    return at


def _cannot_hold_out(what: str, why: str) -> GlassformerError:
    return GlassformerError(
        f"{what}: {why}, so no part can be held out for validation. "
        "Provide more text, or separate validation text (--validation-data)."
    )
