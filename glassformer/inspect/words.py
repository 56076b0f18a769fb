"""One word in several sentences: how its context changes its vector, layer by layer.

    vector   = mean of the states of its tokens                     (N + 1, U, D)
    cosine   = of each two uses of the word, after each layer       (N + 1, U, U)

Before the first layer, the vectors of a word differ only by its position.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.inspect.capture import Array, layer_names, map_of
from glassformer.tables import aligned
from glassformer.text.portable import does_merge, merges_of, num_merges
from glassformer.text.tokenizers import Tokenizer, bytes_of, readable_bytes
from glassformer.wording import beginning

# --- contexts ---

Values = NDArray[np.float64]
AROUND = 28  # characters of a sentence that are shown on each side of the word


@dataclass(frozen=True)
class Use:
    """A place where the word stands."""

    sentence: int
    positions: tuple[int, ...]
    """Of its tokens."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """A word and its vectors in several places."""

    model: str
    word: str
    sentences: list[str]
    tokens: list[list[str]]
    """Of each sentence."""
    uses: list[Use]
    hidden: Array
    """(N + 1, U, D): before the first layer and after each layer."""
    separator: str = ""
    """What stands between two tokens of a sentence."""
    notes: tuple[str, ...] = ()

    @cached_property
    def _unit(self) -> Values:
        vectors = self.hidden.astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        unit: Values = vectors / np.maximum(lengths, 1e-12)
        return unit

    @cached_property
    def cosine(self) -> Values:
        """(N + 1, U, U): 1 if two vectors have the same direction."""
        found: Values = self._unit @ self._unit.swapaxes(1, 2)
        return found

    @cached_property
    def distance(self) -> Values:
        """(N + 1, U, U): between the ends of two vectors."""
        vectors = self.hidden.astype(np.float64)
        found: Values = np.linalg.norm(vectors[:, :, None] - vectors[:, None], axis=-1)
        return found

    @cached_property
    def places(self) -> tuple[Values, float]:
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


# --- neighbours ---
# Which words are near a word, alone and in a sentence.
#
#     similarity(a, b) = a · b / (|a| |b|)                    the cosine
#
#     score_i  = w_i · w_n / (√d · temperature)               how related word i is to word n
#     weight_i = exp(score_i) / Σ_j exp(score_j)              the softmax
#     ŵ_n      = Σ_i weight_i w_i                             word n in this sentence
#
# This is attention without parameters: a Transformer computes the scores from queries W_Q w and
# keys
# W_K w, and sums values W_V w, in many heads and layers.

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


# --- spelling ---
# How the tokens of a text are spelled: their bytes, and the merges that made each word.

LONGEST_WORD = 48  # bytes: a longer one has more steps than a reader follows
MOST_WORDS = 400  # different words whose merges are kept


def spelling(tokenizer: Tokenizer, ids: Sequence[int]) -> dict[str, Any] | None:
    """For a byte-level vocabulary, the bytes of each token; if it merges bytes, also the words,
    each with the place of its first token, and the merges of every different word. None for
    others."""
    if not tokenizer.is_byte_level:
        return None
    raw = [tokenizer.token_bytes(id) for id in ids]
    found: dict[str, Any] = {"bytes": [list(each) for each in raw], "words": [], "num_merges": 0}
    if does_merge(tokenizer):
        found["words"] = _words(tokenizer, ids, raw)
        found["num_merges"] = num_merges(tokenizer)
    return found


def _words(tokenizer: Tokenizer, ids: Sequence[int], raw: Sequence[bytes]) -> list[dict[str, Any]]:
    """Words whose merges end with the tokens that are there: those of a word that was cut off where
    the text was cut do not."""
    starts, place = {}, 0  # the token that begins at each byte of the text
    for number, own in enumerate(raw):
        if own:
            starts[place] = number
            place += len(own)
    known: dict[str, list[dict[str, Any]]] = {}
    found, place = [], 0
    for word in tokenizer.parts(b"".join(raw).decode(errors="replace")):
        first, place = starts.get(place), place + len(word)
        if first is None or len(word) > LONGEST_WORD:
            continue
        if word not in known and len(known) < MOST_WORDS:
            known[word] = [asdict(each) for each in merges_of(tokenizer, word)]
        steps = known.get(word)
        if steps is None:
            continue
        pieces = steps[-1]["pieces"] if steps else [tokenizer.token(ids[first])]
        tokens = [tokenizer.token(id) for id in ids[first : first + len(pieces)]]
        if pieces == tokens:
            found.append({"first": first, "bytes": _bytes(word), "steps": steps})
    return found


def _bytes(word: str) -> list[str]:
    """The pieces before the first merge."""
    return [readable_bytes(bytes_of(each)) for each in word]
