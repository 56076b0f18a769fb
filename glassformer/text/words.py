"""Words, sentences and bytes ↔ tokens: which tokens spell which word, where a text may be cut, and
how many bytes its tokens stand for.

    Ada   Lovelace   lives          words, each with a tag
    ada   love ##lace lives         tokens: the first of a word represents it

Words are cut as in tagged sentences, sentences as a translator needs them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import category

from glassformer.text.tokenizers import LongText, Tokenizer
from glassformer.text.truncation import Frame
from glassformer.wording import counted

# --- words ---

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
    return [text[slice(*word.span())] for word in WORD.finditer(plain)]


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
    for index, length in enumerate(lengths):
        if room is not None and size and size + length > room:
            pieces.append((first, index))
            first, size = index, 0
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


# --- sentences: a text that is too long for a model, in pieces that fit ---
#
#     "It rains. Dr. Faust, who …"  →  "It rains."  "Dr. Faust, …"
#
# A translator is trained on sentences, so it gets them one by one. A sentence that is too long
# itself is cut at commas, else between words, else anywhere, into as few pieces as possible.

# Chinese and Japanese have no spaces between sentences.
_END = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”’]*\s*""")
# Where a sentence may be cut, the best places first.
_CUTS = (r"(?<=[,;:–—،])\s+|(?<=[、，；：])\s*", r"\s+", r"(?<=.)")


def fitting_pieces(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text if it fits, otherwise its pieces in order."""
    if fits(text):
        return [text] if text else []
    edges = [0, *_ends(text), len(text)]
    sentences = (text[first:last].strip() for first, last in pairwise(edges))
    return [piece for sentence in sentences if sentence for piece in _smaller(sentence, fits, 0)]


def _ends(text: str) -> Iterator[int]:
    """Where sentences end."""
    for match in _END.finditer(text):
        word = re.split(r"[\s(\[]", text[max(0, match.start() - 20) : match.start()])[-1]
        is_dot = match[0][0] == "." and match[0][:2] != ".."
        if not (is_dot and _is_abbreviation(word)):
            yield match.end()


def _is_abbreviation(word: str) -> bool:
    """Whether a dot after this word does not end the sentence: Dr, U.S, z.B, 3"""
    return (
        "." in word or (len(word) < 3 and word.isdigit()) or (len(word) < 4 and word[:1].isupper())
    )


def _smaller(sentence: str, fits: Callable[[str], bool], level: int) -> list[str]:
    if fits(sentence) or level == len(_CUTS):
        return [sentence]
    edges = [0, *(cut.end() for cut in re.finditer(_CUTS[level], sentence)), len(sentence)]
    pieces: list[str] = []
    for first, last in pairwise(edges):
        if pieces and fits((pieces[-1] + sentence[first:last]).strip()):
            pieces[-1] += sentence[first:last]
        else:
            pieces.append(sentence[first:last])
    parts = (piece.strip() for piece in pieces)
    return [small for part in parts if part for small in _smaller(part, fits, level + 1)]


# --- bytes: what bits per byte are relative to ---
# They measure a complete code where possible: the first token is predicted from the end-of-text
# token, and unknown words are written out. After <|unk|>, that takes the bytes of the word and one
# byte for its end, 8 bits each. Lost spacing and case make a text easier to predict, but cannot be
# charged, because no token marks where they were: a note names them.


@dataclass(frozen=True)
class ByteCount:
    """The size of a text whose tokens are predicted."""

    total: int
    """UTF-8 bytes."""
    unknown: int = 0
    """Bytes that write out the unknown words, each with a byte for its end."""

    @property
    def fallback_bits(self) -> int:
        """The cost of the unknown words, besides that of <|unk|>."""
        return 8 * self.unknown


class ByteCounter:
    """Counts texts that are read one after the other. If the tokenizer has no end of text, no token
    comes before the very first, which is not predicted then and does not count."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._is_predicted = tokenizer.end_of_text is not None
        self._total = self._unknown = 0

    def passing(self, text: LongText) -> LongText:
        """The same text, counted while it is read."""
        pieces = self._tokenizer.safe_pieces(text.parts)
        return LongText(map(self._counted, pieces), text.source)

    def _counted(self, piece: str) -> str:
        tokenizer = self._tokenizer
        self._total += len(piece.encode())
        self._unknown += sum(len(word.encode()) + 1 for word in tokenizer.unknown_words(piece))
        if not self._is_predicted and (ids := tokenizer.encode(piece)):
            if tokenizer.is_byte_level:  # it may end within a character
                self._total -= len(tokenizer.token_bytes(ids[0]))
            else:  # with what it skips
                _, last = tokenizer.spans(piece)[0]
                self._total -= len(piece[:last].encode())
            if ids[0] == tokenizer.unknown:
                self._unknown -= len(next(tokenizer.unknown_words(piece)).encode()) + 1
            self._is_predicted = True
        return piece

    @property
    def count(self) -> ByteCount:
        """The size of all texts that were read to their end."""
        return ByteCount(self._total, self._unknown)


def count_bytes(texts: Iterable[str], tokenizer: Tokenizer) -> ByteCount:
    """The size of texts that are read one after the other."""
    counter = ByteCounter(tokenizer)
    for text in texts:
        for _ in counter.passing(LongText([text], "")).parts:
            pass
    return counter.count


def notes_on_bytes(tokenizer: Tokenizer, size: ByteCount) -> tuple[str, ...]:
    """What to know about the bits per byte of a text of this size."""
    notes = []
    if size.unknown:
        notes.append(
            "bits per byte include words that the tokenizer does not know, at 8 bits per byte "
            f"({counted(size.unknown, 'byte')} including word ends; the text has {size.total:,})"
        )
    lost = ["spacing"] * (not tokenizer.keeps_spacing) + ["upper case"] * tokenizer.folds_case
    if lost:
        notes.append(
            f"bits per byte do not include {' and '.join(lost)}, which the tokenizer does not "
            "keep: they are too low to compare with those of a tokenizer that does"
        )
    return tuple(notes)
