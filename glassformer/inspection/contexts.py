"""One word in several sentences: how its context changes its vector, layer by layer.

    vector   = mean of the states of its tokens                     (N + 1, U, D)
    cosine   = of each two uses of the word, after each layer       (N + 1, U, U)

Before the first layer, the vectors of a word differ only by its position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.inspection.capture import Array, layer_names
from glassformer.inspection.directions import map_of
from glassformer.tables import aligned
from glassformer.wording import beginning

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
