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
        layer, head = self.chosen
        parts = [
            self.model,
            None if self.score is None else f"score {self.score:.3f}",
            "mean of all layers" if layer is None else f"layer {layer}",
            "mean of all heads" if head is None else f"head {head}",
        ]
        return ", ".join(part for part in parts if part)
