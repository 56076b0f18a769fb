"""Batches of images with their captions.

    images      0       1       2               read once each
    captions    a b c   d       e f             the captions of an image are consecutive rows

An epoch shows every image once. An image with more captions than fit in a batch shows some of them,
and others in the next epochs, until all have had their turn. What a batch contains depends only on
the seed and its number.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.data.image_store import ImageStore
from glassformer.data.images import Pixels
from glassformer.data.padded_batches import Rows, end_to_end
from glassformer.data.rows import Array, stored_rows, write_columns, write_rows


class CaptionBatch(NamedTuple):
    """Images, and captions padded on the right."""

    pixels: Tensor  # (B, C, H, W)
    images: Tensor  # (R,): the image of each caption
    captions: Tensor  # (R, T)
    is_learned: Tensor  # (R, T): neither padding nor an unknown word

    def memory(self, model: Any) -> Any:
        """What a captioner makes of the image of each caption."""
        return model.encode(self.pixels).take(self.images)

    @property
    def decoder_input(self) -> Tensor:
        return self.captions[:, :-1]

    @property
    def decoder_targets(self) -> tuple[Tensor, Tensor]:
        """What each token of the input should be followed by, and where that is to be learned."""
        return self.captions[:, 1:], self.is_learned[:, 1:]


class ChosenImages:
    """Some of the images in a store, by their place among those."""

    def __init__(self, store: ImageStore, numbers: Array) -> None:
        self.store, self.numbers = store, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, places: Any) -> Pixels:
        """uint8 (B, H, W, C)"""
        return self.store[self.numbers[places]]


class CaptionRows:
    """The captions of images, as rows of tokens. Those of an image are consecutive."""

    def __init__(self, rows: Rows, counts: Array, numbers: Array) -> None:
        """`counts` is the number of captions of each image, `numbers` its number in a store."""
        if counts.sum() != len(rows):
            raise ValueError("the captions and their counts do not match")
        self.rows = rows
        self.counts = counts
        self.numbers = numbers
        self.firsts = np.cumsum(counts) - counts

    @classmethod
    def of(
        cls,
        captions: Sequence[Sequence[Sequence[int]]],
        numbers: Sequence[int],
        dtype: npt.DTypeLike,
    ) -> "CaptionRows":
        """From the captions of each image, and its number in a store."""
        rows = [row for each in captions for row in each]
        counts = np.array([len(each) for each in captions], dtype=np.int64)
        return cls(Rows(*end_to_end(rows, dtype)), counts, np.array(numbers, dtype=np.int64))

    @classmethod
    def load(cls, path: Path) -> "CaptionRows":
        with stored_rows(path, "captions") as (items, columns):
            return cls(Rows(items, columns["lengths"]), columns["counts"], columns["numbers"])

    def save(self, path: Path) -> None:
        write_rows(path, [self.rows.items], self.rows.items.dtype)
        columns = {"lengths": self.rows.lengths, "counts": self.counts, "numbers": self.numbers}
        write_columns(path, self.rows.items.dtype, None, **columns)

    def __len__(self) -> int:
        return len(self.counts)

    def rows_of(self, images: Array) -> tuple[Array, Array]:
        """The rows of all captions of these images, and the place of its image for each row."""
        counts = self.counts[images]
        places = np.repeat(np.arange(len(images)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.firsts[images][places] + within, places

    def padded(self, numbers: Array, unknown: int | None) -> tuple[Tensor, Tensor]:
        """Rows padded to the longest, and where a token can be learned: (R, T) each."""
        ids, is_text, _ = self.rows.padded(numbers)
        if unknown is not None:
            is_text = is_text & (ids != unknown)
        return torch.from_numpy(ids), torch.from_numpy(is_text)


class CaptionTurns:
    """Which images come when, and which of their captions come with them, at most `most`."""

    def __init__(self, captions: CaptionRows, most: int, seed: int) -> None:
        self.captions, self.most, self.seed = captions, most, seed
        self._images = lru_cache(maxsize=2)(self._shuffled_images)  # a batch may be in two epochs
        self._turns = lru_cache(maxsize=4096)(self._shuffled_captions)

    def images(self, numbers: range) -> Array:
        """The images with these numbers, counted from the start of training."""
        total = len(self.captions)
        return np.array([self._images(n // total)[n % total] for n in numbers])

    def rows(self, numbers: range) -> tuple[Array, Array]:
        """The captions that come with `images(numbers)`, and the place of its image for each."""
        rows, places = list[int](), list[int]()
        for place, (number, image) in enumerate(zip(numbers, self.images(numbers), strict=True)):
            chosen = self._chosen(int(image), number // len(self.captions))
            rows += chosen
            places += [place] * len(chosen)
        return np.array(rows), np.array(places)

    def _chosen(self, image: int, epoch: int) -> list[int]:
        first, count = int(self.captions.firsts[image]), int(self.captions.counts[image])
        if count <= self.most:
            return [*range(first, first + count)]
        turns = range(epoch * self.most, (epoch + 1) * self.most)
        return [first + int(self._turns(image, turn // count)[turn % count]) for turn in turns]

    def _shuffled_images(self, epoch: int) -> Array:
        return np.random.default_rng((self.seed, epoch)).permutation(len(self.captions))

    def _shuffled_captions(self, image: int, round: int) -> Array:
        """In each round, all captions of an image have their turn."""
        count = int(self.captions.counts[image])
        return np.random.default_rng((self.seed, image, round)).permutation(count)
