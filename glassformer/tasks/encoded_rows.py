"""Labelled inputs → rows on disk, batch by batch: memory does not grow with the size of the data.

    examples  →  encoded, whole  →  train.items  →  cut for the model, if any row is too long

The model's context may depend on the lengths, so training data is encoded before it is known.
"""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.labels import targets_of
from glassformer.data.rows import ENDING, Array, in_bounded_batches, write_columns, write_rows
from glassformer.data.split import LabelledSplit
from glassformer.preprocessing.labelled import LabelledExample, LabelledInputs


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
        write_rows(self._path, self._encoded(examples, limit), self._preprocessing.dtype)

    def _encoded(self, examples: Iterable[LabelledExample], limit: int | None) -> Iterator[Array]:
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
                kept = row if length <= limit else self._preprocessing.cut(row, limit)
                self.num_shortened += len(kept) < length
                self._lengths.append(len(kept))
                yield kept

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
