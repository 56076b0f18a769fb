"""Images with captions: read, resized into one file, and split by image.

    image,caption
    1.jpg,A dog runs.            →  CaptionedImage(0, ("A dog runs.", "A brown dog."), …)
    1.jpg,A brown dog.

All captions of an image, in any number of rows, belong together. Equal pixels under two names are
one side of the split.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.content import bytes_key
from glassformer.data.image_files import (
    FoundImage,
    ImageFinder,
    ImagesConfig,
)
from glassformer.data.image_store import IMAGES, ImageStore, ImageStoreWriter, Stored
from glassformer.data.images import Pixels, Size
from glassformer.data.labelled_images import ChooseSize, store_parts
from glassformer.data.reading_report import collecting
from glassformer.data.split import USUAL, Items, split_labelled
from glassformer.errors import GlassformerError


class CaptionsConfig(ImagesConfig):
    """Which images with captions to train on."""

    caption_column: str | None = None
    """The column of the captions (null: detected by name)."""


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image in a store, all of its captions, and where it was read."""

    number: int
    captions: tuple[str, ...]
    source: str
    content: bytes
    """A hash of its pixels, before they were resized."""
    store: ImageStore

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    def key(self, seed: int) -> int:
        return bytes_key(self.content, seed)

    @property
    def input(self) -> Pixels:
        """(H, W, C)"""
        return self.store[self.number]


@dataclass(frozen=True)
class CaptionSplit:
    """Captioned images: disjoint training and validation parts, and test data."""

    training: Sequence[CaptionedImage]
    validation: Sequence[CaptionedImage]
    test: Sequence[CaptionedImage]
    held_out: str
    """What was held out for validation, in words."""
    notes: list[str]
    store: ImageStore
    image_column: str | None = None
    caption_column: str | None = None
    columns: tuple[str, ...] = ()
    """How the columns of tables are used, in words."""


def read_captioned_images(
    config: CaptionsConfig, seed: int, folder: Path, choose: ChooseSize
) -> CaptionSplit:
    """All images, resized, in a store in `folder`, with their captions, split as the config says.
    `choose` decides their size if the config does not."""
    finder = ImageFinder("caption", config.image_column, config.caption_column, config.encoding)
    captions: list[dict[str, list[str]]] = [{}, {}, {}]

    def finding(part: int) -> Callable[[], Iterable[FoundImage]]:
        return lambda: _each_once(finder, config.parts[part], captions[part])

    with collecting() as happened:
        stored = store_parts(config, [finding(part) for part in range(3)], folder, choose)
    store = ImageStore(folder / IMAGES)
    items: list[Items[CaptionedImage]] = []
    for paths, images, said in zip(config.parts, stored, captions, strict=True):
        items.append(Items(paths, "image", seed))
        items[-1].extend(_captioned(each, said, store) for each in images)
    training, validation, test = items
    split = split_labelled(training, validation, test, config.validation_fraction or USUAL)
    image, caption = finder.columns or (None, None)
    return CaptionSplit(
        split.training,
        split.validation,
        split.test,
        split.held_out,
        [*happened.notes(), *split.notes],
        store,
        image,
        caption,
        (f"columns: {finder.words}",) if finder.words else (),
    )


def read_captions(
    paths: Sequence[str],
    folder: Path,
    size: Size,
    channels: int,
    image_column: str | None = None,
    caption_column: str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[CaptionedImage], list[str]]:
    """The captioned images of files, resized into a store in `folder`, and notes on what was left
    out."""
    finder = ImageFinder("caption", image_column, caption_column, encoding)
    said: dict[str, list[str]] = {}
    with collecting() as happened, ImageStoreWriter(folder / IMAGES, size, channels) as writer:
        stored = list(writer.add(_each_once(finder, paths, said)))
    if not stored:
        raise GlassformerError(f"{', '.join(paths)} contains no images.")
    store = ImageStore(folder / IMAGES)
    return [_captioned(each, said, store) for each in stored], happened.notes()


def _each_once(
    finder: ImageFinder, paths: Sequence[str], captions: dict[str, list[str]]
) -> Iterator[FoundImage]:
    """Each image once, when its first caption is read; the captions go into the dictionary."""
    captions.clear()
    for found in finder.find(paths) if paths else ():
        known = captions.setdefault(found.identity, [])
        if found.caption not in known:
            known.append(found.caption)
        if len(known) == 1:
            yield found


def _captioned(image: Stored, captions: dict[str, list[str]], store: ImageStore) -> CaptionedImage:
    found = image.found
    said = tuple(captions[found.identity])
    return CaptionedImage(image.number, said, found.source, image.digest, store)


def keep_images(path: Path, images: Iterable[CaptionedImage]) -> None:
    """Write a line of JSON about each image in the store of a run: a training that continues after
    the files have changed is evaluated on the data that it began with."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for each in images:
            row = {"number": each.number, "captions": each.captions, "source": each.source}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def kept_images(path: Path, store: ImageStore) -> list[CaptionedImage]:
    """What `keep_images` wrote, about images in `store`."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line)
    return [
        CaptionedImage(row["number"], tuple(row["captions"]), row["source"], b"", store)
        for row in rows
    ]
