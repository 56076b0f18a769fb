"""Words ↔ tokens: which tokens spell which word.

Ada   Lovelace   lives          words, each with a tag
ada   love ##lace lives         tokens: the first of a word represents it
"""

import re
from collections.abc import Iterator, Sequence
from unicodedata import category

from glassformer.text.framing import Frame
from glassformer.text.tokenizers import Tokenizer

MARK = "ʼ"  # a letter, for \w; replaces the marks on letters (é in two characters, हिन्दी)
LETTER = rf"[^\W\d_]{MARK}*"
WORD = re.compile(
    rf"(?:(?:{LETTER}){{1,2}}\.){{2,}}(?:-\w+)*(?!\w)"  # U.K., e.g., Ph.D., U.S.-based
    rf"|\w+(?:[-'’.]\w+|(?<=\d)[,:/]\d+)*"  # words, 3.50, 10:30
    rf"|[^\w\s]{MARK}*"
)


def split_words(text: str) -> list[str]:
    """Words and punctuation marks, as in tagged sentences. Abbreviations keep their full stops."""
    plain = "".join(MARK if category(letter).startswith("M") else letter for letter in text)
    return [text[slice(*found.span())] for found in WORD.finditer(plain)]


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> list[list[int]]:
    """The tokens of each word of a sentence; at least one each."""
    # Where spaces are part of tokens, each word gets one: so it has the same tokens everywhere.
    blank = " " if tokenizer.carries_blanks or tokenizer.kind == "char" else ""
    spelled = tokenizer.without_unknown([blank + word for word in words])
    filler = tokenizer.unknown or 0
    return [ids or [filler] for ids in tokenizer.encode_batch(spelled)]


def windows(lengths: Sequence[int], room: int | None) -> list[tuple[int, int]]:
    """Pieces of a sentence that fit into `room` tokens, as (first word, after the last).

    A word that does not fit is a piece of its own, of which only the first tokens are read.
    """
    pieces, first, size = [], 0, 0
    for place, length in enumerate(lengths):
        if room is not None and size and size + length > room:
            pieces.append((first, place))
            first, size = place, 0
        size += length
    return [*pieces, (first, len(lengths))]


def spelled(
    tokenizer: Tokenizer, words: Sequence[str], frame: Frame
) -> Iterator[tuple[list[int], list[bool]]]:
    """The rows of tokens in which a model reads a sentence, and which tokens represent a word: its
    first one, or its last for a model that reads from left to right."""
    tokens = encode_words(tokenizer, words)
    for first, last in windows([len(ids) for ids in tokens], frame.room):
        row, speaks = [*frame.before], [False] * len(frame.before)
        for ids in (word[: frame.room] for word in tokens[first:last]):
            others = [False] * (len(ids) - 1)
            row += ids
            speaks += [*others, True] if frame.is_causal else [True, *others]
        yield [*row, *frame.after], [*speaks, *(False for _ in frame.after)]
