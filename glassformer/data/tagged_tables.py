"""Tables of tagged words: a row for each sentence, with lists in its columns, or for each word.

{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}

sentence_id,word,tag
1,EU,B-ORG
1,rejects,O
"""

import re
from collections.abc import Iterator, Sequence

from glassformer.data.labels import joined, label_name
from glassformer.data.tables import Row, Table, column, is_table, open_table
from glassformer.data.text_files import (
    DataPath,
    SkippedError,
    ending,
    read_lines,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

WORD_COLUMNS = ("tokens", "words", "token", "word", "sentence", "text", "form")
TAG_COLUMNS = (
    *("tags", "tag", "labels", "label", "ner_tags", "ner", "pos_tags", "pos", "upos", "xpos"),
    *("chunk_tags", "entities"),
)
SENTENCE_COLUMNS = ("sentence", "sent")  # with "#", "id", "number" and the like, or without
_OF_AN_ID = re.compile(r"(id|idx|index|no|num|number|nr)?")

Tagged = tuple[tuple[str, ...], tuple[str, ...], str]  # words, tags, place


class NoTaggedWordsError(SkippedError, UsageError):
    """A table contains no words with tags: it is for another task."""

    reason = "no tagged words"


def table_sentences(
    name: str, label_column: str | None, encoding: str, words: str | None
) -> Iterator[Tagged]:
    table = open_table(name, encoding)
    sentence_column, word_column, tag_column = tagged_columns(table, words, label_column)
    if sentence_column is not None:
        yield from _of_rows(table, sentence_column, word_column, tag_column)
        return
    for row in table.rows:
        found, tags = _list(row, word_column), _list(row, tag_column)
        if len(found) != len(tags):
            raise GlassformerError(
                f'{row.place}: {counted(len(found), "word")} in "{word_column}" but '
                f'{counted(len(tags), "tag")} in "{tag_column}". Give each word one tag.'
            )
        if found:
            holder = f'column "{tag_column}"'
            names = tuple(label_name(tag, row.place, holder) for tag in tags)
            spelled = tuple(_word(each, row, word_column) for each in found)
            yield spelled, names, row.place


def _of_rows(
    table: Table, sentence_column: str, word_column: str, tag_column: str
) -> Iterator[Tagged]:
    """The sentences of a table with a row for each word. The id of a sentence is in every row, or
    only in that of its first word."""
    began: dict[str, str] = {}  # where each sentence began
    words: list[tuple[str, str]] = []
    current, is_repeated = "", False
    for row in table.rows:
        value = row.get(sentence_column)
        id = "" if value is None else str(value).strip()
        if id in ("", current):
            if not id and (is_repeated or not current):
                raise GlassformerError(
                    f'{row.place}: no sentence in column "{sentence_column}". Fill it in.'
                )
            is_repeated = is_repeated or bool(id)
        else:
            if words:
                yield _sentence(words, began[current])
            if id in began:
                raise GlassformerError(
                    f'{row.place}: sentence "{id}" began at {began[id]} and continues here after '
                    f'another one. Sort the rows by "{sentence_column}", or give each sentence a '
                    "number of its own."
                )
            current, words = id, []
            began[id] = row.place
        word = row.get(word_column)
        if word is None or word == "":
            raise GlassformerError(
                f'{row.place}: no word in column "{word_column}". Fill it in, or delete the row.'
            )
        tag = label_name(row.get(tag_column), row.place, f'column "{tag_column}"')
        words.append((_word(word, row, word_column), tag))
    if words:
        yield _sentence(words, began[current])


def _sentence(tagged: Sequence[tuple[str, str]], place: str) -> Tagged:
    words, tags = zip(*tagged, strict=True)
    return words, tags, place


def is_tagged_table(path: DataPath, encoding: str) -> bool:
    """A file of rows, or a hub dataset, which is not a file. Most .tsv files are columns of words
    and tags without a header."""
    if not path.is_file() or ending(path) != ".tsv":
        return not path.is_file() or is_table(path, encoding)
    header = next(read_lines(path, encoding), "").strip("\n").split("\t")
    return len(header) > 2 and any(map(_names_sentences, header))


def tagged_columns(
    table: Table, words: str | None, tags: str | None
) -> tuple[str | None, str, str]:
    """The columns of the sentence (None if each row is one), of its words, and of their tags."""

    def has_lists(name: str) -> bool:
        return any(isinstance(row.get(name), list) for row in table.head)

    named = (name for name in table.columns if _names_sentences(name) and name != words)
    sentence = next((name for name in named if not has_lists(name)), None)
    if sentence is None and not any(map(has_lists, table.columns)):
        raise NoTaggedWordsError(
            f"{table.name} has no column with the number of the sentence, such as sentence_id "
            f"(columns: {joined(table.columns)}). A tagger reads a row for each word with "
            "sentence_id, word and tag, rows with lists of words and of tags, or CoNLL files. A "
            "table of texts is for a classifier."
        )
    taken = [name for name in (sentence, tags) if name is not None]
    found = column(table, words, WORD_COLUMNS, taken=taken)
    if has_lists(found):
        sentence = None
    taken = [name for name in (sentence, found) if name is not None]
    return sentence, found, column(table, tags, TAG_COLUMNS, "label", taken=taken)


def _names_sentences(name: str) -> bool:
    """Whether a column is called "Sentence #", "sentence_id", "SentId" or the like."""
    letters = re.sub(r"[^a-z]", "", name.casefold())
    return any(
        letters.startswith(each) and _OF_AN_ID.fullmatch(letters.removeprefix(each))
        for each in SENTENCE_COLUMNS
    )


def _word(value: object, row: Row, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise GlassformerError(
            f'{row.place}: column "{name}" contains {value!r} among its words. Each must be text.'
        )
    return value


def _list(row: Row, name: str) -> list[object]:
    value = row.values.get(name)
    if not isinstance(value, list):
        raise GlassformerError(
            f'{row.place}: column "{name}" does not contain a list. Write each row as '
            '{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}.'
        )
    return value
