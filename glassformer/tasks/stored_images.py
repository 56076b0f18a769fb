"""Images in the store of a run: what painting, classifying and probing share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.image_rows import ImageRows
from glassformer.data.image_store import IMAGES, ImageStore, write_npz
from glassformer.data.labelled_images import SplitImages, numbers_of
from glassformer.data.labels import targets_of
from glassformer.data.text_files import local_path
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.row_batches import TRAIN, example_batches
from glassformer.tasks.task import Batches, Dataset, Say, Source

VALIDATION, TEST = "validation.safetensors", "test.npz"


class ImageDataset(Dataset):
    """Images to learn from, held-out images, and test images in a file of their own. A batch is the
    numbers of its images."""

    training: Any
    validation: Any

    def batches(self, batch_size: int, seed: int) -> Batches:
        return example_batches(len(self.training), batch_size, seed, lambda rows: rows)

    def test_data(self) -> dict[str, Any] | None:
        path = self.folder / TEST
        return {"paths": str(path)} if path.is_file() else None


@dataclass(frozen=True)
class LabelledImageSource(Source):
    """Images in a store, each with one label, split."""

    images: SplitImages
    preprocessing: Any

    @property
    def num_items(self) -> int:
        height, width = self.images.store.size
        return len(self.images.split.training) * height * width

    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        split, store = self.images.split, self.images.store
        for name, part in ((TRAIN, split.training), (VALIDATION, split.validation)):
            targets = targets_of(part, split.labels, is_multi_label=False)
            rows = ImageRows(store, numbers_of(part), np.array(targets, dtype=np.int32))
            rows.save(folder / name)
        if split.test:
            labels = [each.labels[0] for each in split.test]
            write_npz(folder / TEST, (each.input for each in split.test), labels)


class LabelledImageDataset(ImageDataset):
    """Labelled images in a store."""

    training: ImageRows
    validation: ImageRows

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        store = ImageStore(folder / IMAGES)
        self.training = ImageRows.load(folder / TRAIN, store)
        self.validation = ImageRows.load(folder / VALIDATION, store)
        self.labels: tuple[str, ...] = self.model_config.labels

    def shown(self, row: int, most: int) -> str:
        """A held-out image for people: where it was read."""
        return self.validation.source(row)


def image_to_try(store: ImageStore, number: int) -> str:
    """An image for a command that the user may run: its file, if it has one."""
    name = store.file(number)
    return name if local_path(name).is_file() else "IMAGE"
