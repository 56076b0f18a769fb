"""Images without labels: read, resized into one file, and split at random.

Images with equal pixels stay on one side of the split.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from glassformer.data.content import bytes_key
from glassformer.data.holding_out import USUAL, Groups, Mask, held_out
from glassformer.data.image_files import ImagesConfig, find_images
from glassformer.data.image_store import IMAGES, ImageStore, Stored
from glassformer.data.labelled_images import ChooseSize, store_parts
from glassformer.data.reading_report import collecting
from glassformer.errors import GlassformerError
from glassformer.wording import counted

Numbers = npt.NDArray[np.int64]


class HasDigest(Protocol):
    """An image of which a hash of its pixels is known."""

    @property
    def digest(self) -> bytes: ...


ImageT = TypeVar("ImageT", bound=HasDigest)


@dataclass(frozen=True)
class ImageSplit:
    """Disjoint training and validation parts, and test data: numbers of images in a store."""

    training: Numbers
    validation: Numbers
    test: Numbers
    held_out: str
    """What was held out for validation, in words."""
    notes: list[str]
    store: ImageStore
    image_column: str | None = None
    columns: tuple[str, ...] = ()
    """How the columns of tables are used, in words."""


def read_image_split(
    config: ImagesConfig, seed: int, folder: Path, choose: ChooseSize
) -> ImageSplit:
    """All images, resized, in a store in `folder`, split as the config says. `choose` decides their
    size if the config does not."""
    finder, parts = find_images(config)
    with collecting() as happened:
        training, validation, test = store_parts(config, parts, folder, choose)
    learned, held_out_images, held, leaked = hold_out(config, seed, training, validation, test)
    return ImageSplit(
        training=_numbers(learned),
        validation=_numbers(held_out_images),
        test=_numbers(test),
        held_out=held,
        notes=[*happened.notes(), *leaked],
        store=ImageStore(folder / IMAGES),
        image_column=finder.columns[0] if finder.columns else None,
        columns=(f"columns: {finder.words}",) if finder.words else (),
    )


def _numbers(images: Sequence[Stored]) -> Numbers:
    return np.array([each.number for each in images], dtype=np.int64)


def hold_out(
    config: ImagesConfig,
    seed: int,
    training: Sequence[ImageT],
    validation: Sequence[ImageT],
    test: Sequence[ImageT],
) -> tuple[Sequence[ImageT], Sequence[ImageT], str, list[str]]:
    """The images to learn from and the held-out ones, a random sample unless there is validation
    data; what was held out, in words; and notes on images that two parts have in common."""
    if validation:
        held = f"all of {', '.join(config.validation_paths)}"
    else:
        digests = [each.digest for each in training]
        chosen = _some_held_out(digests, seed, config.validation_fraction or USUAL, config.paths)
        validation = [each for each, is_held in zip(training, chosen, strict=True) if is_held]
        training = [each for each, is_held in zip(training, chosen, strict=True) if not is_held]
        held = f"{len(validation):,} of {counted(len(chosen), 'image')}, a random sample"
    seen = {each.digest for each in training}
    notes = [*_leaks([each.digest for each in validation], seen, "validation data", "training")]
    seen |= {each.digest for each in validation}
    notes += _leaks([each.digest for each in test], seen, "test data", "training or validation")
    return training, validation, held, notes


def _some_held_out(
    digests: Sequence[bytes], seed: int, fraction: float, paths: Sequence[str]
) -> Mask:
    """Whether each image is held out, by the hashes of their pixels."""
    keys = np.array([bytes_key(digest, seed) for digest in digests], dtype=np.uint64)
    chosen = held_out(Groups.of(keys), np.zeros(len(keys), dtype=np.int32), [("",)], fraction)
    if not chosen.any():
        raise GlassformerError(
            f"{', '.join(paths)} has no two different images, so none can be held out for "
            "validation. Provide more images, or separate validation data (--validation-data)."
        )
    return chosen


def _leaks(
    digests: Sequence[bytes], seen: Collection[bytes], part: str, where: str
) -> Iterator[str]:
    """A note on images, by the hashes of their pixels, that another part has, too."""
    if number := sum(digest in seen for digest in digests):
        occur = "occurs" if number == 1 else "occur"
        yield f"{counted(number, 'image')} in the {part} also {occur} in {where}"
