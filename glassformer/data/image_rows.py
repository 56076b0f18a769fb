"""Labelled images of a run: numbers of images in a store, and what they are labelled with."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from glassformer.data.image_store import ImageStore
from glassformer.data.images import Pixels
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError
from glassformer.wording import cause


class ImageBatch(NamedTuple):
    """Images and their targets. In training, images are normalised already."""

    pixels: Tensor
    """(B, C, H, W)"""
    targets: Tensor
    """(B,) numbers of labels; of mixed images, (B, number of labels): their shares."""


class ImageRows:
    """A part of the images of a store, in order, each with a target."""

    def __init__(self, store: ImageStore, numbers: Array, targets: Array) -> None:
        self.store = store
        self.numbers = numbers
        self.targets = targets

    @classmethod
    def load(cls, path: Path, store: ImageStore) -> "ImageRows":
        try:
            columns = load_file(path)
            return cls(store, columns["numbers"], columns["targets"])
        except (OSError, KeyError, SafetensorError) as error:
            raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None

    def save(self, path: Path) -> None:
        save_file({"numbers": self.numbers, "targets": self.targets}, path)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def num_pixels(self) -> int:
        height, width = self.store.size
        return len(self) * height * width

    def images(self, rows: Array | Sequence[int]) -> Pixels:
        """The images with these places: (B, H, W, C)."""
        return self.store[self.numbers[np.asarray(rows)]]

    def source(self, row: int) -> str:
        """Where an image was read."""
        return self.store.sources[int(self.numbers[row])]

    def goals(self, rows: Array | Sequence[int]) -> Tensor:
        return torch.from_numpy(self.targets[np.asarray(rows)].astype(np.int64))
