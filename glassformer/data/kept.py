"""Test data as it was read, kept in a run in a form that can be read again.

So a training that goes on elsewhere, or after the files have changed, is judged by what it was
begun with.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from glassformer.data.examples import Example
from glassformer.data.series import Series
from glassformer.data.tagged import Sentence

ROWS, ARRAYS = "test.jsonl", "test.npz"
OF_EXAMPLES, OF_SENTENCES = ("text", "labels"), ("tokens", "tags")  # columns of the rows


def keep_examples(folder: Path, examples: Iterable[Example]) -> None:
    _keep(folder, OF_EXAMPLES, ((each.text, each.labels) for each in examples))


def keep_sentences(folder: Path, sentences: Iterable[Sentence]) -> None:
    _keep(folder, OF_SENTENCES, ((each.words, each.tags) for each in sentences))


def keep_series(folder: Path, series: Sequence[Series]) -> None:
    lengths = [len(each.values) for each in series]
    width = series[0].values.shape[1]
    x = np.zeros((len(series), max(lengths), width), dtype=np.float32)
    for index, each in enumerate(series):
        x[index, : lengths[index]] = each.values
    np.savez(folder / ARRAYS, x=x, y=np.array([each.label for each in series]), lengths=lengths)


def _keep(folder: Path, columns: tuple[str, str], pairs: Iterable[tuple[object, object]]) -> None:
    with (folder / ROWS).open("w", encoding="utf-8", newline="\n") as file:
        for pair in pairs:
            row = dict(zip(columns, pair, strict=True))
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
