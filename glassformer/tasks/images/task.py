"""Classify images: loss = mean of -log p(label | image), on images that differ each time.

The images of a run are in one memory-mapped file. Batch n is varied (flipped, shifted, mixed …) by
random numbers that follow from (seed, n), so that a resumed run learns from exactly the same
pictures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from glassformer.data import image_sets
from glassformer.data.augmentation import AugmentationConfig, augment, mix
from glassformer.data.image_files import ImagesConfig
from glassformer.data.image_store import pixel_hash
from glassformer.data.images import Pixels, data_uri
from glassformer.data.labels import targets_of
from glassformer.inspect.chapters import Answer, Examination, spread
from glassformer.inspect.places import image_places
from glassformer.machine.seeds import step_seed
from glassformer.models.sources import ImageClassifier, ImageConfig
from glassformer.preprocessing.images import ImagePreprocessing, unit_range
from glassformer.progress import Notify
from glassformer.tasks import fitting
from glassformer.tasks.images.predictor import ClassifyImagesPredictor, read_image_logits
from glassformer.tasks.labels import task as labels
from glassformer.tasks.labels.baseline import PixelBaseline, linear_baseline, small
from glassformer.tasks.labels.scores import examine_classifier
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.rows import LabelledImageDataset, LabelledImageSource, image_to_try
from glassformer.tasks.task import Baseline, Command, Defaults, Task
from glassformer.wording import counted

MOST_PIXELS = 10**7  # of the images that a report looks at
LARGEST = 96  # pixels of a side of an image in a report
SHOWN_OF_EACH = 4  # right answers, and wrong ones, with the places that were looked at
MANY = 20_000  # images: with fewer, they are varied more
FEWEST, LARGEST = 3, 16  # patches per side that are worth having; pixels of a patch


class ImageAugmentation(AugmentationConfig):
    """What the recipe leaves open, with no value or with null, is chosen from the images."""

    @model_validator(mode="before")
    @classmethod
    def _leave_open(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if value is not None}


class ImageLossConfig(labels.LabelLossConfig):
    """The settings of the loss of image labels."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)


class ClassifyImagesRecipe(Recipe):
    """A recipe for labelled images."""

    data: ImagesConfig
    augmentation: ImageAugmentation = Field(default_factory=ImageAugmentation)
    objective: ImageLossConfig = ImageLossConfig()


@dataclass(frozen=True)
class ImageSource(LabelledImageSource):
    """Labelled images, and how they are normalised."""

    preprocessing: ImagePreprocessing

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        split = self.images.split
        model = {
            "labels": list(split.labels),
            "multi_label": False,
            "num_channels": self.preprocessing.num_channels,
        }
        if recipe.model.get("image_size") is None:
            model["image_size"] = list(self.preprocessing.image_size)
        if recipe.is_open and recipe.model.get("patch_size") is None:
            model["patch_size"] = _patch_size(recipe, self.preprocessing.image_size)
        augmentation: ImageAugmentation = recipe.augmentation  # type: ignore[attr-defined]
        usual = usual_augmentation(split.labels, len(split.training)).model_dump()
        for key in augmentation.model_fields_set:
            usual.pop(key)
        return {"model": model, "augmentation": usual}


def usual_augmentation(labels: Sequence[str], num_images: int) -> AugmentationConfig:
    """How images are varied unless the recipe says so, by their number. Digits and letters are not
    mirrored: that makes another sign."""
    is_text = all(len(label) <= 1 or label.isdecimal() for label in labels)
    flip = 0.0 if is_text else 0.5
    return AugmentationConfig(shift=0.125, flip=flip, color=0.1 if num_images < MANY else 0.0)


def _patch_size(recipe: Recipe, size: Sequence[int]) -> int:
    """A power of two that gives about as many patches per side as suit the model, and that divides
    both sides if patches must."""
    config: Any = recipe.architecture()
    patch = 1 if min(size) < 2 * FEWEST else 2
    while 2 * patch * config.usual_places <= min(size) * 1.5 and patch < LARGEST:
        patch *= 2
    while config.embedding == "patches" and any(side % patch for side in size):
        patch //= 2
    return patch


def _choose_size(recipe: Recipe, notify: Notify) -> image_sets.ChooseSize:
    """Chooses the size of a preset, or the median shorter side as a multiple of the patch."""

    def choose(sizes: image_sets.Sizes) -> tuple[int, int]:
        config: Any = recipe.architecture()
        if config.image_size is not None:
            return tuple(config.image_size)
        median = float(np.median(sizes.min(axis=1)))
        side = max(1, round(min(median, image_sets.MOST_BY_DEFAULT)))
        is_fixed = not recipe.is_open or recipe.model.get("patch_size") is not None
        patch = config.patch_size if is_fixed else _patch_size(recipe, (side, side))
        if config.embedding == "patches" or median > side:
            side = max(1, round(side / patch)) * patch
        if (sizes != side).any():
            lowest, highest = sizes.min(axis=0).tolist(), sizes.max(axis=0).tolist()
            size = "×".join(map(str, lowest))
            size += "" if lowest == highest else f" to {'×'.join(map(str, highest))}"
            notify(
                f"note: images ({size}) are resized to {side}×{side}; pass --image-size for "
                "another size"
            )
        return side, side

    return choose


def read(recipe: ClassifyImagesRecipe, folder: Path, notify: Notify) -> ImageSource:
    config, choose_size = recipe.data, _choose_size(recipe, notify)
    preprocessing = fitting.kept_preprocessing(recipe, ImagePreprocessing)
    if preprocessing is not None:
        config = config.model_copy(update=fitting.check_size(config, preprocessing))
        choose_size = fitting.kept_size(preprocessing, notify)
    elif config.image_size is None and (size := recipe.model.get("image_size")) is not None:
        size = ImageConfig(image_size=size, patch_size=1).size
        config = config.model_copy(update={"image_size": size})
    if config.num_channels is None:
        channels: int | None = recipe.architecture().num_channels  # type: ignore[attr-defined]
        config = config.model_copy(update={"num_channels": channels})
    images = image_sets.read_split_images(config, recipe.training.seed, folder, choose_size)
    images = replace(images, split=fitting.with_kept_labels(recipe, images.split))
    split, store = images.split, images.store
    height, width = store.size
    what = (
        f"{counted(len(split.training), 'image')} of {counted(len(split.labels), 'label')}, "
        f"{height}×{width}, {'greyscale' if store.num_channels == 1 else 'colour'}"
    )
    labels.report_split(what, split, notify)
    targets = np.array(targets_of(split.training, split.labels, is_multi_label=False))
    labels.report_imbalance(recipe, split.labels, targets, notify)
    if preprocessing is not None:
        return ImageSource(images, preprocessing.changed(**images.columns))
    numbers = np.array([image.number for image in split.training])
    return ImageSource(images, ImagePreprocessing.of(store, numbers, **images.columns))


class ClassifyImagesDataset(LabelledImageDataset):
    """Labelled images, which are varied when a batch is made."""

    unit = "pixel"
    preprocessing: ImagePreprocessing

    @property
    def num_items(self) -> int:
        return self.training.num_pixels

    @property
    def num_validation_items(self) -> int:
        return self.validation.num_pixels

    @property
    def items_per_row(self) -> float:
        return self.num_items / len(self.training)

    @property
    def default_batch_size(self) -> int:
        return 64

    def describe(self) -> str:
        height, width = self.preprocessing.image_size
        return (
            f"{counted(len(self.training), 'image')} of {counted(len(self.labels), 'label')}, "
            f"{height}×{width}; {len(self.validation):,} held out"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "num_images": len(self.training),
            "num_validation_images": len(self.validation),
            "num_labels": len(self.labels),
        }


class ClassifyImagesObjective(labels.ClassObjective):
    """Name the label of an image."""

    dataset: ClassifyImagesDataset

    def batch(self, number: int, most: int | None = None) -> image_sets.ImageBatch:
        """Batch `number`, varied by random numbers of its own."""
        data, rows = self.dataset, self.batches.batch(number, most)
        config = self.recipe.augmentation
        generator = torch.Generator().manual_seed(step_seed(self.config.seed, number, 1))
        images = augment(unit_range(data.training.images(rows)), config, generator)
        targets = data.training.goals(rows)
        if config.mixes:
            shares = F.one_hot(targets, len(data.labels))
            images, targets = mix(images, shares, config, generator)
        return image_sets.ImageBatch(data.preprocessing.normalised(images), targets)

    def loss(self, model: ImageClassifier, batch: image_sets.ImageBatch) -> Tensor:
        return self.cross_entropy(model(batch.pixels).float(), batch.targets)

    def logits(self, model: ImageClassifier, rows: Sequence[int]) -> Tensor:
        data = self.dataset

        def take(part: range) -> Pixels:
            return data.validation.images(rows[part.start : part.stop])

        return read_image_logits(model, data.preprocessing, take, len(rows))

    def examine(self, model: ImageClassifier) -> Examination:
        held_out, preprocessing = self.dataset.validation, self.dataset.preprocessing
        height, width = preprocessing.image_size
        rows = spread(len(held_out), max(1, min(2_000, MOST_PIXELS // (height * width))))
        images = [held_out.source(row) for row in rows]

        def picture(index: int) -> str:
            return data_uri(held_out.images([rows[index]])[0], LARGEST)

        answers, total = self.answers(model, rows), len(held_out)
        examination = examine_classifier(answers, images, total, self.can_weigh, picture=picture)
        predictor = ClassifyImagesPredictor(model, preprocessing)
        looked_at = [
            (title, pixels, predictor.rollout(pixels))
            for index, title in _right_and_wrong(examination.answers)
            for pixels in held_out.images([rows[index]])
        ]
        chapters = (*examination.chapters, *image_places(looked_at))
        return replace(examination, chapters=chapters)

    def trials(self, folder: Path | str) -> Sequence[Command]:
        held_out = self.dataset.validation
        image = image_to_try(held_out.store, int(held_out.numbers[0]))
        view = ("--view", "rollout", "--out", "attention.png")
        return (("classify", folder, image), ("inspect", folder, image, *view))


def _right_and_wrong(answers: Sequence[Answer]) -> list[tuple[int, str]]:
    """A few right and a few wrong answers, evenly spaced: their indices, and titles."""
    titles = []
    for is_right in (True, False):
        indices = [n for n, answer in enumerate(answers) if (answer.score == 1) is is_right]
        for index in (indices[n] for n in spread(len(indices), SHOWN_OF_EACH)):
            answer = answers[index]
            wrong = "" if is_right else f", labelled {answer.expected}"
            titles.append((index, f"{answer.input}: {answer.found}{wrong}"))
    return titles


def pixel_baseline(
    recipe: ClassifyImagesRecipe, predictor: ClassifyImagesPredictor, arguments: dict[str, Any]
) -> Baseline:
    """Logistic regression on pixels, trained on exactly the images of the run."""
    data = recipe.data.model_copy(update=predictor.preprocessing.sizes)
    with TemporaryDirectory() as folder:
        seed, median = recipe.training.seed, image_sets.median_size()
        images = image_sets.read_split_images(data, seed, Path(folder), median)
        return linear_baseline(
            PixelBaseline,
            recipe,
            predictor,
            arguments,
            images.split,
            small,
            lambda pixels: pixel_hash(pixels).hex(),
        )


def defaults(recipe: Recipe) -> Defaults:
    return Defaults(epochs=30, fewest_steps=1500, muon=5e-3, adamw=1e-3, weight_decay=0.1)


TASK = Task(
    recipe=ClassifyImagesRecipe,
    read=read,
    dataset=ClassifyImagesDataset,
    objective=ClassifyImagesObjective,
    predictor=ClassifyImagesPredictor,
    defaults=defaults,
    baseline=pixel_baseline,
)
