"""A corpus: documents from files, folders, tables or the hub, and the part held out to validate.

    paths  →  Document, Document, Document, …  →  training | validation

A text file is one document, a row of a table is one document. What is held out is text that the
model never sees in training: whole documents where there are many, else the end of the text.
Windows drawn at random would not do: their neighbours, almost the same, would be trained on.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from glassformer.config import Config, Names
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
    open_text,
    reading,
)
from glassformer.errors import GlassformerError

TEXT_ENDINGS = (".txt", ".md", ".rst", ".text")
TEXT_COLUMNS = (
    *("text", "content", "body", "document", "sentence", "review"),
    *("article", "story", "comment", "message", "post", "passage", "paragraph"),
)
MANY = 10  # documents from which on whole ones are held out


class DataConfig(Config):
    """Which files to learn from, whatever is in them."""

    @property
    def names(self) -> tuple[str, ...]:
        raise NotImplementedError


class CorpusConfig(DataConfig):
    """Which text to train on, and which to validate on."""

    paths: Names = Field(min_length=1)
    """Files, folders, or data sets of the Hugging Face hub (`namespace/name:config@split`)."""
    validation_paths: Names = ()
    """Text of its own for validation; empty: a part of `paths` is held out."""
    text_column: Names = ()
    """The column of a table that holds the text; several are joined by a line break.
    Empty: the column that is plainly the text."""
    encoding: str = "utf-8"
    """How the characters of text files are stored; Parquet and the hub need no telling."""
    validation_fraction: float = Field(0.1, gt=0, lt=0.5)
    """How much is held out when there are no `validation_paths`."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.paths


@dataclass(frozen=True, slots=True)
class Document:
    """A text that belongs together, and where it came from."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Split:
    """Two disjoint parts of a corpus, and in words what was held out."""

    training: list[Document]
    validation: list[Document]
    held_out: str


def read_corpus(config: CorpusConfig, seed: int) -> Split:
    """All the text of a corpus, split as its config says."""
    documents = read_documents(config.paths, config.text_column, config.encoding)
    if not config.validation_paths:
        return split(documents, config.validation_fraction, seed)
    held_out = read_documents(config.validation_paths, config.text_column, config.encoding)
    return Split(list(documents), list(held_out), f"all of {', '.join(config.validation_paths)}")


def columns_of(config: CorpusConfig) -> list[str]:
    """What the columns of the first table were taken for, in words, if there is one."""
    for name in config.paths:
        path = local_path(name)
        if not path.is_dir() and not (path.is_file() and ending(path) not in TABLE_ENDINGS):
            table = open_table(name, config.encoding)
            found = _columns(table, config.text_column)
            return [f"columns: {columns_in_words(table, {'text': found})}"]
    return []


# --- reading ---


def read_documents(
    paths: Iterable[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
) -> Iterator[Document]:
    """The documents of files, folders and hub data sets, one at a time and in a fixed order."""
    check_encoding(encoding)
    for name in paths:
        with reading(name):
            folder = local_path(name)
            if folder.is_dir():
                yield from _documents_in(folder, text_column, encoding)
            else:
                yield from _documents_of(name, text_column, encoding)


def _documents_in(folder: Path, text_column: Sequence[str], encoding: str) -> Iterator[Document]:
    files = list(_files_in(folder, set()))
    if not files:
        raise GlassformerError(
            f"{folder} has no files to read. The endings looked for are "
            f"{', '.join((*TEXT_ENDINGS, *TABLE_ENDINGS))}, each also with .gz."
        )
    is_empty = True
    for file in files:
        with suppress(EmptyError):  # among others an empty file is no more than an empty row
            for document in _documents_of(str(file), text_column, encoding):
                is_empty = False
                yield document
    if is_empty:
        raise EmptyError(f"{folder} has only empty files.")


def _files_in(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Readable files by name, folder by folder; each folder once, however links may loop."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files_in(entry, seen)
        elif entry.is_file() and ending(entry) in (*TEXT_ENDINGS, *TABLE_ENDINGS):
            yield entry


def _documents_of(name: str, text_column: Sequence[str], encoding: str) -> Iterator[Document]:
    path = local_path(name)
    if path.is_file() and ending(path) not in TABLE_ENDINGS:
        yield _text_document(path, encoding)
        return
    table = open_table(name, encoding)
    columns = _columns(table, text_column)
    is_empty = True
    for row in table.rows:
        text = "\n".join(part for each in columns if (part := cell(row, each)).strip())
        if text:
            is_empty = False
            yield Document(text, row.place)
    if is_empty:
        raise EmptyError(f'{name} has no text in column "{", ".join(columns)}".')


def _columns(table: Table, text_column: Sequence[str]) -> list[str]:
    wanted: Sequence[str | None] = text_column or [None]
    return [column(table, each, TEXT_COLUMNS) for each in wanted]


def _text_document(path: Path, encoding: str) -> Document:
    with open_text(path, encoding) as stream:
        text = stream.read()
    if "\0" in text:
        raise nul_at(f"{path}:{text.count(chr(10), 0, text.index(chr(0))) + 1}")
    if not text or text.isspace():
        raise EmptyError(f"{path} has nothing but blanks in it. Give a file with text.")
    return Document(text, str(path))


def cell(row: Row, name: str, role: str = "text") -> str:
    """The text in a column of a row; empty if there is none."""
    value = row.values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise GlassformerError(
            f'{row.place}: column "{name}" holds a value of type {kind}, not text. '
            f"Mend it, or say another --{role}-column."
        )
    if "\0" in value:
        raise nul_at(row.place)
    return value.replace("\r\n", "\n").replace("\r", "\n")


# --- splitting ---


def split(documents: Iterable[Document], fraction: float, seed: int) -> Split:
    """Hold out about `fraction`: whole documents where there are many, else the end of the text."""
    everything = list(documents)
    if len(everything) < MANY:
        return _hold_out_end(everything, fraction)
    held_out, share = _hold_out_documents(everything, fraction, seed)
    return Split(
        training=[each for index, each in enumerate(everything) if index not in held_out],
        validation=[each for index, each in enumerate(everything) if index in held_out],
        held_out=f"{len(held_out):,} of {len(everything):,} documents, {share:.2g} % of the text",
    )


def _hold_out_documents(
    documents: list[Document], fraction: float, seed: int
) -> tuple[set[int], float]:
    """Documents by lot until `fraction` of the text is reached; one that is too large for that is
    passed over. Their numbers, and their share of the text in percent."""
    sizes = [len(document.text) for document in documents]
    enough = fraction * sum(sizes)
    chosen: set[int] = set()
    size = 0
    for index in sorted(range(len(documents)), key=lambda index: _draw(seed, index)):
        if size < enough and size + sizes[index] <= 1.5 * enough:
            chosen.add(index)
            size += sizes[index]
    if not chosen:  # every document is large
        chosen.add(min(range(len(documents)), key=sizes.__getitem__))
        size = min(sizes)
    return chosen, 100 * size / sum(sizes)


def _draw(seed: int, index: int) -> float:
    """A number in [0, 1) that depends on nothing else: the lot of a document."""
    digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _hold_out_end(documents: list[Document], fraction: float) -> Split:
    total = sum(len(document.text) for document in documents)
    what = documents[0].source if len(documents) == 1 else f"{len(documents)} documents"
    held_out = fraction * total
    tail, index = 0, len(documents)  # characters in documents[index:]
    while tail < held_out:
        index -= 1
        tail += len(documents[index].text)
    if total < 2:
        raise _cannot_hold_out(what, "too short")
    whole = documents[index]
    cut = _boundary(whole.text, at=int(tail - held_out), reach=held_out / 2)
    training = [*documents[:index], Document(whole.text[:cut], whole.source)]
    validation = [Document(whole.text[cut:], whole.source), *documents[index + 1 :]]
    training = [document for document in training if document.text]
    validation = [document for document in validation if document.text]
    for part in (training, validation):
        if all(document.text.isspace() for document in part):
            raise _cannot_hold_out(what, "blank at one end")
    share = 100 * sum(len(document.text) for document in validation) / total
    return Split(training, validation, f"last {share:.2g} % of {what}")


def _boundary(text: str, at: int, reach: float) -> int:
    """The line that begins nearest to `at`; with none in reach the nearest word, else `at`."""
    for separator in ("\n", " "):
        before = text.rfind(separator, 0, at) + 1
        behind = text.find(separator, at) + 1 or len(text)
        nearest = min(before, behind, key=lambda position: abs(position - at))
        if abs(nearest - at) <= reach:
            return nearest
    return at


def _cannot_hold_out(what: str, why: str) -> GlassformerError:
    return GlassformerError(
        f"{what}: {why}, so that no part can be held out for validation. "
        "Give more text, or text for validation (--validation-data)."
    )
