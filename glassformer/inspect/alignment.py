"""Where a model looked for its answer: an alignment of two texts, or maps over an image.

              Das    ist    gut        rows are the output, columns the source;
    This     0.90   0.05   0.05        the weights of a row are shares of attention
    is       0.10   0.80   0.10        and sum to one

    dog      0.01   0.02   0.01        for an image, a grid of weights for each word
             0.03   0.80   0.05        of its caption, or one for its label, which
             0.02   0.04   0.02        sums to one

All of this is plain data, which another program may have computed.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.inspect import Doubles, Floats, Pixels

if TYPE_CHECKING:
    from glassformer.inspect.inspection import Inspection


@dataclass(frozen=True, kw_only=True, eq=False)
class Looking:
    """Attention to an input, and whose it is."""

    weights: Floats
    """Shares of attention, which sum to one for the answer or for each word."""
    chosen: tuple[int | None, int | None] = (None, None)
    """The layer and the head of `weights`; None: the mean of all."""
    model: str | None = None
    """The name of the model."""
    inspect: "Callable[[], Inspection] | None" = None
    """Everything else that the model computed on the input, for a page."""

    @property
    def seen(self) -> "Inspection":
        if self.inspect is None:
            raise TypeError("what another program computed has no page")
        return self.inspect()


@dataclass(frozen=True, kw_only=True, eq=False)
class WrittenOutput(Looking):
    """An output with the attention of each of its words."""

    name: ClassVar[str]
    """The name of this kind of output."""
    weights: Doubles
    score: float | None = None
    """The log-probability of the output, by its length."""
    is_cut_off: bool = False
    """Whether the output reached the maximum length before its end."""
    heads: Doubles | None = None
    """(layers, heads, …): the weights of each head, if they are known."""

    @property
    def notes(self) -> tuple[str, ...]:
        cut_off = f"the {self.name} reached the maximum length and was cut off."
        return (cut_off,) if self.is_cut_off else ()

    def about(self) -> str:
        """The model, its score, and whose attention it is."""
        score = None if self.score is None else f"score {self.score:.3f}"
        counts = (None, None) if self.heads is None else self.heads.shape[:2]
        parts = [self.model, score, *whose_attention(self.chosen, *counts)]
        return ", ".join(part for part in parts if part)


def whose_attention(
    chosen: tuple[int | None, int | None], num_layers: int | None, num_heads: int | None
) -> list[str]:
    """A layer and a head, or the mean of all, in words; nothing about the only one there is."""
    numbered = zip(("layer", "head"), chosen, (num_layers, num_heads), strict=True)
    return [
        f"mean of all {name}s" if number is None else f"{name} {number}"
        for name, number, count in numbered
        if count != 1
    ]


# --- which part of the source each word of a translation looked at ---

TOLERANCE = 1e-3  # of sums: single precision, and means over many heads


def word_of(tokens: Sequence[str]) -> str:
    """The word that tokens spell, without the "##" of WordPiece and the space before the word.

    >>> word_of([" walk", "ing"]), word_of(["walk", "##ing"])
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
    weights: Doubles
    """(T, S), rows sum to one."""
    heads: Doubles | None = None
    """(layers, heads, T, S)"""

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        expected = (len(self.target_tokens), len(self.source_tokens))
        if weights.shape != expected:
            raise ValueError(f"weights are {weights.shape}, but the tokens need {expected}")
        sums = weights.sum(axis=1)
        if not (np.all(weights >= 0) and np.all(np.abs(sums - 1) < TOLERANCE)):  # NaN fails too
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
        """The alignment of whole words; the starts are True for tokens that begin a word.

        A word of the output looks where its tokens look on average; a word of the source is looked
        at as much as all its tokens together. So rows still sum to one.
        """
        columns = first_tokens(source_starts, len(self.source_tokens))
        rows = first_tokens(target_starts, len(self.target_tokens))
        sizes = np.diff([*rows, len(self.target_tokens)])

        def merged(weights: Doubles) -> Doubles:
            weights = np.add.reduceat(weights, columns, axis=-1)  # (…, T, source words)
            mean: Doubles = np.add.reduceat(weights, rows, axis=-2) / sizes[:, None]
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
        left, right = (max(map(_width, words), default=0) for words in (looking, looked_at))
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
    return [word_of(tokens[start:end]) for start, end in pairwise([*first, len(tokens)])]


def _width(text: str) -> int:
    """Columns of a terminal: a Chinese character takes two, a combining accent none."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


# --- which part of an image each word of its caption looked at ---


@dataclass(frozen=True, kw_only=True, eq=False)
class WordPlaces(WrittenOutput):
    """The attention of each word of a caption to the image."""

    name: ClassVar = "caption"
    image: str
    """The name of the image."""
    caption: str
    pixels: Pixels
    """The image to draw them on, in any size."""
    words: list[str]
    weights: Doubles
    """(W, rows, columns), each grid sums to one and covers the whole image."""
    heads: Doubles | None = None
    """(layers, heads, W, rows, columns)"""

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or len(self.weights) != len(self.words):
            raise ValueError(
                f"weights are {self.weights.shape}, but {len(self.words)} words need as many grids"
            )
        if not np.allclose(self.weights.sum(axis=(1, 2)), 1, atol=TOLERANCE):  # NaN fails too
            raise ValueError("the weights of each word must sum to one")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.weights.shape[1], self.weights.shape[2]

    def peaks(self) -> list[tuple[int, int]]:
        """The row and the column that each word looked at most."""
        return [divmod(int(weights.argmax()), self.grid[1]) for weights in self.weights]

    def as_json(self) -> dict[str, Any]:
        return {
            "image": self.image,
            "captions": [{"text": self.caption, "score": self.score}],
            "words": list(self.words),
            "grid": list(self.grid),
            "attention": self.weights.tolist(),
        }

    def in_words(self, starts: Sequence[bool]) -> "WordPlaces":
        """The maps of whole words, made from those of tokens; the starts are True for tokens that
        begin a word. A word looks where its tokens look on average."""
        first = first_tokens(starts, len(self.words))
        sizes = np.diff([*first, len(self.words)])[:, None, None]

        def merged(weights: Doubles) -> Doubles:
            mean: Doubles = np.add.reduceat(weights, first, axis=-3) / sizes
            return mean  # (…, W, rows, columns)

        return replace(
            self,
            words=spelled(self.words, first),
            weights=merged(self.weights),
            heads=None if self.heads is None else merged(self.heads),
        )

    def text(self) -> str:
        """One line for each word: where it looked most, and its share there."""
        rows, columns = self.grid
        shown = [repr(word) for word in self.words]
        longest = max(map(len, shown), default=0)
        lines = [self.caption]
        for word, weights, (row, column) in zip(shown, self.weights, self.peaks(), strict=True):
            where = f"row {row + 1} of {rows}, column {column + 1} of {columns}"
            lines.append(f"{word:<{longest}}  →  {where}  {weights[row, column]:6.1%}")
        return "\n".join(lines)


# --- which part of an image a label rests on ---


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageAttention(Looking):
    """A grid of weights over an image."""

    view: str
    """The kind of weights: attention or rollout."""
    image: str
    """The name of the image."""
    pixels: Pixels
    """The image in its own size."""
    weights: Floats
    """(rows, columns), all of which sum to one."""
    label: str
    """The label that the model gave it."""
    score: float
    """The probability of that label."""
    heads: list[Floats] | None = None
    """(H, rows, columns) of every layer, if they are known."""
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def peak(self) -> tuple[int, int]:
        """The row and the column with the largest weight."""
        row, column = np.unravel_index(int(self.weights.argmax()), self.weights.shape)
        return int(row), int(column)

    def box(self, row: int, column: int) -> tuple[int, int, int, int]:
        """The pixels of a place of the grid: left, top, right, bottom."""
        (height, width), (rows, columns) = self.size, self.weights.shape
        edges = (column * width / columns, row * height / rows)
        ends = ((column + 1) * width / columns, (row + 1) * height / rows)
        left, top, right, bottom = map(round, (*edges, *ends))
        return left, top, right, bottom

    def about(self) -> str:
        """Whose attention it is, in words."""
        if self.view == "rollout":
            parts = ["rollout over all layers and heads"]
        else:
            heads = self.heads or []
            num_heads = max(map(len, heads), default=None)
            parts = ["attention", *whose_attention(self.chosen, len(heads) or None, num_heads)]
        return ", ".join([*([self.model] if self.model else []), *parts])

    def as_json(self) -> dict[str, Any]:
        layer, head = self.chosen
        return {
            "image": self.image,
            "size": list(self.size),
            "view": self.view,
            "label": self.label,
            "score": self.score,
            "layer": layer,
            "head": head,
            "grid": list(self.weights.shape),
            "weights": self.weights.tolist(),
        }

    def text(self) -> str:
        """The label, the place that was looked at most, and the grid in percent."""
        (row, column), (left, top, right, bottom) = self.peak, self.box(*self.peak)
        share, width = self.weights[row, column], len(f"{100 * self.weights.max():.1f}")
        lines = [" ".join(f"{100 * value:{width}.1f}" for value in row) for row in self.weights]
        return "\n".join(
            [
                f"{self.label}  {self.score:.3f}  {self.image}",
                f"looked at most: x {left} to {right}, y {top} to {bottom} ({share:.1%})",
                f"{self.about()}, in percent:",
                *lines,
            ]
        )
