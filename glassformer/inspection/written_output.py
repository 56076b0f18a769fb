"""What a model wrote, and whose attention is shown beside it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WrittenOutput:
    """An output with the attention of each of its words."""

    name: ClassVar[str]
    """What kind of output it is."""
    weights: Array
    """The attention of each word; its shares sum to one."""
    score: float | None = None
    """The log-probability of the output, by its length."""
    is_cut_off: bool = False
    """The output reached the maximum length before its end."""
    heads: Array | None = None
    """(layers, heads, …): the weights of each head, if they are known."""
    chosen: tuple[int | None, int | None] = (None, None)
    """The layer and the head of `weights`; None: the mean of all."""
    model: str | None = None
    """The name of the model that wrote it."""

    @property
    def notes(self) -> tuple[str, ...]:
        cut_off = f"the {self.name} reached the maximum length and was cut off."
        return (cut_off,) if self.is_cut_off else ()

    def about(self) -> str:
        """The model, its score, and whose attention it is."""
        score = None if self.score is None else f"score {self.score:.3f}"
        known = (None, None) if self.heads is None else self.heads.shape[:2]
        parts = [self.model, score, *whose_attention(self.chosen, *known)]
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
