"""How many bytes of text the tokens of a text stand for: what bits per byte are relative to.

A tokenizer that does not keep everything makes a text easier to predict. Unknown words can be
charged: after <|unk|>, the bytes of the word and one byte for its end would have to be written out,
8 bits each. Lost spacing and case cannot be charged, because no token marks where they were.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from glassformer.text.chunks import LongText, pieces_of
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted


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
        safe = self._tokenizer.keeps_within_words
        pieces = pieces_of(text.parts) if safe else iter(["".join(text.parts)])
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
        """Of all texts that were read to their end."""
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
