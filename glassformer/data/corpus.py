"""A corpus: documents from files, folders, tables or the hub, and a held-out validation set.

    paths  →  Document, Document, Document, …  →  training | validation

A text file is one document, and so is a row of a table. The held-out set consists of whole
documents if there are many, else of the end of the text. Random windows would leak: their
neighbours, almost the same text, would be in the training set.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from glassformer.config import Config, Names
from glassformer.data.tables import TABLE_ENDINGS, Row, Table, column, columns_in_words, open_table
from glassformer.data.text_files import (
    EmptyError,
    at_least_one,
    check_encoding,
    ending,
    files_below,
    local_path,
    nul_at,
    open_text,
    read_all,
)
from glassformer.errors import GlassformerError

TEXT_ENDINGS = (".txt", ".md", ".rst", ".text")
TEXT_COLUMNS = (
    *("text", "content", "body", "document", "sentence", "review"),
    *("article", "story", "comment", "message", "post", "passage", "paragraph"),
)
MANY = 10  # documents; with at least this many, whole ones are held out


class CorpusConfig(Config):
    """The text to train on, and the text to validate on."""

    paths: Names = Field(min_length=1)
    """Files, folders, or datasets on the Hugging Face hub (`namespace/name:config@split`)."""
    validation_paths: Names = ()
    """Separate validation text (empty: a part of `paths` is held out)."""
    text_column: Names = ()
    """The text column of a table; several are joined by a line break (empty: detected by name and
    content)."""
    encoding: str = "utf-8"
    """Encoding of text files; not used for Parquet and the hub."""
    validation_fraction: float = Field(0.1, gt=0, lt=0.5)
    """The fraction to hold out if there are no `validation_paths`."""

    @property
    def names(self) -> tuple[str, ...]:
        """All files to train on."""
        return self.paths


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and where it was read."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Split:
    """Two disjoint parts of a corpus, and what was held out, in words."""

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
    """How the columns of the first table are used, in words, if there is a table."""
    for name in config.paths:
        path = local_path(name)
        if not path.is_dir() and not (path.is_file() and ending(path) not in TABLE_ENDINGS):
            table = open_table(name, config.encoding)
            found = text_columns(table, config.text_column)
            return [f"columns: {columns_in_words(table, {'text': found})}"]
    return []


# --- reading ---


def read_documents(
    paths: Iterable[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
) -> Iterator[Document]:
    """The documents of files, folders and hub datasets, one at a time and in a fixed order."""
    check_encoding(encoding)
    return read_all(paths, lambda name: _documents_of(name, text_column, encoding), _files_in)


def _files_in(folder: Path) -> list[Path]:
    endings = (*TEXT_ENDINGS, *TABLE_ENDINGS)
    found = list(files_below(folder, endings, set()))
    if not found:
        raise GlassformerError(
            f"{folder} contains no files to read. Supported extensions: {', '.join(endings)}, each "
            "also with .gz."
        )
    return found


def _documents_of(name: str, text_column: Sequence[str], encoding: str) -> Iterator[Document]:
    path = local_path(name)
    if path.is_file() and ending(path) not in TABLE_ENDINGS:
        yield _text_document(path, encoding)
        return
    table = open_table(name, encoding)
    columns = text_columns(table, text_column)
    texts = ((joined_text(row, columns), row.place) for row in table.rows)
    found = (Document(text, place) for text, place in texts if text)
    yield from at_least_one(found, f'{name} has no text in column "{", ".join(columns)}".')


def text_columns(
    table: Table, text_column: Sequence[str], taken: Collection[str] = ()
) -> tuple[str, ...]:
    """The text columns: those asked for, else the one whose name or content suggests it."""
    wanted: Sequence[str | None] = text_column or [None]
    return tuple(column(table, each, TEXT_COLUMNS, taken=taken) for each in wanted)


def joined_text(row: Row, columns: Sequence[str]) -> str:
    """The text of several columns, joined by line breaks."""
    return "\n".join(part for name in columns if (part := cell(row, name)).strip())


def _text_document(path: Path, encoding: str) -> Document:
    with open_text(path, encoding) as stream:
        text = stream.read()
    if "\0" in text:
        raise nul_at(f"{path}:{text.count(chr(10), 0, text.index(chr(0))) + 1}")
    if not text or text.isspace():
        raise EmptyError(f"{path} contains only whitespace. Pass a file that contains text.")
    return Document(text, str(path))


def cell(row: Row, name: str, role: str = "text") -> str:
    """The text in a column of a row; empty if there is none."""
    value = row.values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise GlassformerError(
            f'{row.place}: column "{name}" contains a value of type {kind}, not text. '
            f"Correct it, or pass another --{role}-column."
        )
    if "\0" in value:
        raise nul_at(row.place)
    return value.replace("\r\n", "\n").replace("\r", "\n")


# --- splitting ---


def split(documents: Iterable[Document], fraction: float, seed: int) -> Split:
    """Hold out about `fraction`: whole documents if there are many, else the end of the text."""
    everything = list(documents)
    if len(everything) < MANY:
        return _hold_out_end(everything, fraction)
    return _hold_out_documents(everything, fraction, seed)


def _hold_out_documents(documents: list[Document], fraction: float, seed: int) -> Split:
    """Choose random documents until `fraction` of the text is reached, skipping those that are too
    large."""
    sizes = [len(document.text) for document in documents]
    enough = fraction * sum(sizes)
    chosen: set[int] = set()
    size = 0
    hashes = [hashlib.sha256(f"{seed}:{index}".encode()).digest() for index in range(len(sizes))]
    for index in sorted(range(len(sizes)), key=hashes.__getitem__):
        if size < enough and size + sizes[index] <= 1.5 * enough:
            chosen.add(index)
            size += sizes[index]
    if not chosen:  # every document is large
        size = min(sizes)
        chosen.add(sizes.index(size))
    share = f"{100 * size / sum(sizes):.2g}% of the text"
    return Split(
        training=[each for index, each in enumerate(documents) if index not in chosen],
        validation=[each for index, each in enumerate(documents) if index in chosen],
        held_out=f"{len(chosen):,} of {len(documents):,} documents, {share}",
    )


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
    first = [*documents[:index], replace(whole, text=whole.text[:cut])]
    last = [replace(whole, text=whole.text[cut:]), *documents[index + 1 :]]
    training, validation = ([each for each in part if each.text] for part in (first, last))
    if any(all(each.text.isspace() for each in part) for part in (training, validation)):
        raise _cannot_hold_out(what, "blank at one end")
    share = 100 * sum(len(document.text) for document in validation) / total
    return Split(training, validation, f"last {share:.2g}% of {what}")


def _boundary(text: str, at: int, reach: float) -> int:
    """The start of the line nearest to `at`, else of the nearest word in reach, else `at`."""
    for separator in ("\n", " "):
        before = text.rfind(separator, 0, at) + 1
        behind = text.find(separator, at) + 1 or len(text)
        nearest = min(before, behind, key=lambda position: abs(position - at))
        if abs(nearest - at) <= reach:
            return nearest
    return at


def _cannot_hold_out(what: str, why: str) -> GlassformerError:
    return GlassformerError(
        f"{what}: {why}, so no part can be held out for validation. "
        "Provide more text, or separate validation text (--validation-data)."
    )
