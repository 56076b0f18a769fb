"""Where a model looked in an image, for pictures and programs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.inspection.written_output import Looking, whose_attention

Array = npt.NDArray[np.floating[Any]]
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageAttention(Looking):
    """A grid of weights over an image."""

    view: str
    """The kind of weights: attention or rollout."""
    image: str
    """The name of the image."""
    pixels: Pixels
    """(H, W, C): the image in its own size."""
    weights: Array
    """(rows, columns), all of which sum to one."""
    label: str
    """The label that the model gave it."""
    score: float
    """The probability of that label."""
    heads: list[Array] | None = None
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
