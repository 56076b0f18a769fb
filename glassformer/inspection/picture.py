"""An image whose places are the tokens of a model: patches, or single pixels.

class  0   1   2      tokens before the places (`num_extra`), then the places in raster order
       3   4   5
"""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from torch import Tensor

from glassformer.nn.patches import Grid


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as a page shows it, and how its places and tokens belong together."""

    name: str
    """What the user calls it: the name of a file."""
    size: tuple[int, int]
    """Height and width of the original."""
    image: str
    """The original in its own aspect ratio, as a data URI of bounded size."""
    seen: str
    """What the model read: resized, in its colours."""
    seen_size: tuple[int, int]
    grid: Grid
    """The places cover the image evenly, in both."""
    num_extra: int = 0
    """Tokens before the first place: a class token, or the start token of a painter."""
    unit: Literal["patch", "pixel"] = "patch"
    positions: Tensor | None = None
    """(T, D) what is added to each token to say where it is, if anything is."""
    has_learned_positions: bool = False
    """They are trained, not fixed waves."""
    reads_around: bool = False
    """Convolutions compute the vector of a patch, also from the pixels around it."""

    @property
    def num_places(self) -> int:
        rows, columns = self.grid
        return rows * columns

    @property
    def title(self) -> str:
        """The name without its folders."""
        return PurePath(self.name).name or self.name

    def names(self, extra: str) -> list[str]:
        """The names of all tokens; `extra` is that of those before the places."""
        places = [f"{self.unit} {number}" for number in range(self.num_places)]
        return [extra] * self.num_extra + places

    def as_json(self) -> dict[str, Any]:
        return {"size": list(self.size), "grid": list(self.grid)}
