"""Examples as they were read, kept in a run in a form that can be read again.

So a training that continues elsewhere, or after the files have changed, is evaluated on the data it
began with.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from glassformer.data.labelled_files import Example
from glassformer.data.tagged_files import Sentence
from glassformer.data.time_series_files import Series

OF_EXAMPLES, OF_SENTENCES = ("text", "labels"), ("tokens", "tags")  # columns of the rows


def keep_examples(path: Path, examples: Iterable[Example]) -> None:
    _keep(path, OF_EXAMPLES, ((each.text, each.labels) for each in examples))


def keep_sentences(path: Path, sentences: Iterable[Sentence]) -> None:
    _keep(path, OF_SENTENCES, ((each.words, each.tags) for each in sentences))


def kept_sentences(path: Path) -> list[Sentence]:
    """What `keep_sentences` wrote."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line)
    columns = ([tuple(row[name]) for name in OF_SENTENCES] for row in rows)
    return [
        Sentence(words, tags, f"{path}:{number}") for number, (words, tags) in enumerate(columns, 1)
    ]


def keep_series(path: Path, series: Sequence[Series]) -> None:
    lengths = [len(each.values) for each in series]
    x = np.zeros((len(series), max(lengths), series[0].num_features), dtype=np.float32)
    for index, each in enumerate(series):
        x[index, : lengths[index]] = each.values
    np.savez(path, x=x, y=np.array([each.label for each in series]), lengths=lengths)


def _keep(path: Path, columns: tuple[str, str], pairs: Iterable[tuple[object, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for pair in pairs:
            row = dict(zip(columns, pair, strict=True))
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
