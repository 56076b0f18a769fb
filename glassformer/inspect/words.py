"""The vectors of words: how a context changes them, and which words are near.

    vector of a use = mean of the states of its tokens              (N + 1, U, D)
    similarity(a, b) = a · b / (|a| |b|)                            the cosine

Before the first layer, the vectors of a word in several sentences differ only by its position. A
table of word vectors knows no sentence; there, attention without parameters weights the words
around one:

    score_i  = w_i · w_n / (√d · temperature)               how related word i is to word n
    weight_i = exp(score_i) / Σ_j exp(score_j)              the softmax
    ŵ_n      = Σ_i weight_i w_i                             word n in this sentence

A Transformer computes the scores from queries W_Q w and keys W_K w, and sums values W_V w, in many
heads and layers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.inspect import Array, Doubles, Flags, Ids
from glassformer.inspect.capture import layer_names, map_of
from glassformer.tables import aligned
from glassformer.wording import beginning

SMALLEST = 1e-12  # length of a vector; that of a word without a vector is 0

# --- one word in several sentences ---

AROUND = 28  # characters of a sentence that are shown on each side of the word


@dataclass(frozen=True)
class Use:
    """A place where the word stands."""

    sentence: int
    positions: tuple[int, ...]
    """The positions of its tokens."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """A word and its vectors in several places."""

    model: str
    word: str
    sentences: list[str]
    tokens: list[list[str]]
    """The tokens of each sentence."""
    uses: list[Use]
    hidden: Array
    """(N + 1, U, D): before the first layer and after each layer."""
    separator: str = ""
    """What stands between two tokens of a sentence."""
    notes: tuple[str, ...] = ()

    @cached_property
    def _unit(self) -> Doubles:
        vectors = self.hidden.astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        unit: Doubles = vectors / np.maximum(lengths, SMALLEST)
        return unit

    @cached_property
    def cosine(self) -> Doubles:
        """(N + 1, U, U): 1 if two vectors have the same direction."""
        cosine: Doubles = self._unit @ self._unit.swapaxes(1, 2)
        return cosine

    @cached_property
    def distance(self) -> Doubles:
        """(N + 1, U, U): between the ends of two vectors."""
        vectors = self.hidden.astype(np.float64)
        distance: Doubles = np.linalg.norm(vectors[:, :, None] - vectors[:, None], axis=-1)
        return distance

    @cached_property
    def places(self) -> tuple[Doubles, float]:
        """All directions on a map of the two in which they differ most, (N + 1, U, 2), and the
        share of their differences that it holds."""
        return map_of(self._unit)

    @property
    def names(self) -> list[str]:
        """Each use with the words around it: "train left the [station]"."""
        return [self._name(use) for use in self.uses]

    def _name(self, use: Use) -> str:
        tokens = self.tokens[use.sentence]
        first, last = use.positions[0], use.positions[-1] + 1
        before, word, after = (
            " ".join(self.separator.join(part).replace(" ##", "").split())
            for part in (tokens[:first], tokens[first:last], tokens[last:])
        )
        if len(before) > AROUND:
            before = "… " + before[-AROUND:].partition(" ")[2]
        return " ".join(filter(None, [before, f"[{word}]", beginning(after, AROUND)]))

    def as_json(self) -> dict[str, Any]:
        places, share = self.places
        return {
            "model": self.model,
            "word": self.word,
            "sentences": self.sentences,
            "uses": [
                {
                    "sentence": use.sentence,
                    "positions": list(use.positions),
                    "tokens": [self.tokens[use.sentence][at] for at in use.positions],
                }
                for use in self.uses
            ],
            "cosine": self.cosine.tolist(),
            "distance": self.distance.tolist(),
            "map": places.tolist(),
            "map_share": share,
            "vectors": self.hidden.tolist(),
        }

    def text(self) -> str:
        """A row for each two uses, a column for each layer: the cosine of their vectors."""
        rows = [
            [f"{a + 1} and {b + 1}", *(f"{layer[a, b]:.3f}" for layer in self.cosine)]
            for a, b in self.pairs
        ]
        listed = [f"{number}  {name}" for number, name in enumerate(self.names, 1)]
        return "\n".join(
            [
                f'"{self.word}" in {len(self.uses)} places:',
                *listed,
                "cosine of its vectors:",
                aligned(["", *layer_names(len(self.hidden))], rows),
            ]
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        count = len(self.uses)
        return [(a, b) for a in range(count) for b in range(a + 1, count)]


def vectors_of(hidden: Array, uses: Sequence[Use]) -> Array:
    """The mean of the states of each use's tokens: (N + 1, T, D) → (N + 1, U, D)."""
    return np.stack([hidden[:, list(use.positions)].mean(1) for use in uses], axis=1)


# --- the neighbours of a word, alone and in a sentence ---


class Lexicon:
    """Vectors of words (V, D), some of which may be named as neighbours."""

    def __init__(self, vectors: Array, is_candidate: Flags) -> None:
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.lengths: Array = np.maximum(np.linalg.norm(self.vectors, axis=1), SMALLEST)
        self.candidates: Ids = np.flatnonzero(is_candidate)

    def similarities(self, vector: Array) -> Array:
        """(V,) the cosine of `vector` with each word."""
        length = max(float(np.linalg.norm(vector)), SMALLEST)
        cosines: Array = self.vectors @ np.asarray(vector, np.float32) / (self.lengths * length)
        return cosines

    def nearest(self, similarities: Array, top: int, without: Ids) -> Ids:
        """The `top` candidates with the largest similarities, the largest first; of equal ones, the
        first in the vocabulary."""
        allowed = self.candidates[~np.isin(self.candidates, without)]
        order = np.argsort(-similarities[allowed], kind="stable")
        return allowed[order[:top]]


@dataclass(frozen=True, eq=False)
class PlainAttention:
    """Attention of one word to the words of a sentence, without parameters, step by step."""

    dot_products: Array
    """(T,) w_i · w_n"""
    scores: Array
    """(T,) the same, divided by `scale`."""
    weights: Array
    """(T,) their softmax: not negative, and summing to one."""
    vector: Array
    """(D,) the sum of the words' vectors with these weights."""
    scale: float
    """√d · temperature"""


def attend(words: Array, vector: Array, temperature: float = 1.0) -> PlainAttention:
    """Weight the words of a sentence (T, D) by their relation to one of them, `vector` (D,)."""
    words = np.asarray(words, dtype=np.float64)  # (T, D)
    dots = words @ np.asarray(vector, dtype=np.float64)  # (T,)
    scale = math.sqrt(words.shape[1]) * temperature
    scores = dots / scale
    shares = np.exp(scores - scores.max())  # the same softmax, but without overflow
    weights = shares / shares.sum()
    return PlainAttention(
        dot_products=dots.astype(np.float32),
        scores=scores.astype(np.float32),
        weights=weights.astype(np.float32),
        vector=(weights @ words).astype(np.float32),
        scale=scale,
    )
