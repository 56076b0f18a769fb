"""Which kind of tokenizer suits a text, and how large its vocabulary should be."""

import sys
from math import isqrt
from typing import Literal

from glassformer.config import Config, Count
from glassformer.text.tokenizers import Kind
from glassformer.wording import readable_size

_CHAR_BYTES = 2_000_000  # below this, sub-words are seen too seldom to be learned well
_CHAR_ALPHABET = 512  # above this, most characters are seen too seldom


class TokenizerConfig(Config):
    """Which vocabulary to learn. With `auto` and None, the amount of text decides."""

    kind: Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"] = "auto"
    vocab_size: Count | None = None
    lowercase: bool | None = None
    """null: true for classifying texts, otherwise false."""


def choose_kind(num_bytes: int, num_characters: int) -> tuple[Kind, str]:
    """The kind that suits a text of this size with so many distinct characters, and why."""
    if num_characters > _CHAR_ALPHABET:
        return "bpe", (
            f"BPE tokenizer: {num_characters:,} distinct characters are too many for a "
            f"character vocabulary (at most {_CHAR_ALPHABET})"
        )
    if num_bytes < _CHAR_BYTES:
        return "char", (
            f"character tokenizer: {readable_size(num_bytes)} of text is too little to learn "
            f"good sub-words (BPE from {readable_size(_CHAR_BYTES)})"
        )
    return "bpe", (
        f"BPE tokenizer: {readable_size(num_bytes)} of text is enough to learn sub-words "
        f"(characters below {readable_size(_CHAR_BYTES)})"
    )


def default_vocab_size(kind: Kind, num_bytes: int = 10_000_000) -> int:
    """A power of two that grows with the square root of the text, as its words do (Heaps' law).

    8,192 sub-words for 10 MB. For characters it is no limit: all of Unicode.
    """
    if kind == "char":
        return sys.maxunicode + 1
    root = 3 * isqrt(num_bytes) or 1
    pieces = min(max(2 ** (root.bit_length() - 1), 512), 32_768)
    return 4 * pieces if kind == "word" else pieces  # a word has many forms, each with its own id
