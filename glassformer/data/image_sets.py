"""Images, with labels, with captions or with neither: read, resized into one file, and split; and
the part of them that a run reads.

    images/cat/7.png  →  ImageExample(7, ("cat",), "images/cat/7.png")  →  …

    image,caption
    1.jpg,A dog runs.            →  one image with the captions A dog runs. · A brown dog.
    1.jpg,A brown dog.

All captions of an image, in any number of rows, belong together. Two images are the same if their
decoded pixels are: such images stay on one side of the split.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from glassformer.data.image_files import FoundImage, ImageFinder, ImagesConfig, Role, find_images
from glassformer.data.image_store import IMAGES, ImageStore, ImageStoreWriter, Stored, headers
from glassformer.data.images import Pixels, Size
from glassformer.data.rows import Array, JsonLines, write_jsonl
from glassformer.data.split import (
    USUAL,
    Items,
    LabelledSplit,
    bytes_key,
    check_kinds,
    split_labelled,
)
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError
from glassformer.wording import cause

# --- images that were read ---

Sizes = npt.NDArray[np.int64]
ChooseSize = Callable[[Sizes], Size]
"""Chooses the size to which all images are resized, by their (N, 2) heights and widths."""
MOST_BY_DEFAULT = 64  # pixels of a side: what a CPU can train on


@dataclass(frozen=True, slots=True)
class ImageExample:
    """An image in a store, its labels or captions, and where it was read."""

    number: int
    labels: tuple[str, ...]
    source: str
    content: bytes
    """A hash of its pixels, before they were resized."""
    store: ImageStore
    captions: tuple[str, ...] = ()

    @property
    def input(self) -> Pixels:
        """(H, W, C)"""
        return self.store[self.number]

    def key(self, seed: int) -> int:
        return bytes_key(self.content, seed)


@dataclass(frozen=True)
class SplitImages:
    """The split, and the images that its examples refer to by number."""

    split: LabelledSplit[ImageExample]
    store: ImageStore
    role: Role | None

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns of a table, as preprocessing remembers them."""
        image = self.split.text_column[0] if self.split.text_column else None
        return {"image_column": image, f"{self.role or 'label'}_column": self.split.label_column}


def numbers_of(images: Sequence[ImageExample]) -> npt.NDArray[np.int64]:
    """The numbers of the images in the store."""
    return np.array([image.number for image in images], dtype=np.int64)


def median_size(multiple: int = 1, most: int = MOST_BY_DEFAULT) -> ChooseSize:
    """A square with the median of the shorter sides, rounded to a multiple."""

    def choose(sizes: Sizes) -> Size:
        side = min(float(np.median(sizes.min(axis=1))), most)
        whole = max(multiple, round(side / multiple) * multiple)
        return whole, whole

    return choose


def read_split_images(
    config: ImagesConfig, seed: int, folder: Path, choose: ChooseSize, role: Role | None = "label"
) -> SplitImages:
    """All images, resized, in a store in `folder`, split as the config says. `choose` decides their
    size if the config does not. The role is what belongs to each image, if anything does."""
    finder, parts = find_images(config, role)
    with collecting() as happened:
        stored = store_parts(config, parts, folder, choose)
        store = ImageStore(folder / IMAGES)
        items = [
            _items(paths, images, seed, store)
            for paths, images in zip(config.parts, stored, strict=True)
        ]
    training, validation, test = items
    if role == "label":
        check_kinds(training)
    split = split_labelled(training, validation, test, config.validation_fraction or USUAL)
    columns = finder.columns or (None, None)
    split = replace(
        split,
        text_column=(columns[0],) if columns[0] else (),
        label_column=columns[1],
        columns=[f"columns: {finder.words}"] if finder.words else [],
        notes=[*happened.notes(), *split.notes],
    )
    return SplitImages(split, store, role)


def store_parts(
    config: ImagesConfig,
    parts: Sequence[Callable[[], Iterable[FoundImage]]],
    folder: Path,
    choose: ChooseSize,
) -> list[list[Stored]]:
    """Write the images of all parts into one store in `folder`; the first part decides the size
    and the number of channels that the config leaves open."""
    size, channels = config.image_size, config.num_channels
    if size is None or channels is None:
        sizes, numbers = headers(parts[0]())
        size = size or choose(sizes)
        channels = channels or (1 if (numbers == 1).all() else 3)
    with ImageStoreWriter(folder / IMAGES, size, channels) as writer:
        return [list(writer.add(find(), config.strict)) for find in parts]


def read_images(
    paths: Sequence[str],
    folder: Path,
    size: Size,
    channels: int,
    role: Role | None = None,
    image_column: str | None = None,
    other_column: str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[ImageExample], list[str]]:
    """The images of files, resized into a store in `folder`, and notes on what was left out."""
    finder = ImageFinder(role, image_column, other_column, encoding)
    with collecting() as happened, ImageStoreWriter(folder / IMAGES, size, channels) as writer:
        stored = list(writer.add(finder.find(paths)))
    if not stored:
        raise GlassformerError(f"{', '.join(paths)} contains no images.")
    store = ImageStore(folder / IMAGES)
    return [_example(image, store) for image in stored], happened.notes()


def _items(
    paths: Sequence[str], images: Sequence[Stored], seed: int, store: ImageStore
) -> Items[Any]:
    items: Items[ImageExample] = Items(paths, "image", seed)
    items.extend(_example(image, store) for image in images)
    if paths and not images:
        raise GlassformerError(f"{', '.join(paths)} contains no images.")
    return items


def _example(stored: Stored, store: ImageStore) -> ImageExample:
    image = stored.image
    captions = tuple(image.captions)
    return ImageExample(stored.number, image.labels, image.source, stored.digest, store, captions)


def write_image_list(path: Path, images: Iterable[ImageExample]) -> None:
    """Write a line of JSON about each image in the store of a run: a training that continues after
    the files have changed is evaluated on the data that it began with."""
    columns = ("number", "captions", "source")
    write_jsonl(path, ({name: getattr(image, name) for name in columns} for image in images))


def read_image_list(path: Path, store: ImageStore) -> list[ImageExample]:
    """What `write_image_list` wrote, about images in `store`."""
    return [
        ImageExample(row["number"], (), row["source"], b"", store, tuple(row["captions"]))
        for row in JsonLines(path)
    ]


# --- the labelled images of a run ---


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
        """The images of these rows: (B, H, W, C)."""
        return self.store[self.numbers[np.asarray(rows)]]

    def source(self, row: int) -> str:
        """The file, or the table and line, that an image was read from."""
        return self.store.sources[int(self.numbers[row])]

    def goals(self, rows: Array | Sequence[int]) -> Tensor:
        return torch.from_numpy(self.targets[np.asarray(rows)].astype(np.int64))
