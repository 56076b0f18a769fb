"""Where a model looked for an answer, or for each word that it wrote."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from glassformer.inspection.inspection import Inspection

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Looking:
    """Attention to an input, and whose it is."""

    weights: NDArray[np.floating[Any]]
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
    """What kind of output it is."""
    weights: Array
    score: float | None = None
    """The log-probability of the output, by its length."""
    is_cut_off: bool = False
    """The output reached the maximum length before its end."""
    heads: Array | None = None
    """(layers, heads, …): the weights of each head, if they are known."""

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
