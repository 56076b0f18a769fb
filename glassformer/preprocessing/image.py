"""Images: resized to one size, and each channel scaled to mean 0 and standard deviation 1."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.config import ImageSize
from glassformer.data.image_store import ImageStore
from glassformer.data.images import Decoded, Pixels, read_image, resized, with_channels
from glassformer.data.labelled_images import ImageExample, read_images
from glassformer.data.reading_report import report
from glassformer.data.rows import Array
from glassformer.data.text_files import local_path, missing
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing.labelled import LabelledExample, LabelledInputs

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
        """In a file without a name, so that it is gone when the process ends."""
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
