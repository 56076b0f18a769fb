"""Sentences with a tag for every word: named entities, parts of speech.

    EU       B-ORG
    rejects  O        →  Sentence(("EU", "rejects"), ("B-ORG", "O"), "train.conll:1")

Three kinds of file are read: columns of words and tags with a blank line after each sentence (in
the manner of CoNLL 2003 and WNUT), CoNLL-U (.conllu), and tables whose columns hold lists (.jsonl,
.parquet, the hub).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from glassformer.config import Names
from glassformer.data.corpus import CorpusConfig
from glassformer.data.examples import TAGGED_ENDINGS, label_name
from glassformer.data.splits import (
    Items,
    Parts,
    contradictions,
    in_order,
    listed_with_counts,
    never_learned,
    no_label_in_common,
    seen_before,
    seen_in_both,
    stratified,
)
from glassformer.data.tables import (
    EmptyError,
    Row,
    Table,
    check_encoding,
    column,
    columns_in_words,
    ending,
    local_path,
    open_table,
    read_lines,
    reading,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

WORD_COLUMNS = ("tokens", "words", "token", "word", "sentence", "text", "form")
TAG_COLUMNS = (
    *("tags", "tag", "labels", "label", "ner_tags", "ner", "pos_tags", "pos", "upos", "xpos"),
    *("chunk_tags", "entities"),
)
FOLDER_ENDINGS = (*TAGGED_ENDINGS, ".tsv", ".jsonl", ".parquet")
CONLLU_COLUMNS = (
    *("id", "form", "lemma", "upos", "xpos"),
    *("feats", "head", "deprel", "deps", "misc"),
)


class TaggedConfig(CorpusConfig):
    """Which tagged sentences to train on, and which to validate on."""

    label_column: str | None = None
    """The column of the tags. CoNLL-U: upos (null), xpos, or a number of a column from 1;
    other columns: a number (null: the last); tables: a name."""
    test_paths: Names = ()
    """Sentences on which the best model is judged once, at the end; they decide nothing."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, a tag for each, and where the first word stands."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class TaggedSplit:
    """Two disjoint parts of tagged sentences, and the tags that there are to learn."""

    training: list[Sentence]
    validation: list[Sentence]
    test: list[Sentence]
    tags: tuple[str, ...]
    """Those of the training part, in order; "O", for words outside, comes first."""
    held_out: str
    notes: list[str]
    label_column: str | None
    columns: list[str]
    """What those of a table were taken for, in words."""


def read_tagged(config: TaggedConfig, seed: int) -> TaggedSplit:
    """All sentences, split as the config says."""
    asked = config.label_column, config.encoding, config.text_column
    everything = _items(read_sentences(config.paths, *asked), config.paths)
    tags = {tag for sentence in everything.found for tag in sentence.tags}
    if len(tags) < 2:
        raise GlassformerError(
            f'{everything.where}: every word has the same tag ("{min(tags)}"), so that there is '
            "nothing to tell apart. Is this the column of the tags? Say --label-column."
        )
    if not config.validation_paths:
        parts = stratified(everything, config.validation_fraction, seed)
    else:
        other = _items(read_sentences(config.validation_paths, *asked), config.validation_paths)
        training, validation = list(everything.found), list(other.found)
        notes = _unseen(validation, tags) + contradictions(everything)
        notes += seen_in_both(everything, other)
        parts = Parts(training, validation, f"all of {other.where}", notes)
    found = {tag for sentence in parts.training for tag in sentence.tags}
    test = _items(read_sentences(config.test_paths, *asked), config.test_paths)
    if test.found and found.isdisjoint(tag for sentence in test.found for tag in sentence.tags):
        raise no_label_in_common(everything, test, "test")
    label_column, columns = _columns_of(config)
    return TaggedSplit(
        training=parts.training,
        validation=parts.validation,
        test=list(test.found),
        tags=(*sorted(found & {"O"}), *in_order(found - {"O"})),
        held_out=parts.held_out,
        notes=parts.notes + never_learned(parts, test) + seen_before(parts, test),
        label_column=label_column,
        columns=columns,
    )


def _items(sentences: Iterable[Sentence], paths: Sequence[str]) -> Items[Sentence]:
    return Items(
        found=list(sentences),
        content=lambda sentence: "\n".join(sentence.words).encode("utf-8", "surrogatepass"),
        labels=lambda sentence: set(sentence.tags),
        answer=lambda sentence: sentence.tags,
        source=lambda sentence: sentence.source,
        what="sentence",
        body="sentence",
        where=", ".join(paths),
    )


def _unseen(validation: list[Sentence], known: set[str]) -> list[str]:
    """A remark on tags that cannot be learnt; they stay in, for the score must count them."""
    unknown = Counter(tag for sentence in validation for tag in sentence.tags if tag not in known)
    if not unknown:
        return []
    return [
        f"training lacks {counted(len(unknown), 'tag')} of validation, so that these words will "
        f"count as wrong: {listed_with_counts(unknown)}"
    ]


def _columns_of(config: TaggedConfig) -> tuple[str | None, list[str]]:
    """What the column of the tags is called, for those who will read the run later, and what the
    columns of a table were taken for."""
    first, label = local_path(config.paths[0]), config.label_column
    if first.is_dir() or not _is_table(first):
        return label or ("upos" if ending(first) == ".conllu" else None), []
    table = open_table(first, config.encoding)
    words, tags = _table_columns(table, next(iter(config.text_column), None), label)
    return tags, [f"columns: {columns_in_words(table, {'words': [words], 'tags': [tags]})}"]


# --- reading ---


def read_sentences(
    paths: Iterable[str],
    label_column: str | None = None,
    encoding: str = "utf-8",
    text_column: Sequence[str] = (),
) -> Iterator[Sentence]:
    """The sentences of files, folders and hub data sets, one at a time and in a fixed order.

    `text_column` is the column of the words in a table.
    """
    check_encoding(encoding)
    if len(text_column) > 1:
        raise UsageError(f"the words are in one column, not in {', '.join(text_column)}.")
    words = text_column[0] if text_column else None
    for name in paths:
        with reading(name):
            folder = local_path(name)
            if not folder.is_dir():
                yield from _sentences_of(name, label_column, encoding, words)
                continue
            is_empty = True
            for file in _files_in(folder):
                with suppress(EmptyError):  # among others an empty file does no harm
                    for sentence in _sentences_of(str(file), label_column, encoding, words):
                        is_empty = False
                        yield sentence
            if is_empty:
                raise EmptyError(f"{folder} has only empty files.")


def _files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    found = [file for file in files if file.is_file() and ending(file) in FOLDER_ENDINGS]
    if not found:
        raise GlassformerError(
            f"{folder} has no files to read. The endings looked for in a folder are "
            f"{', '.join(FOLDER_ENDINGS)}; a file of any other ending must be named itself."
        )
    return found


def _sentences_of(
    name: str, label_column: str | None, encoding: str, words: str | None
) -> Iterator[Sentence]:
    path = local_path(name)
    if ending(path) == ".csv":
        raise UsageError(
            f"{name} is a table of texts, which classifier reads. A tagger reads words with their "
            "tags: CoNLL, CoNLL-U, or lists of both in .jsonl or .parquet."
        )
    if _is_table(path):
        found = _table_sentences(name, label_column, encoding, words)
    elif ending(path) == ".conllu":
        found = _conllu_sentences(path, label_column, encoding)
    else:
        found = _column_sentences(path, label_column, encoding)
    is_empty = True
    for sentence in found:
        is_empty = False
        yield sentence
    if is_empty:
        raise EmptyError(f"{name} has no sentences in it.")


# --- columns of words and tags ---


def _column_sentences(path: Path, label_column: str | None, encoding: str) -> Iterator[Sentence]:
    tag_at = None if label_column is None else _number(label_column, path) - 1
    lines = list(read_lines(path, encoding))
    plain = [
        _fields(line)
        for line in lines
        if line.strip() and not line.startswith(("# ", "-DOCSTART-"))
    ]
    width, known = len(plain[0]) if plain else 0, {fields[-1] for fields in plain}
    words: list[tuple[str, str]] = []
    start = 0
    for number, line in enumerate(lines, 1):
        fields, place = _fields(line), f"{path}:{number}"
        is_mark = fields[0].startswith("-DOCSTART-")
        if is_mark or not line.strip():
            yield from _sentence(words, f"{path}:{start}")
            words = []
            continue
        # "# O" is the word # with its tag, as all other lines are made; "# id = 7" is a remark.
        if line.startswith("# ") and not (fields[-1] in known and len(fields) == width):
            continue
        if not fields[0].strip():
            raise GlassformerError(f"{place} has a tag but no word. Fill it in, or delete it.")
        if len(fields) < 2:
            raise GlassformerError(
                f'{place} has no tag for "{fields[0]}". Write word and tag with a tab or a blank '
                "between them, and a blank line after each sentence."
            )
        if len(fields) != width:
            raise GlassformerError(
                f"{place} has {counted(len(fields), 'column')}, but the first line of words "
                f"has {width}. Give each word all of them."
            )
        if tag_at is not None and tag_at >= width:
            raise _too_few(place, tag_at + 1, width)
        start = start if words else number
        words.append((fields[0].strip(), fields[-1 if tag_at is None else tag_at].strip()))
        if not words[-1][1]:
            raise GlassformerError(f'{place} has no tag for "{fields[0]}". Fill it in.')
    yield from _sentence(words, f"{path}:{start}")


def _fields(line: str) -> list[str]:
    """By tabs where there are any, for then a word may hold a blank; else by blanks."""
    line = line.rstrip(" \t\n")
    return line.split("\t") if "\t" in line else [each for each in line.split(" ") if each] or [""]


def _number(label_column: str, path: Path) -> int:
    """The number of a column, from 1."""
    if not label_column.isdecimal() or int(label_column) < 1:
        raise UsageError(
            f'{path} has no column "{label_column}": its columns have no names. '
            "Give the number of one, from 1, as --label-column."
        )
    return int(label_column)


def _too_few(place: str, wanted: int, width: int) -> UsageError:
    return UsageError(
        f"{place} has {counted(width, 'column')}, so that there is no column {wanted}. "
        "Say another --label-column."
    )


def _sentence(words: list[tuple[str, str]], place: str) -> Iterator[Sentence]:
    if words:
        yield Sentence(tuple(word for word, _ in words), tuple(tag for _, tag in words), place)


# --- CoNLL-U ---


def _conllu_sentences(path: Path, label_column: str | None, encoding: str) -> Iterator[Sentence]:
    tag_at = _conllu_column(label_column or "upos", path)
    words: list[tuple[str, str]] = []
    start = 0
    for number, line in enumerate(read_lines(path, encoding), 1):
        place = f"{path}:{number}"
        if not line.strip():
            yield from _sentence(words, f"{path}:{start}")
            words = []
            continue
        if line.startswith("#"):
            continue
        fields = line.rstrip("\n").split("\t")
        if len(fields) != len(CONLLU_COLUMNS):
            raise GlassformerError(
                f"{place} has {counted(len(fields), 'column')}, but CoNLL-U has "
                f"{len(CONLLU_COLUMNS)}, with a tab between two. Mend the line."
            )
        if not fields[0].isdecimal():  # 1-2 repeats two words as one, 1.1 is not in the text
            continue
        word, tag = fields[1], fields[tag_at].strip()
        if not tag or (tag == "_" and CONLLU_COLUMNS[tag_at] in ("upos", "xpos")):
            raise GlassformerError(
                f'{place} has no {CONLLU_COLUMNS[tag_at]} for "{word}". '
                "Fill it in, or say another --label-column."
            )
        start = start if words else number
        words.append((word, tag))
    yield from _sentence(words, f"{path}:{start}")


def _conllu_column(label_column: str, path: Path) -> int:
    if label_column.isdecimal():
        if not 1 <= int(label_column) <= len(CONLLU_COLUMNS):
            raise _too_few(str(path), int(label_column), len(CONLLU_COLUMNS))
        return int(label_column) - 1
    if label_column.lower() not in CONLLU_COLUMNS:
        raise UsageError(
            f'{path} has no column "{label_column}". Those of CoNLL-U are '
            f"{', '.join(CONLLU_COLUMNS)}. Say another --label-column."
        )
    return CONLLU_COLUMNS.index(label_column.lower())


# --- tables ---


def _table_sentences(
    name: str, label_column: str | None, encoding: str, words: str | None
) -> Iterator[Sentence]:
    table = open_table(name, encoding)
    word_column, tag_column = _table_columns(table, words, label_column)
    for row in table.rows:
        found, tags = _list(row, word_column), _list(row, tag_column)
        if len(found) != len(tags):
            raise GlassformerError(
                f'{row.place} has {counted(len(found), "word")} in "{word_column}" but '
                f'{counted(len(tags), "tag")} in "{tag_column}". Give each word one tag.'
            )
        if found:
            holder = f'column "{tag_column}"'
            names = tuple(label_name(tag, row.place, holder) for tag in tags)
            yield Sentence(tuple(_word(each, row, word_column) for each in found), names, row.place)


def _is_table(path: Path) -> bool:
    return not path.is_file() or ending(path) in (".jsonl", ".parquet")  # no file: of the hub


def _table_columns(table: Table, words: str | None, tags: str | None) -> tuple[str, str]:
    found = column(table, words, WORD_COLUMNS, taken=[tags] if tags else [])
    return found, column(table, tags, TAG_COLUMNS, "label", taken=[found])


def _word(value: object, row: Row, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise GlassformerError(
            f'{row.place}: column "{name}" holds {value!r} among its words. Each must be text.'
        )
    return value


def _list(row: Row, name: str) -> list[object]:
    value = row.values.get(name)
    if not isinstance(value, list):
        raise GlassformerError(
            f'{row.place}: column "{name}" does not hold a list. Write each row as '
            '{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}.'
        )
    return value
