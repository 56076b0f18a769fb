"""Alignment: which part of the source each word of an output looked at.

          Das    ist    gut            rows are the output, columns the source;
This     0.90   0.05   0.05            the weights of a row are shares of attention
is       0.10   0.80   0.10            and sum to one
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from glassformer.inspection.written_output import Array, WrittenOutput

_TOLERANCE = 1e-3  # single precision, and means over many heads


def joined(tokens: Sequence[str]) -> str:
    """The word that tokens spell, without the "##" of WordPiece and the space before the word.

    >>> joined([" walk", "ing"]), joined(["walk", "##ing"])
    ('walking', 'walking')
    """
    word = "".join([*tokens[:1], *(token.removeprefix("##") for token in tokens[1:])])
    return word.strip() or word


@dataclass(frozen=True, kw_only=True, eq=False)
class Alignment(WrittenOutput):
    """Which part of the source each word of the output looked at."""

    name: ClassVar = "translation"
    source: str
    target: str
    source_tokens: list[str]
    target_tokens: list[str]
    weights: Array
    """(T, S), rows sum to one."""
    heads: Array | None = None
    """(layers, heads, T, S)"""

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        expected = (len(self.target_tokens), len(self.source_tokens))
        if weights.shape != expected:
            raise ValueError(f"weights are {weights.shape}, but the tokens need {expected}")
        sums = weights.sum(axis=1)
        if not (np.all(weights >= 0) and np.all(np.abs(sums - 1) < _TOLERANCE)):  # NaN fails too
            raise ValueError("weights must not be negative, and each row must sum to one")
        object.__setattr__(self, "weights", weights)

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "translations": [{"text": self.target, "score": self.score}],
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "alignment": self.weights.tolist(),
        }

    def in_words(self, source_starts: Sequence[bool], target_starts: Sequence[bool]) -> "Alignment":
        """The same for whole words; the starts are True for tokens that begin a word.

        A word of the output looks where its tokens look on average; a word of the source is looked
        at as much as all its tokens together. So rows still sum to one.
        """
        columns = first_tokens(source_starts, len(self.source_tokens))
        rows = first_tokens(target_starts, len(self.target_tokens))
        sizes = np.diff([*rows, len(self.target_tokens)])

        def merged(weights: Array) -> Array:
            weights = np.add.reduceat(weights, columns, axis=-1)  # (…, T, source words)
            mean: Array = np.add.reduceat(weights, rows, axis=-2) / sizes[:, None]
            return mean  # (…, target words, source words)

        return replace(
            self,
            source_tokens=spelled(self.source_tokens, columns),
            target_tokens=spelled(self.target_tokens, rows),
            weights=merged(self.weights),
            heads=None if self.heads is None else merged(self.heads),
        )

    def text(self) -> str:
        """One line for each token of the output: where it looked most, and its share there."""
        best = self.weights.argmax(axis=1) if self.source_tokens else []
        looking = [repr(token) for token in self.target_tokens]
        looked_at = [repr(self.source_tokens[column]) for column in best]
        shares = [self.weights[row, column] for row, column in enumerate(best)]
        left, right = (max(map(_width, each), default=0) for each in (looking, looked_at))
        return "\n".join(
            f"{_padded(token, left)}  →  {_padded(source, right)}  {share:6.1%}"
            for token, source, share in zip(looking, looked_at, shares, strict=True)
        )


def first_tokens(starts: Sequence[bool], num_tokens: int) -> list[int]:
    """The positions at which words begin. The first token always begins one."""
    if len(starts) != num_tokens:
        raise ValueError(f"{len(starts)} starts of words were given for {num_tokens} tokens")
    return [position for position, is_start in enumerate(starts) if is_start or position == 0]


def spelled(tokens: Sequence[str], first: Sequence[int]) -> list[str]:
    """The words that begin at these positions."""
    return [joined(tokens[start:end]) for start, end in pairwise([*first, len(tokens)])]


def _width(text: str) -> int:
    """Columns of a terminal: a Chinese character takes two, a combining accent none."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
