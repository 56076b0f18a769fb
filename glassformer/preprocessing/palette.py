"""Images as colours of a palette, which was learned from the training images by k-means.

    pixels (H, W, C)  →  the number of the nearest colour of each pixel, row by row (H·W,)

What is lost is the difference between a colour and the nearest one of the palette.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from glassformer.data.image_store import ImageStore
from glassformer.data.images import Pixels
from glassformer.data.rows import Array
from glassformer.preprocessing.image import ImageInput, ImageInputs
from glassformer.text.word_cache import id_type

MOST_COLORS = 2**16 - 1
SAMPLE = 2**18  # pixels from which a palette is learned
_AT_ONCE = 2**16  # pixels whose distances to all colours are in memory

# Those of palettes that are learned here are whole; those of other tools need not be.
Value = Annotated[int | float, Field(ge=0, le=255)]


class PalettePreprocessing(ImageInputs):
    """The size of images, and the colours that they are painted with."""

    kind: ClassVar[str] = "palette"
    unit: ClassVar[str] = "pixel"

    palette: tuple[tuple[Value, ...], ...] = Field(min_length=1, max_length=MOST_COLORS)
    """The colours, from dark to bright: red, green and blue, or one grey each."""

    @model_validator(mode="after")
    def _colors_differ(self) -> Self:
        if any(len(color) != self.num_channels for color in self.palette):
            raise ValueError(f"each colour of the palette needs {self.num_channels} values")
        if len({*self.palette}) < len(self.palette):
            raise ValueError("a colour of the palette is given twice")
        return self

    @classmethod
    def of(cls, store: ImageStore, numbers: Array, num_colors: int, seed: int, **more: Any) -> Self:
        """The preprocessing with a palette of the training images, those with these numbers."""
        palette = learn_palette(sample_pixels(store, numbers, seed), num_colors, seed)
        return cls(
            image_size=store.size,
            num_channels=store.num_channels,
            palette=tuple(tuple(color) for color in palette.tolist()),
            **more,
        )

    @property
    def sizes(self) -> dict[str, Any]:
        return {"image_size": self.image_size, "num_colors": len(self.palette)}

    @property
    def num_pixels(self) -> int:
        height, width = self.image_size
        return height * width

    @property
    def start(self) -> int:
        """The token before the first pixel."""
        return len(self.palette)

    @property
    def dtype(self) -> str:
        return id_type(len(self.palette) + 1).str

    @cached_property
    def shades(self) -> Pixels:
        """(K, C) The colours as they are shown."""
        return np.rint(np.array(self.palette)).astype(np.uint8)

    def ids(self, images: Pixels) -> Array:
        """uint8 (B, H, W, C) → numbers of colours (B, H·W), row by row."""
        colors = np.array(self.palette)
        nearest = nearest_colors(images.reshape(-1, self.num_channels), colors)
        return nearest.astype(self.dtype).reshape(len(images), -1)

    def pixels(self, ids: npt.ArrayLike) -> Pixels:
        """Numbers of colours (B, H·W) → uint8 (B, H, W, C)."""
        numbers = np.asarray(ids)
        return self.shades[numbers].reshape(len(numbers), *self.image_size, self.num_channels)

    def encode(self, contents: Sequence[ImageInput]) -> list[Any]:
        """The colours of each image, row by row: (H·W,)."""
        resized = super().encode(contents)
        return list(self.ids(np.stack(resized))) if resized else []

    def summary(self) -> dict[str, str]:
        return super().summary() | {"palette": f"{len(self.palette):,} colours"}

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"num_colors": len(self.palette)}


def sample_pixels(store: ImageStore, numbers: Array, seed: int) -> Pixels:
    """(N, C) random pixels, about equally many of each image; all if there are few."""
    height, width = store.size
    per_image = height * width
    if len(numbers) * per_image <= SAMPLE:
        return store[np.sort(numbers)].reshape(-1, store.num_channels)
    random = np.random.default_rng(seed)
    few = np.sort(random.permutation(numbers)[:SAMPLE])  # enough for one pixel of each
    each = -(-SAMPLE // len(few))
    places = random.integers(0, per_image, (len(few), each))
    found = [
        store[int(number)].reshape(-1, store.num_channels)[own]
        for number, own in zip(few, places, strict=True)
    ]
    return np.concatenate(found)


def learn_palette(pixels: Pixels, num_colors: int, seed: int) -> Pixels:
    """(K, C) colours from dark to bright that pixels (N, C) are near to. If there are not more
    colours than asked for, they are the palette: then nothing is lost."""
    colors, counts = np.unique(pixels, axis=0, return_counts=True)
    if len(colors) > num_colors:
        colors = _clustered(colors, counts, num_colors, seed)
    brightness = colors.astype(np.int64).sum(axis=1)
    return colors[np.lexsort((*colors.T, brightness))]


def _clustered(colors: Pixels, counts: Array, num_colors: int, seed: int) -> Pixels:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    is_small = len(colors) * num_colors < 2**22
    kind: Any = KMeans if is_small else MiniBatchKMeans
    options = {"n_init": 4} if is_small else {"n_init": 1, "batch_size": 2**14, "max_iter": 60}
    means = kind(num_colors, random_state=seed, **options).fit(
        colors.astype(np.float32), sample_weight=counts
    )
    rounded = np.rint(means.cluster_centers_).clip(0, 255).astype(np.uint8)
    return np.unique(rounded, axis=0)  # two means may be rounded to the same colour


def nearest_colors(pixels: Pixels, colors: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """(N,) the colour (of K, C) that each pixel (of N, C) is nearest to; the first of several."""
    found = np.empty(len(pixels), dtype=np.int64)
    # Squares of 8-bit values are exact in float32; colours between them may be close to each other.
    kind: Any = np.float64 if np.issubdtype(colors.dtype, np.floating) else np.float32
    palette = colors.astype(kind)
    squares = (palette**2).sum(axis=1)
    for first in range(0, len(pixels), _AT_ONCE):
        some = pixels[first : first + _AT_ONCE].astype(kind)
        # |p - c|² without |p|², which is the same for all colours
        found[first : first + len(some)] = (squares - 2 * some @ palette.T).argmin(axis=1)
    return found
