"""Which words are near a word, alone and in a sentence.

    similarity(a, b) = a · b / (|a| |b|)                    the cosine

    score_i  = w_i · w_n / (√d · temperature)               how related word i is to word n
    weight_i = exp(score_i) / Σ_j exp(score_j)              the softmax
    ŵ_n      = Σ_i weight_i w_i                             word n in this sentence

This is attention without parameters: a Transformer computes the scores from queries W_Q w and keys
W_K w, and sums values W_V w, in many heads and layers.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SMALLEST = 1e-12  # length of a vector; that of a word without a vector is 0


class Lexicon:
    """Vectors of words (V, D), some of which may be named as neighbours."""

    def __init__(self, vectors: Array, is_candidate: Flags) -> None:
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.lengths: Array = np.maximum(np.linalg.norm(self.vectors, axis=1), _SMALLEST)
        self.candidates: Ids = np.flatnonzero(is_candidate)

    def similarities(self, vector: Array) -> Array:
        """(V,) the cosine of `vector` with each word."""
        length = max(float(np.linalg.norm(vector)), _SMALLEST)
        found: Array = self.vectors @ np.asarray(vector, np.float32) / (self.lengths * length)
        return found

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
