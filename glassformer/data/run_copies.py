"""Examples as they were read, kept in a run in a form that can be read again.

So a training that continues elsewhere, or after the files have changed, is evaluated on the data it
began with.
"""

import json
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from glassformer.data.labelled_examples import Example
from glassformer.data.tagged_sentences import Sentence
from glassformer.data.time_series import Series
from glassformer.wording import shortened

SHOWN = 600  # characters of a text that are kept to be shown
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


def keep_texts(path: Path, texts: Iterable[str]) -> None:
    """The beginnings of texts, one per line, for people to look at."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for text in texts:
            file.write(json.dumps(shortened(text, SHOWN), ensure_ascii=False) + "\n")


class KeptTexts:
    """What `keep_texts` wrote: read when asked for, one by one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _starts(self) -> Sequence[int]:
        with self._path.open("rb") as file:
            return array("q", accumulate(map(len, file), initial=0))

    def __getitem__(self, number: int) -> str:
        with self._path.open("rb") as file:
            file.seek(self._starts[number])
            return str(json.loads(file.readline()))


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
