"""Sentences with a tag for every word (named entities, parts of speech): read and split.

    EU       B-ORG
    rejects  O        →  Sentence(("EU", "rejects"), ("B-ORG", "O"), "train.conll:1")

Four formats are read: columns of words and tags with a blank line after each sentence (like CoNLL
2003 and WNUT), CoNLL-U (.conllu), tables whose columns contain lists (.jsonl, .parquet, the hub),
and tables with a row for each word (.csv, .tsv and the others).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice, starmap

from glassformer.data import text_files
from glassformer.data.archives import DataPath, ending, local_path
from glassformer.data.documents import LabelledConfig
from glassformer.data.encodings import NotTextError
from glassformer.data.folders import is_group, read_all
from glassformer.data.labels import brief, in_order, label_name, one_name
from glassformer.data.split import USUAL, Items, LabelledSplit, content_key, split_labelled
from glassformer.data.tables import Row, Table, column, columns_in_words, is_table, open_table
from glassformer.data.text_files import read_lines
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

# --- sentences ---

TAGGED_ENDINGS = (".conllu", ".conll", ".bio", ".iob", ".iob2", ".bioes", ".annotated")  # words
FOLDER_ENDINGS = (*TAGGED_ENDINGS, ".tsv", ".jsonl", ".parquet")
_SAMPLE = 200  # lines in which tagged words are recognised
_SAMPLE_OF_TAGS = 10_000  # lines whose tags tell the word # from the beginning of a comment
CONLLU_COLUMNS = (
    "id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, a tag for each, and the place of the first word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    source: str

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tags

    @property
    def content(self) -> tuple[str, ...]:
        return self.words

    def key(self, seed: int) -> int:
        return content_key(*self.words, seed=seed)


class TaggedConfig(LabelledConfig):
    """The tagged sentences to train on, and those to validate on."""

    label_column: str | None = None
    """The column of the tags. CoNLL-U: upos (null), xpos, or a column number counted from 1;
    other columns: a number (null: the last); tables: a name."""


def read_tagged(config: TaggedConfig, seed: int) -> LabelledSplit[Sentence]:
    """All sentences, split as the config says."""
    options = config.label_column, config.encoding, config.text_column
    parts: list[Items[Sentence]] = []
    with text_files.collecting() as happened:
        for paths in config.parts:
            parts.append(Items(paths, "sentence", seed, is_per_word=True))
            parts[-1].extend(read_sentences(paths, *options))
    training, validation, test = parts
    if len(tags := training.labels) < 2:
        raise GlassformerError(
            f'{training.where}: every word has the same tag ("{min(tags)}"). Provide sentences '
            "with at least two tags, or pass another --label-column."
        )
    split = split_labelled(training, validation, test, config.validation_fraction or USUAL)
    label_column, columns = _columns_of(config)
    outside = {"O"} & {*split.labels}  # the tag of words outside entities comes first
    return replace(
        split,
        labels=(*outside, *in_order({*split.labels} - outside)),
        text_column=config.text_column,
        label_column=label_column,
        columns=columns,
        notes=[*happened.notes(), *split.notes],
    )


def _columns_of(config: TaggedConfig) -> tuple[str | None, list[str]]:
    """The name of the tag column, and how the columns of a table are used, in words."""
    first, label = local_path(config.paths[0]), config.label_column
    if is_group(config.paths[0]) or not is_tagged_table(first, config.encoding):
        return label or ("upos" if ending(first) == ".conllu" else None), []
    table = open_table(config.paths[0], config.encoding)
    sentence, words, tags = tagged_columns(table, next(iter(config.text_column), None), label)
    roles: dict[str, Sequence[str]] = {"words": [words], "tags": [tags]}
    if sentence is not None:
        roles = {"sentences": [sentence], **roles}
    return tags, [f"columns: {columns_in_words(table, roles)}"]


def read_sentences(
    paths: Iterable[str],
    label_column: str | None = None,
    encoding: str = "utf-8",
    text_column: Sequence[str] = (),
) -> Iterator[Sentence]:
    """The sentences of files, folders and hub datasets, one at a time and in a fixed order.

    `text_column` is the column of the words in a table.
    """
    text_files.check_encoding(encoding)
    if len(text_column) > 1:
        raise UsageError(f"the words must be in one column, not in {', '.join(text_column)}.")
    words = text_column[0] if text_column else None
    return read_all(
        paths,
        read=lambda name: _sentences_of(name, label_column, encoding, words),
        why_skipped=lambda path: _why_skipped(path, encoding),
        cure="Columns of words and tags, CoNLL-U, .csv, .tsv, .jsonl and .parquet are read.",
    )


def _why_skipped(path: DataPath, encoding: str) -> str | None:
    """Whether a file of a folder contains tagged words: by its ending, else by its first lines."""
    if ending(path) in FOLDER_ENDINGS or is_tagged_table(path, encoding):
        return None
    try:
        first = list(islice(read_lines(path, encoding), _SAMPLE))
    except (text_files.EmptyError, NotTextError):
        return None  # reported when it is read
    fields = [_fields(line) for line in first if line.strip() and not line.startswith("#")]
    widths = {len(words) for words in fields if not words[0].startswith("-DOCSTART-")}
    is_tagged = len(widths) == 1 and widths != {1}
    return None if is_tagged and any(not line.strip() for line in first) else "no tagged words"


def _sentences_of(
    name: str, label_column: str | None, encoding: str, words: str | None
) -> Iterator[Sentence]:
    path = local_path(name)
    if is_tagged_table(path, encoding):
        sentences: Iterator[Sentence] = starmap(
            Sentence, table_sentences(name, label_column, encoding, words)
        )
    elif ending(path) == ".conllu":
        sentences = _joined(_conllu_words(path, label_column, encoding))
    else:
        sentences = _joined(_column_words(path, label_column, encoding))
    return text_files.at_least_one(sentences, f"{name} contains no sentences.")


# --- tables: a row for each sentence, with lists in its columns, or for each word ---
#
#     {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}
#
#     sentence_id,word,tag
#     1,EU,B-ORG
#     1,rejects,O

WORD_COLUMNS = ("tokens", "words", "token", "word", "sentence", "text", "form")
TAG_COLUMNS = (
    "tags", "tag", "labels", "label", "ner_tags", "ner", "pos_tags", "pos", "upos", "xpos",
    "chunk_tags", "entities",
)  # fmt: skip
SENTENCE_COLUMNS = ("sentence", "sent")  # with "#", "id", "number" and the like, or without
_OF_AN_ID = re.compile(r"(id|idx|index|no|num|number|nr)?")

Tagged = tuple[tuple[str, ...], tuple[str, ...], str]  # words, tags, place


class NoTaggedWordsError(text_files.SkippedError, UsageError):
    """A table contains no words with tags: it is for another task."""

    reason = "no tagged words"


def table_sentences(
    name: str, label_column: str | None, encoding: str, words_wanted: str | None
) -> Iterator[Tagged]:
    table = open_table(name, encoding)
    sentence_column, word_column, tag_column = tagged_columns(table, words_wanted, label_column)
    if sentence_column is not None:
        yield from _of_rows(table, sentence_column, word_column, tag_column)
        return
    for row in table.rows:
        words, tags = _list(row, word_column), _list(row, tag_column)
        if len(words) != len(tags):
            raise GlassformerError(
                f'{row.place}: {counted(len(words), "word")} in "{word_column}" but '
                f'{counted(len(tags), "tag")} in "{tag_column}". Give each word one tag.'
            )
        if words:
            holder = f'column "{tag_column}"'
            names = tuple(label_name(tag, row.place, holder) for tag in tags)
            spelled = tuple(_word(word, row, word_column) for word in words)
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
            f"(columns: {brief(table.columns)}). A tagger reads a row for each word with "
            "sentence_id, word and tag, rows with lists of words and of tags, or CoNLL files. A "
            "table of texts is for a classifier."
        )
    used = [name for name in (sentence, tags) if name is not None]
    word_column = column(table, words, WORD_COLUMNS, used=used)
    if has_lists(word_column):
        sentence = None
    used = [name for name in (sentence, word_column) if name is not None]
    return sentence, word_column, column(table, tags, TAG_COLUMNS, "label", used=used)


def _names_sentences(name: str) -> bool:
    """Whether a column is called "Sentence #", "sentence_id", "SentId" or the like."""
    letters = re.sub(r"[^a-z]", "", name.casefold())
    return any(
        letters.startswith(beginning) and _OF_AN_ID.fullmatch(letters.removeprefix(beginning))
        for beginning in SENTENCE_COLUMNS
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


# --- lines of words and tags ---

_Word = tuple[str, str, str]  # text, tag, place


def _joined(lines: Iterable[_Word | None]) -> Iterator[Sentence]:
    """The sentences; None ends one."""
    for is_end, group in groupby(lines, lambda line: line is None):
        if not is_end:
            words, tags, places = zip(*filter(None, group), strict=True)
            yield Sentence(words, tags, places[0])


def _column_words(
    path: DataPath, label_column: str | None, encoding: str
) -> Iterator[_Word | None]:
    tag_at = -1 if label_column is None else _position(path, label_column)
    lines = read_lines(path, encoding)
    first = list(islice(lines, _SAMPLE_OF_TAGS))
    width, tags = _width_and_tags(first, tag_at)
    for number, line in enumerate(chain(first, lines), 1):
        fields, place = _fields(line), f"{path}:{number}"
        if fields[0].startswith("-DOCSTART-") or not line.strip():
            yield None
            continue
        # "# O" is the word # with its tag if formed like other lines; "# id = 7" is a comment.
        if line.startswith("# ") and not (len(fields) == width and _tag(fields, tag_at) in tags):
            continue
        word = fields[0].strip()
        if not word:
            raise GlassformerError(
                f"{place}: a tag without a word. Fill in the word, or delete the line."
            )
        if len(fields) < 2:
            raise GlassformerError(
                f'{place}: no tag for "{word}". Separate word and tag by a tab or a space, and '
                "end each sentence with a blank line."
            )
        width = width or len(fields)
        if len(fields) != width:
            raise GlassformerError(
                f"{place}: expected {counted(width, 'column')} as in the first line of words, "
                f"found {len(fields):,}. Give every word the same columns."
            )
        _check_position(tag_at, width, place)
        tag = _tag(fields, tag_at)
        if not tag:
            raise GlassformerError(f'{place}: no tag for "{word}". Fill it in.')
        tags.add(tag)
        yield word, one_name(tag), place


def _width_and_tags(lines: Iterable[str], tag_at: int) -> tuple[int, set[str]]:
    """The number of columns of the first word, and the tags of all words."""
    words = [
        _fields(line)
        for line in lines
        if line.strip() and not line.startswith(("# ", "-DOCSTART-"))
    ]
    return len(words[0]) if words else 0, {_tag(fields, tag_at) for fields in words}


def _tag(fields: Sequence[str], tag_at: int) -> str:
    return fields[tag_at].strip() if tag_at < len(fields) else ""


def _fields(line: str) -> list[str]:
    """Split at tabs if there are any, so that a word can contain a space; else at spaces."""
    line = line.rstrip(" \t\n")
    if "\t" in line:
        return line.split("\t")
    return [field for field in line.split(" ") if field] or [""]


def _position(path: DataPath, label_column: str, names: Sequence[str] = ()) -> int:
    """The position of a column that is given by its name or by its number, counted from 1."""
    if label_column.lower() in names:
        return names.index(label_column.lower())
    if label_column.isdecimal() and int(label_column) > 0:
        return int(label_column) - 1
    problem = ": its columns have no names. Pass a column number, counted from 1, as --label-column"
    if names:
        problem = f" (columns of CoNLL-U: {', '.join(names)}). Pass another --label-column"
    raise UsageError(f'{path} has no column "{label_column}"{problem}.')


def _check_position(tag_at: int, width: int, place: str) -> None:
    if tag_at >= width:
        raise UsageError(
            f"{place} has {counted(width, 'column')}, so there is no column {tag_at + 1}. "
            "Pass another --label-column."
        )


def _conllu_words(
    path: DataPath, label_column: str | None, encoding: str
) -> Iterator[_Word | None]:
    tag_at = _position(path, label_column or "upos", CONLLU_COLUMNS)
    _check_position(tag_at, len(CONLLU_COLUMNS), str(path))
    for number, line in enumerate(read_lines(path, encoding), 1):
        place = f"{path}:{number}"
        if not line.strip():
            yield None
            continue
        if line.startswith("#"):
            continue
        fields = line.rstrip("\n").split("\t")
        if len(fields) != len(CONLLU_COLUMNS):
            raise GlassformerError(
                f"{place}: expected the {len(CONLLU_COLUMNS)} tab-separated columns of CoNLL-U, "
                f"found {len(fields):,}. Correct the line."
            )
        if not fields[0].isdecimal():  # 1-2 joins two words, 1.1 is not in the text
            continue
        word, tag = fields[1], fields[tag_at].strip()
        if not tag or (tag == "_" and CONLLU_COLUMNS[tag_at] in ("upos", "xpos")):
            raise GlassformerError(
                f'{place}: no {CONLLU_COLUMNS[tag_at]} for "{word}". '
                "Fill it in, or pass another --label-column."
            )
        yield word, one_name(tag), place
