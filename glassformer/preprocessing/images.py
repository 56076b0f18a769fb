"""Images as what a model reads: all of one size, and then

    image     pixels (C, H, W), each channel scaled to mean 0 and standard deviation 1
    palette   numbers of colours (H·W,), row by row
    caption   pixels, and the tokens of a caption: <start> a dog runs across the grass <end>

Scales and colours are those of the training images.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.config import Count, ImageSize
from glassformer.data.archives import local_path
from glassformer.data.image_sets import ImageExample, read_images
from glassformer.data.image_store import ImageStore
from glassformer.data.images import Decoded, Pixels, read_image, resized, with_channels
from glassformer.data.rows import Array
from glassformer.data.text_files import missing, report
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing import LabelledExample, LabelledInputs, Preprocessing
from glassformer.text.tokenizers import START, Tokenizer, encode_texts
from glassformer.text.word_cache import id_type

Deviation = Annotated[float, Field(gt=0, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
ImageInput = str | os.PathLike[str] | Array
"""A path, or pixels (H, W) or (H, W, C), uint8."""
_AT_ONCE = 1024  # images whose pixels are summed together


class ImageInputs(LabelledInputs):
    """What all kinds of preprocessing of images share: their size, and how they are read."""

    unit: ClassVar[str] = "image"
    reads_files: ClassVar[bool] = True
    input_name: ClassVar[str] = "image"
    what_is_kept: ClassVar[str] = "the whole image is read"

    image_size: ImageSize
    """Height and width to which every image is resized."""
    num_channels: Literal[1, 3]
    """1: greyscale, 3: red, green and blue."""
    image_column: str | None = None
    """The column of the training data that held the images."""

    @property
    def sizes(self) -> dict[str, Any]:
        return {"image_size": self.image_size, "num_channels": self.num_channels}

    @property
    def dtype(self) -> str:
        return "|u1"

    def original(self, content: ImageInput) -> Decoded:
        """An image in its own size, with the model's number of channels."""
        if isinstance(content, str | os.PathLike):
            path = local_path(os.fspath(content))
            if path.is_dir():
                raise GlassformerError(f"{path} is a folder. Pass the image files in it.")
            if not path.is_file():
                raise missing(path, "Pass the path of an image.")
            return read_image(path, self.num_channels)
        pixels = np.asarray(content)
        pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels  # (H, W, C)
        is_image = pixels.ndim == 3 and pixels.shape[2] in (1, 3) and pixels.size
        if not is_image or pixels.dtype != np.uint8:
            raise GlassformerError(
                f"an array of shape {pixels.shape} and type {pixels.dtype} is not an image. Pass "
                "uint8 of shape (H, W), (H, W, 1) or (H, W, 3)."
            )
        return with_channels(pixels, self.num_channels)

    def encode(self, contents: Sequence[ImageInput]) -> list[Any]:
        """The pixels of each image, resized: (H, W, C)."""
        return [resized(self.original(content).pixels, self.image_size) for content in contents]

    def rows(self, encoded: Sequence[Any], limit: int | None) -> tuple[list[Any], list[bool]]:
        return list(encoded), [False] * len(encoded)

    def cut(self, row: Any, limit: int) -> Any:
        return row

    def is_one(self, content: Any) -> bool:
        return isinstance(content, str | os.PathLike) or (
            isinstance(content, np.ndarray) and content.ndim < 4
        )

    def shown(self, content: Any) -> str:
        if isinstance(content, str | os.PathLike):
            return os.fspath(content)
        height, width = np.asarray(content).shape[:2]
        return f"{height}×{width} image"

    def trial(self, row: Any) -> tuple[str, ...]:
        return ("IMAGE",)

    def read_labelled(
        self,
        paths: Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> tuple[Sequence[LabelledExample], list[str]]:
        if len(text_column) > 1:
            raise UsageError("images are read from one column. Pass one --image-column.")
        column = text_column[0] if text_column else self.image_column
        return self._read(
            paths,
            role="label",
            image_column=column,
            other_column=label_column or self.label_column,
            encoding=encoding,
        )

    def read_inputs(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> Iterator[tuple[Pixels, str]]:
        column = text_column[0] if text_column else self.image_column
        examples, notes = self.read_unlabelled(paths, column, encoding)
        for note in notes:
            report().remark(note)
        for example in examples:
            yield example.input, example.source

    def read_unlabelled(
        self, paths: Sequence[str], image_column: str | None, encoding: str
    ) -> tuple[Sequence[ImageExample], list[str]]:
        """The images of files, resized, and notes on what was left out."""
        return self._read(paths, image_column=image_column, encoding=encoding)

    def _read(self, paths: Sequence[str], **options: Any) -> tuple[Sequence[Any], list[str]]:
        """Read images into a store in a folder that is removed at once: it stays mapped."""
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return read_images(paths, Path(folder), self.image_size, self.num_channels, **options)

    def summary(self) -> dict[str, str]:
        height, width = self.image_size
        kind = "greyscale" if self.num_channels == 1 else "colour"
        return {"images": f"{height}×{width}, {kind}"}

    def facts(self) -> dict[str, Any]:
        return {"image_size": list(self.image_size), "num_channels": self.num_channels}


class ImagePreprocessing(ImageInputs):
    """The size of images, and the scale of each channel in the training data."""

    kind: ClassVar[str] = "image"

    image_mean: tuple[Fraction, ...]
    """Mean of each channel, as a fraction of the brightest value."""
    image_std: tuple[Deviation, ...]

    @model_validator(mode="after")
    def _one_scale_per_channel(self) -> Self:
        for name in ("image_mean", "image_std"):
            if len(getattr(self, name)) != self.num_channels:
                raise ValueError(
                    f"{name} has {len(getattr(self, name))} values, but needs one for each of "
                    f"{self.num_channels} channels"
                )
        return self

    @classmethod
    def of(cls, store: ImageStore, numbers: Array, **columns: Any) -> Self:
        """The preprocessing with the scale of the training images, those with these numbers."""
        mean, deviation = channel_scale(store, numbers)
        return cls(
            image_size=store.size,
            num_channels=store.num_channels,
            image_mean=tuple(mean.tolist()),
            image_std=tuple(deviation.tolist()),
            **columns,
        )

    def pixels(self, images: Array) -> Tensor:
        """uint8 (B, H, W, C) → float32 (B, C, H, W), normalised."""
        return self.normalised(unit_range(images))

    def normalised(self, images: Tensor) -> Tensor:
        """float32 (B, C, H, W) from 0 to 1, such as augmented ones → the same, normalised."""
        mean, deviation = torch.tensor((self.image_mean, self.image_std)).view(2, 1, -1, 1, 1)
        return (images - mean) / deviation


def unit_range(images: Array) -> Tensor:
    """uint8 (B, H, W, C) → float32 (B, C, H, W) from 0 to 1."""
    pixels = torch.from_numpy(np.ascontiguousarray(images))  # (B, H, W, C)
    return pixels.permute(0, 3, 1, 2).contiguous().float() / 255  # (B, C, H, W)


def channel_scale(store: ImageStore, numbers: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (C,) of each channel, as fractions of the brightest value."""
    total, squares = np.zeros((2, store.num_channels))
    for first in range(0, len(numbers), _AT_ONCE):
        values = store[np.sort(numbers[first : first + _AT_ONCE])].astype(np.int64)  # (B, H, W, C)
        total += values.sum((0, 1, 2))
        squares += (values**2).sum((0, 1, 2))
    count = len(numbers) * store.size[0] * store.size[1]
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    # Images without any contrast stay as they are.
    return mean / 255, np.where(deviation < 1, 255, deviation) / 255


# --- palette: each pixel becomes the nearest of some colours ---
# The colours were learned from the training images by k-means. What is lost is the difference
# between a colour and the nearest one of the palette.

MOST_COLORS = 2**16 - 1
SAMPLE = 2**18  # pixels from which a palette is learned
_PIXELS_AT_ONCE = 2**16  # pixels whose distances to all colours are in memory

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
    per_sample = -(-SAMPLE // len(few))
    positions = random.integers(0, per_image, (len(few), per_sample))
    pixels = [
        store[int(number)].reshape(-1, store.num_channels)[selected]
        for number, selected in zip(few, positions, strict=True)
    ]
    return np.concatenate(pixels)


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
    nearest = np.empty(len(pixels), dtype=np.int64)
    # Squares of 8-bit values are exact in float32; colours between them may be close to each other.
    kind: Any = np.float64 if np.issubdtype(colors.dtype, np.floating) else np.float32
    palette = colors.astype(kind)
    squares = (palette**2).sum(axis=1)
    for first in range(0, len(pixels), _PIXELS_AT_ONCE):
        some = pixels[first : first + _PIXELS_AT_ONCE].astype(kind)
        # |p - c|² without |p|², which is the same for all colours
        nearest[first : first + len(some)] = (squares - 2 * some @ palette.T).argmin(axis=1)
    return nearest


# --- caption ---


class CaptionPreprocessing(ImagePreprocessing):
    """Images to pixels, captions to tokens and back."""

    kind: ClassVar[str] = "caption"
    forbidden: ClassVar[tuple[int, ...]] = ()
    """Tokens that are never written."""

    tokenizer: Tokenizer = Field(exclude=True)
    caption_column: str | None = None
    """The column of the training data that contained the captions."""
    longest_caption: Count | None = Field(None, ge=1)
    """Tokens of the longest caption in training, with its end. None: unknown, so only the model's
    context limits the length of a caption."""

    @model_validator(mode="after")
    def _has_end(self) -> Self:
        if self.tokenizer.end_of_text is None:
            raise ValueError("the tokenizer of a captioner needs an end-of-text token")
        return self

    @property
    def start(self) -> int:
        """The token that the decoder reads before its first word."""
        return self.tokenizer.special_tokens.get(START, self.end)

    @property
    def end(self) -> int:
        return cast(int, self.tokenizer.end_of_text)  # which has been validated

    @property
    def sizes(self) -> dict[str, Any]:
        return super().sizes | {"vocab_size": self.tokenizer.vocab_size}

    @property
    def id_type(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds every id."""
        return id_type(self.tokenizer.vocab_size)

    def encode_captions(self, texts: Sequence[str]) -> list[list[int]]:
        """Captions as the decoder writes them."""
        return [[self.start, *ids, self.end] for ids in encode_texts(self.tokenizer, texts)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids).strip()

    def longest(self, context: int) -> int:
        """The most tokens of a caption, with its end, by a model with this context."""
        return min(context, self.longest_caption or context)

    def summary(self) -> dict[str, str]:
        return super().summary() | Preprocessing.summary(self)

    def facts(self) -> dict[str, Any]:
        return super().facts() | Preprocessing.facts(self)
