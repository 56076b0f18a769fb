"""Documents, read one after the other from files, folders, tables or the hub.

    paths  →  Document, Document, Document, …

A text file is one document, and so is a row of a table.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from pydantic import Field

from glassformer.config import Config, StringTuple
from glassformer.data import tables, text_files
from glassformer.data.archives import DataPath, ending, local_path
from glassformer.data.chats import TEMPLATE, chat_documents, with_chats
from glassformer.data.columns import CURE_OF_STRINGS, are_strings
from glassformer.data.folders import is_group, read_all
from glassformer.data.tables import Row, Table, column, is_table, open_table
from glassformer.data.text_files import EmptyError, at_least_one
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import LongText

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
    """Read documents that fit into memory, one at a time."""
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
