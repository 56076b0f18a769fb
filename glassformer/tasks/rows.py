"""Rows that several tasks learn from: how they are batched, and how a run keeps them on disk.

    rows of different lengths   RowDataset        buckets of similar length
    images                      ImageDataset      numbers in the store of the run

Labelled inputs are encoded batch by batch, so memory does not grow with the size of the data.
"""

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from glassformer.data.archives import local_path
from glassformer.data.batches import Buckets, PairBuckets
from glassformer.data.image_sets import ImageRows, SplitImages, numbers_of
from glassformer.data.image_store import IMAGES, ImageStore, write_npz
from glassformer.data.labelled_texts import Example
from glassformer.data.labels import targets_of
from glassformer.data.rows import (
    ENDING,
    Array,
    JsonLines,
    in_bounded_batches,
    write_columns,
    write_jsonl,
    write_rows,
)
from glassformer.data.split import LabelledSplit
from glassformer.data.tagged_sentences import Sentence
from glassformer.data.time_series import Series
from glassformer.preprocessing import LabelledExample, LabelledInputs
from glassformer.progress import Notify
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Batches, Dataset, Source
from glassformer.wording import counted, shortened

TRAIN = "train.safetensors"  # in the folder of a dataset
VALIDATION, TEST = "validation.safetensors", "test.npz"


# --- batches: rows of similar length together, or each epoch in another order ---


class RowDataset(Dataset):
    """Rows to learn from, each with its own number of items."""

    row_name: ClassVar[str]
    """The name of a row: example, pair …"""

    @property
    @abstractmethod
    def amount(self) -> str:
        """The rows to learn from, in words."""

    @abstractmethod
    def buckets(self, batch_size: int, seed: int) -> Buckets | PairBuckets: ...

    def batches(self, batch_size: int, seed: int) -> Batches:
        buckets = self.buckets(batch_size, seed)
        return Batches(buckets.__getitem__, self.training.batch, buckets.per_epoch)

    @property
    def num_items(self) -> int:
        return int(self.training.num_items)

    @property
    def num_validation_items(self) -> int:
        return int(self.validation.num_items)

    @property
    def num_held_out(self) -> int:
        """Rows to validate on."""
        return len(self.validation)

    @property
    def items_per_row(self) -> float:
        return self.num_items / len(self.training)

    @cached_property
    def padding(self) -> float:
        """Share of the batches that is computed for nothing."""
        config = self.recipe.training
        size = config.per_device_train_batch_size or self.default_batch_size
        return self.buckets(size, config.seed).padding()

    def describe(self) -> str:
        return (
            f"{self.amount}, {counted(self.num_items, self.unit)}; {self.num_held_out:,} held out; "
            f"{self.padding:.1%} of the batches is padding"
        )

    def facts(self) -> dict[str, Any]:
        return {
            f"num_{self.row_name}s": len(self.training),
            f"num_validation_{self.row_name}s": self.num_held_out,
            f"num_{self.unit}s": self.num_items,
            "padding": self.padding,
        }


def example_batches(
    num_examples: int, batch_size: int, seed: int, take: Callable[[Array], Any]
) -> Batches:
    """Every epoch in another order; `take` returns the examples with some numbers, as a batch."""

    @lru_cache(maxsize=2)  # a batch may reach from one epoch into the next
    def order(epoch: int) -> Array:
        return np.random.default_rng((seed, epoch)).permutation(num_examples)

    def take_shuffled(numbers: range) -> Any:
        return take(np.array([order(n // num_examples)[n % num_examples] for n in numbers]))

    return Batches.sliced(take_shuffled, batch_size, num_examples / batch_size)


# --- images in the store of a run: what painting, classifying and probing share ---


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

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        split, store = self.images.split, self.images.store
        for name, part in ((TRAIN, split.training), (VALIDATION, split.validation)):
            targets = targets_of(part, split.labels, is_multi_label=False)
            rows = ImageRows(store, numbers_of(part), np.array(targets, dtype=np.int32))
            rows.save(folder / name)
        if split.test:
            labels = [example.labels[0] for example in split.test]
            write_npz(folder / TEST, (example.input for example in split.test), labels)


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


# --- labelled inputs, encoded into the file that training reads ---
#
#     examples  →  encoded, whole  →  train.items  →  cut for the model, if any row is too long
#
# The model's context may depend on the lengths, so training data is encoded before it is known.


class EncodedRows:
    """The rows of one part of a split, in the file that a training reads."""

    def __init__(
        self, path: Path, preprocessing: LabelledInputs, split: LabelledSplit[Any]
    ) -> None:
        self._path = path
        self._preprocessing = preprocessing
        self._split = split
        self._lengths = array("q")
        self._targets: list[Array] = []
        self.sizes = array("q")
        """The number of items of each input, before anything is added or cut."""
        self.num_shortened = 0

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def targets(self) -> Array:
        """The numbers of the labels of each row; of several labels, 0 and 1."""
        return np.concatenate(self._targets)

    def encode(self, examples: Iterable[LabelledExample], limit: int | None = None) -> None:
        """Write the rows, for a model that sees at most `limit` items."""
        write_rows(self._path, self._encode(examples, limit), self._preprocessing.dtype)

    def _encode(self, examples: Iterable[LabelledExample], limit: int | None) -> Iterator[Array]:
        dtype, labels = self._preprocessing.dtype, self._split.labels
        several = self._split.is_multi_label
        for batch in in_bounded_batches(examples, lambda example: len(example.input)):
            encoded = self._preprocessing.encode_many([example.input for example in batch])
            rows, is_shortened = self._preprocessing.rows(encoded, limit)
            self.num_shortened += sum(is_shortened)
            targets = targets_of(batch, labels, several)
            self._targets.append(np.array(targets, dtype=np.uint8 if several else np.int32))
            self.sizes.extend(map(len, encoded))
            self._lengths.extend(map(len, rows))
            yield np.concatenate([np.asarray(row, dtype) for row in rows])

    def cut(self, limit: int | None) -> None:
        """Shorten the rows that were written without a limit."""
        if limit is None or max(self._lengths) <= limit:
            return
        whole = self._path.with_suffix(".whole")
        self._path.with_suffix(ENDING).replace(whole)
        lengths, self._lengths = self._lengths, array("q")
        write_rows(self._path, self._cut(whole, lengths, limit), self._preprocessing.dtype)
        whole.unlink()

    def _cut(self, whole: Path, lengths: "array[int]", limit: int) -> Iterator[Array]:
        dtype, width = self._preprocessing.dtype, self._preprocessing.width
        size = np.dtype(dtype).itemsize * (width or 1)
        with whole.open("rb", buffering=2**20) as file:
            for length in lengths:
                row = np.frombuffer(file.read(length * size), dtype)
                row = row.reshape(-1, width) if width else row
                short = row if length <= limit else self._preprocessing.cut(row, limit)
                self.num_shortened += len(short) < length
                self._lengths.append(len(short))
                yield short

    def finish(self) -> None:
        """Write what belongs to the rows."""
        write_columns(
            self._path,
            self._preprocessing.dtype,
            self._preprocessing.width,
            lengths=np.asarray(self._lengths),
            targets=self.targets,
            is_per_item=np.array(False),
        )


# --- examples as they were read, in a form that can be read again ---
#
# So a training that continues elsewhere, or after the files have changed, is evaluated on the data
# that it began with.

SHOWN = 600  # characters of a text that are kept to be shown
OF_EXAMPLES, OF_SENTENCES = ("text", "labels"), ("tokens", "tags")  # columns of the rows


def keep_examples(path: Path, examples: Iterable[Example]) -> None:
    text, labels = OF_EXAMPLES
    write_jsonl(path, ({text: example.text, labels: example.labels} for example in examples))


def keep_sentences(path: Path, sentences: Iterable[Sentence]) -> None:
    words, tags = OF_SENTENCES
    write_jsonl(path, ({words: sentence.words, tags: sentence.tags} for sentence in sentences))


def kept_sentences(path: Path) -> list[Sentence]:
    """The sentences that `keep_sentences` wrote."""
    columns = ([tuple(row[name]) for name in OF_SENTENCES] for row in JsonLines(path))
    return [
        Sentence(words, tags, f"{path}:{number}") for number, (words, tags) in enumerate(columns, 1)
    ]


def keep_texts(path: Path, texts: Iterable[str]) -> None:
    """The beginnings of texts, one per line, for people to look at."""
    write_jsonl(path, (shortened(text, SHOWN) for text in texts))


def keep_series(path: Path, series: Sequence[Series]) -> None:
    lengths = [len(one.values) for one in series]
    x = np.zeros((len(series), max(lengths), series[0].num_features), dtype=np.float32)
    for row, one in zip(x, series, strict=True):
        row[: len(one.values)] = one.values
    np.savez(path, x=x, y=np.array([one.label for one in series]), lengths=lengths)
