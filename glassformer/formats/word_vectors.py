"""Published word vectors: the formats of GloVe, word2vec and fastText.

    GloVe             the 0.418 0.24968 …           one word per line
    word2vec, text    400000 50                     the same after a line with both sizes (fastText)
    word2vec, binary  400000 50                     word, blank, float32 values, again and again

Words are in the order of the file, which is usually that of their frequency.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

import numpy as np
import torch

from glassformer.data.archives import DataPath
from glassformer.data.text_files import open_bytes, read_lines
from glassformer.errors import GlassformerError
from glassformer.formats.conversion import ForeignModel
from glassformer.inspect import Array
from glassformer.models import name_of
from glassformer.models.word_vectors import WordVectors, WordVectorsConfig
from glassformer.preprocessing.skip_gram import SkipGramPreprocessing
from glassformer.text.tokenizer_training import word_tokenizer
from glassformer.text.tokenizers import UNKNOWN
from glassformer.wording import counted

LINES = 4096  # parsed at a time
CHUNK = 2**20  # bytes
LONGEST_WORD = 2**12  # bytes
MOST_VALUES = 2**32
HEADER = re.compile(rb"(\d{1,12}) (\d{1,6}) ?\r?\n")


class Table(NamedTuple):
    """Words and their vectors, as a file lists them."""

    words: list[str]
    vectors: Array


def is_text(start: bytes) -> bool:
    """Whether a file begins with a word and numbers, perhaps after a line with the sizes."""
    header = HEADER.match(start)
    lines = start[header.end() if header else 0 :].split(b"\n")
    if not header and len(lines) < 2:  # a whole line is needed to tell vectors from a text
        return False
    try:
        values = lines[0].decode().split()
        return len(values) > 2 and bool([float(value) for value in values[-2:]])
    except ValueError:
        return False


def is_binary(start: bytes) -> bool:
    return HEADER.match(start) is not None and not is_text(start)


def read_text(path: DataPath) -> ForeignModel:
    lines: Iterator[tuple[int, str]] = enumerate(read_lines(path, "utf-8"), 1)
    _, first = next(lines)
    expected = 0
    if header := HEADER.fullmatch(first.rstrip("\n").encode() + b"\n"):
        expected, width = (int(size) for size in header.groups())
    else:
        width = len(first.split()) - 1
        lines = chain([(1, first)], lines)
    words, blocks = list[str](), list[Array]()
    while block := list(islice(lines, LINES)):
        table = _parsed(path, [(number, line) for number, line in block if line.strip()], width)
        words += table.words
        blocks.append(table.vectors)
    if expected and len(words) != expected:
        raise GlassformerError(
            f"{path} should contain {expected:,} words, by its first line, but contains "
            f"{len(words):,}. Download it again."
        )
    return _model(Table(words, np.concatenate(blocks)))


def read_binary(path: DataPath) -> ForeignModel:
    with open_bytes(path) as file:
        sizes = HEADER.match(file.readline(64))
        if sizes is None:
            raise GlassformerError(f"{path} does not begin with its number of words and values.")
        count, width = (int(size) for size in sizes.groups())
        if count * width > MOST_VALUES or not count * width:
            raise GlassformerError(f"{path}: {count:,} words of {width:,} values are not possible.")
        entries = _entries(file, 4 * width)
        words, blocks = list[str](), list[Array]()
        while block := list(islice(entries, min(LINES, count - len(words)))):
            words += [word.decode("utf-8", "replace") for word, _ in block]
            values = np.frombuffer(b"".join(raw for _, raw in block), "<f4")
            blocks.append(values.reshape(len(block), width))
    if len(words) != count:
        raise GlassformerError(
            f"{path} is truncated: it contains {len(words):,} of {count:,} words. "
            "Download it again."
        )
    table = Table(words, np.concatenate(blocks))
    if not np.isfinite(table.vectors).all():
        raise GlassformerError(f"{path} contains values that are not numbers. Download it again.")
    return _model(table)


def _parsed(path: DataPath, lines: list[tuple[int, str]], width: int) -> Table:
    """Numbered lines of a word and `width` values. A word may contain blanks."""
    parts = [line.rstrip().rsplit(" ", width) for _, line in lines]
    values = np.array([part[1:] for part in parts if len(part) == width + 1])
    try:
        vectors = values.astype(np.float32).reshape(len(lines), width)
        if np.isfinite(vectors).all():
            return Table([part[0] for part in parts], vectors)
    except ValueError:
        pass
    for (number, _), part in zip(lines, parts, strict=True):  # which one is it?
        if len(part) != width + 1:
            raise GlassformerError(
                f"{path}:{number}: expected a word and {width} values, found "
                f"{counted(len(part), 'column')}. Download the file again."
            )
        for value in part[1:]:
            if not _is_finite(value):
                raise GlassformerError(f'{path}:{number}: "{value}" is not a number.')
    raise GlassformerError(f"{path}, line {lines[0][0]:,} or after: the values cannot be read.")


def _is_finite(value: str) -> bool:
    try:
        return bool(np.isfinite(np.float32(value)))
    except ValueError:
        return False


def _entries(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Each word with its `size` bytes of values, until the file ends."""
    buffer = b""
    while True:
        end = buffer.find(b" ")
        if end >= 0 and len(buffer) >= end + 1 + size:
            yield buffer[:end].lstrip(b"\n"), buffer[end + 1 : end + 1 + size]
            buffer = buffer[end + 1 + size :]
            continue
        if end > LONGEST_WORD or not (more := file.read(CHUNK)):
            return
        buffer += more


def _model(table: Table) -> ForeignModel:
    """Each word once; one more row for unknown words and one for the end of a text."""
    rows = {word: number for number, word in reversed(list(enumerate(table.words)))}
    words = [word for word in dict.fromkeys(table.words) if word not in (UNKNOWN, "")]
    lowercase = not any(word != word.lower() for word in words)
    tokenizer = word_tokenizer(words, lowercase)
    width = table.vectors.shape[1]
    config = WordVectorsConfig(vocab_size=tokenizer.vocab_size, d_model=width, has_contexts=False)
    model = WordVectors(config)
    vectors = np.zeros((tokenizer.vocab_size, width), np.float32)
    vectors[1 : len(words) + 1] = table.vectors[[rows[word] for word in words]]
    model.embedding.weight.data = torch.from_numpy(vectors)
    notes = []
    if dropped := len(table.words) - len(words):
        notes.append(f"{counted(dropped, 'word')} had no name or another vector before: left out")
    if lowercase:
        notes.append("all words are in lower case, so texts are read in lower case")
    preprocessing = SkipGramPreprocessing(tokenizer=tokenizer)
    trial = next((word for word in words[500:] if word.isalpha()), words[0])
    return ForeignModel(
        name_of(model),
        model.eval(),
        preprocessing,
        {},
        about=f"{counted(len(words), 'word')}, {width} dimensions",
        command=("neighbours", trial),
        notes=tuple(notes),
    )
