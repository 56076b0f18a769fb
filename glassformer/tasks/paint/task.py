"""Paint: loss = mean of -log p(colour of a pixel | the pixels before it), row by row.

Images are resized, their colours replaced by the nearest of a palette that is learned from them,
and stored as rows of numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Count
from glassformer.data import image_sets
from glassformer.data.augmentation import Movement, moved
from glassformer.data.image_files import ImagesConfig
from glassformer.data.image_store import IMAGES, ImageStore, write_npz
from glassformer.data.images import Pixels, Size
from glassformer.data.rows import Array
from glassformer.errors import UsageError
from glassformer.inspect.chapters import Examination, spread
from glassformer.machine.seeds import step_seed
from glassformer.models.image_gpt import ImageGPT
from glassformer.nn.loss import next_token_loss
from glassformer.preprocessing.images import MOST_COLORS, PalettePreprocessing
from glassformer.progress import Notify
from glassformer.tasks.fitting import check_size, kept_preprocessing, kept_size
from glassformer.tasks.paint import scores
from glassformer.tasks.paint.predictor import PaintPredictor
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.rows import TEST, ImageDataset, image_to_try
from glassformer.tasks.task import Command, Defaults, Objective, Source, Task, report_data
from glassformer.wording import counted

TRAIN, VALIDATION = "train.npy", "validation.npy"
VALIDATION_NUMBERS = "validation_numbers.npy"  # of held-out images in the store
LARGEST = 16  # pixels of a side by default: a painter's work grows with the square of the pixels
COLORS, GREYS = 512, 16  # of a palette by default
BATCH_PIXELS = 4096
VALIDATED = 2**18  # pixels of held-out images
ENCODED_AT_ONCE = 1024  # images
BRAILLE = 0x2800  # of Unicode: 4 × 2 dots in a character
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class PaintData(ImagesConfig):
    """The images to learn from, and the size of their palette."""

    palette: Count | None = Field(None, ge=2, le=MOST_COLORS)
    """Number of colours of the palette (null: 512, or 16 greys)."""


class PaintRecipe(Recipe):
    """A recipe for images to paint."""

    data: PaintData
    augmentation: Movement = Movement()


@dataclass(frozen=True)
class PaintSource(Source):
    """Images in a store, split, and their palette."""

    images: image_sets.SplitImages
    preprocessing: PalettePreprocessing

    @property
    def num_items(self) -> int:
        return len(self.images.split.training) * self.preprocessing.num_pixels

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        height, width = self.preprocessing.image_size
        return {
            "model": {
                "image_size": [height, width],
                "context_length": max(2, height * width),
                "vocab_size": self.preprocessing.start + 1,
            }
        }

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        split, store = self.images.split, self.images.store
        for name, part in ((TRAIN, split.training), (VALIDATION, split.validation)):
            _write_ids(folder / name, store, image_sets.numbers_of(part), self.preprocessing)
        np.save(folder / VALIDATION_NUMBERS, image_sets.numbers_of(split.validation))
        if split.test:
            pixels = (image.input for image in split.test)
            write_npz(folder / TEST, pixels, [""] * len(split.test))


def _write_ids(
    path: Path, store: ImageStore, numbers: Array, preprocessing: PalettePreprocessing
) -> None:
    shape = (len(numbers), preprocessing.num_pixels)
    ids = np.lib.format.open_memmap(path, "w+", np.dtype(preprocessing.dtype), shape)
    for first in range(0, len(numbers), ENCODED_AT_ONCE):
        some = numbers[first : first + ENCODED_AT_ONCE]
        ids[first : first + len(some)] = preprocessing.ids(store[some])
    ids.flush()


def read(recipe: PaintRecipe, folder: Path, notify: Notify) -> PaintSource:
    data, choose = recipe.data, _choose(notify)
    trained = kept_preprocessing(recipe, PalettePreprocessing)
    if trained is not None:
        if data.palette not in (None, len(trained.palette)):
            colors = counted(len(trained.palette), "colour")
            raise UsageError(f"the model paints with {colors}. Leave out --palette.")
        data, choose = data.model_copy(update=check_size(data, trained)), kept_size(trained, notify)
    elif data.image_size is None and recipe.model.get("image_size") is not None:
        size = recipe.architecture().size  # type: ignore[attr-defined]
        data = data.model_copy(update={"image_size": size})
    images = image_sets.read_split_images(data, recipe.training.seed, folder, choose, role=None)
    split, store, numbers = images.split, images.store, image_sets.numbers_of(images.split.training)
    grey = store.num_channels == 1
    height, width = store.size
    kind = "greyscale" if grey else "colour"
    report_data(
        f"{counted(len(split.training), 'image')}, {height}×{width}, {kind}",
        split,
        notify,
        split.columns,
        f"; test set, used once at the end: {len(split.test):,}" if split.test else "",
    )
    if trained is not None:
        preprocessing = trained.changed(image_column=images.columns["image_column"])
    else:
        preprocessing = PalettePreprocessing.of(
            store,
            numbers,
            data.palette or (GREYS if grey else COLORS),
            recipe.training.seed,
            image_column=images.columns["image_column"],
        )
    notify(_about_palette(store, numbers, preprocessing))
    return PaintSource(images, preprocessing)


def _choose(notify: Notify) -> Any:
    """Chooses the size of images, and reports it if they are resized."""

    def choose(sizes: image_sets.Sizes) -> Size:
        size = image_sets.median_size(most=LARGEST)(sizes)
        if (sizes != size).any():
            notify(
                f"note: images are resized to {size[0]}×{size[1]}; pass --image-size for another "
                "size"
            )
        return size

    return choose


def _about_palette(store: ImageStore, numbers: Array, preprocessing: PalettePreprocessing) -> str:
    """How much the palette changes the images, in words."""
    some = store[np.sort(numbers[:: max(1, len(numbers) // 500)])]
    painted = preprocessing.pixels(preprocessing.ids(some))
    error = np.sqrt(np.mean((painted.astype(np.float64) - some) ** 2))
    count = counted(len(preprocessing.palette), "colour")
    if error == 0:
        return f"palette: {count}, all those in the images"
    return f"palette: {count}; they differ from the original ones by {error:.1f} of 255 (RMS)"


class PaintDataset(ImageDataset):
    """Images as rows of colours, memory-mapped."""

    unit = "pixel"
    training: Array
    validation: Array
    preprocessing: PalettePreprocessing

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        self.training = _open(folder / TRAIN)
        self.validation = _open(folder / VALIDATION)

    @property
    def num_items(self) -> int:
        return int(self.training.size)

    @property
    def num_validation_items(self) -> int:
        return self.num_validated * self.preprocessing.num_pixels

    @property
    def num_validated(self) -> int:
        """The held-out images that a validation reads: more of them would cost much time."""
        return min(len(self.validation), max(1, VALIDATED // self.preprocessing.num_pixels))

    @property
    def items_per_row(self) -> float:
        return float(self.preprocessing.num_pixels)

    @property
    def default_batch_size(self) -> int:
        # Of few images, small batches: more steps on the same images teach more.
        few = len(self.training) // 40
        return max(4, min(BATCH_PIXELS // self.preprocessing.num_pixels, few))

    def describe(self) -> str:
        height, width = self.preprocessing.image_size
        return (
            f"{counted(len(self.training), 'image')} of {height}×{width} pixels in "
            f"{len(self.preprocessing.palette):,} colours; {len(self.validation):,} held out"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "num_images": len(self.training),
            "num_validation_images": len(self.validation),
            "num_pixels": self.num_items,
        }

    @property
    def store(self) -> ImageStore:
        """The images before they were painted in the palette's colours."""
        return ImageStore(self.folder / IMAGES)

    @property
    def held_out_numbers(self) -> Array:
        """The numbers of the held-out images in the store."""
        return _open(self.folder / VALIDATION_NUMBERS)


def _open(path: Path) -> Array:
    return np.lib.format.open_memmap(path, "r")


class PaintObjective(Objective):
    """Predict the colour of each pixel from those before it."""

    dataset: PaintDataset
    measure = "bits_per_dim"
    measures = ("loss", "bits_per_dim")

    def batch(self, number: int, most: int | None = None) -> Tensor:
        """Colours (B, P), varied by random numbers of their own."""
        data, rows = self.dataset, self.batches.batch(number, most)
        ids = torch.from_numpy(data.training[np.asarray(rows)].astype(np.int64))  # (B, P)
        generator = torch.Generator().manual_seed(step_seed(self.config.seed, number, 1))
        images = ids.unflatten(1, (1, *data.preprocessing.image_size))  # (B, 1, H, W)
        return moved(images, self.recipe.augmentation, generator).flatten(1)

    def loss(self, model: ImageGPT, batch: Tensor) -> Tensor:
        hidden = model.hidden(scores.prepend_start(batch, model.start_token))
        return next_token_loss(hidden, model.head, batch)

    def validate(self, model: ImageGPT) -> scores.PaintResult:
        data = self.dataset
        numbers = np.array(spread(len(data.validation), data.num_validated))
        return scores.evaluate_painting(
            model,
            lambda rows: data.validation[numbers[rows.start : rows.stop]],
            len(numbers),
            data.preprocessing.num_pixels,
        )

    def sample(self, model: ImageGPT, step: int) -> str:
        """A completed image, in dots."""
        data = self.dataset
        row = data.validation[step % len(data.validation)].astype(np.int64)
        height, width = data.preprocessing.image_size
        upper = row[None, : height // 2 * width]
        return in_dots(scores.paint(model, data.preprocessing, upper, seed=step)[0])

    def examine(self, model: ImageGPT) -> Examination:
        return scores.examine_painting(model, self.dataset.preprocessing, self.dataset.validation)

    def trials(self, folder: Path | str) -> Sequence[Command]:
        data = self.dataset
        image = image_to_try(data.store, int(data.held_out_numbers[0]))
        return (
            ("complete", folder, image, "--out", "completed.png"),
            ("generate", folder, "--out", "samples.png"),
        )


def in_dots(pixels: Pixels) -> str:
    """An image (H, W, C) for a terminal: dots where it is brighter than its middle."""
    grey = pixels.mean(axis=2)
    is_bright = grey > (grey.min() + grey.max()) / 2
    height, width = is_bright.shape
    padded = np.pad(is_bright, ((0, -height % 4), (0, -width % 2)))
    lines = []
    for top in range(0, padded.shape[0], 4):
        codes = np.zeros(padded.shape[1] // 2, dtype=np.int64)
        for row, values in enumerate(DOTS):
            for column, value in enumerate(values):
                codes += padded[top + row, column::2] * value
        lines.append("".join(chr(BRAILLE + code) for code in codes.tolist()))
    return "\n".join(lines)


TASK = Task(
    recipe=PaintRecipe,
    read=read,
    dataset=PaintDataset,
    objective=PaintObjective,
    predictor=PaintPredictor,
    defaults=lambda recipe: Defaults(epochs=15, adamw=2e-3),
)
