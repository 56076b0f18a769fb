"""Word places: which part of an image each word of its caption looked at.

"dog"   0.01 0.02 0.01            one grid of weights for each word, over the whole image;
        0.03 0.80 0.05            the weights of a grid are shares of attention and sum to one
        0.02 0.04 0.02
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from glassformer.inspection.alignment import first_tokens, spelled
from glassformer.inspection.written_output import Array, WrittenOutput

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class WordPlaces(WrittenOutput):
    """Where a model looked for each word of a caption."""

    name: ClassVar = "caption"
    image: str
    """The name of the image."""
    caption: str
    pixels: Pixels
    """(height, width, 1 or 3): the image to draw them on, in any size."""
    words: list[str]
    weights: Array
    """(W, rows, columns), each grid sums to one and covers the whole image."""
    heads: Array | None = None
    """(layers, heads, W, rows, columns)"""

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or len(self.weights) != len(self.words):
            raise ValueError(
                f"weights are {self.weights.shape}, but {len(self.words)} words need as many grids"
            )
        if not np.allclose(self.weights.sum(axis=(1, 2)), 1, atol=1e-3):  # NaN fails too
            raise ValueError("the weights of each word must sum to one")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.weights.shape[1], self.weights.shape[2]

    def peaks(self) -> list[tuple[int, int]]:
        """The row and the column that each word looked at most."""
        return [divmod(int(each.argmax()), self.grid[1]) for each in self.weights]

    def as_json(self) -> dict[str, Any]:
        return {
            "image": self.image,
            "captions": [{"text": self.caption, "score": self.score}],
            "words": list(self.words),
            "grid": list(self.grid),
            "attention": self.weights.tolist(),
        }

    def text(self) -> str:
        """One line for each word: where it looked most, and its share there."""
        rows, columns = self.grid
        shown = [repr(word) for word in self.words]
        longest = max(map(len, shown), default=0)
        lines = [self.caption]
        for word, weights, (row, column) in zip(shown, self.weights, self.peaks(), strict=True):
            place = f"row {row + 1} of {rows}, column {column + 1} of {columns}"
            lines.append(f"{word:<{longest}}  →  {place}  {weights[row, column]:6.1%}")
        return "\n".join(lines)


def in_words(found: WordPlaces, starts: Sequence[bool]) -> WordPlaces:
    """The same for whole words, where `words` are tokens; the starts are True for tokens that begin
    a word. A word looks where its tokens look on average."""
    first = first_tokens(starts, len(found.words))
    sizes = np.diff([*first, len(found.words)])[:, None, None]

    def merged(weights: Array) -> Array:
        mean: Array = np.add.reduceat(weights, first, axis=-3) / sizes
        return mean  # (…, W, rows, columns)

    return replace(
        found,
        words=spelled(found.words, first),
        weights=merged(found.weights),
        heads=None if found.heads is None else merged(found.heads),
    )
