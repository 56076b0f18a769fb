"""Images that a model painted, for pictures and programs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.wording import counted

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Completed:
    """An image, and what the model painted below its upper rows."""

    name: str
    original: Pixels
    """(H, W, C) in the model's size and colours."""
    num_rows: int
    """How many rows were given."""
    paintings: list[Pixels]
    """(H, W, C) each: the given rows, and what was painted."""

    @property
    def given(self) -> Pixels:
        """The original without the rows that were to be painted: they are grey."""
        kept = self.original.copy()
        kept[self.num_rows :] = 128
        return kept

    def as_json(self) -> dict[str, Any]:
        return {
            "image": self.name,
            "num_rows": self.num_rows,
            "original": self.original.tolist(),
            "completions": [each.tolist() for each in self.paintings],
        }


@dataclass(frozen=True)
class Paintings:
    """New images, or completed ones."""

    images: list[Pixels]
    """(H, W, C) each; empty if images were completed."""
    completed: list[Completed]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[str, list[Pixels]]]:
        """For a picture of completions: a name, the original, what was given, the paintings."""
        return [
            (each.name, [each.original, each.given, *each.paintings]) for each in self.completed
        ]

    def as_json(self) -> dict[str, Any]:
        if self.completed:
            return {"completed": [each.as_json() for each in self.completed]}
        return {"images": [each.tolist() for each in self.images]}

    def text(self) -> str:
        if self.completed:
            each = len(self.completed[0].paintings)
            return f"{counted(len(self.completed), 'image')}, {counted(each, 'completion')} each"
        return counted(len(self.images), "image")
