"""Examples as they were read, kept in a run in a form that can be read again.

So a training that continues elsewhere, or after the files have changed, is evaluated on the data it
began with.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from glassformer.data.labelled_examples import Example
from glassformer.data.rows import JsonLines, write_jsonl
from glassformer.data.tagged_sentences import Sentence
from glassformer.data.time_series import Series
from glassformer.wording import shortened

SHOWN = 600  # characters of a text that are kept to be shown
OF_EXAMPLES, OF_SENTENCES = ("text", "labels"), ("tokens", "tags")  # columns of the rows


def keep_examples(path: Path, examples: Iterable[Example]) -> None:
    text, labels = OF_EXAMPLES
    write_jsonl(path, ({text: each.text, labels: each.labels} for each in examples))


def keep_sentences(path: Path, sentences: Iterable[Sentence]) -> None:
    words, tags = OF_SENTENCES
    write_jsonl(path, ({words: each.words, tags: each.tags} for each in sentences))


def kept_sentences(path: Path) -> list[Sentence]:
    """What `keep_sentences` wrote."""
    columns = ([tuple(row[name]) for name in OF_SENTENCES] for row in JsonLines(path))
    return [
        Sentence(words, tags, f"{path}:{number}") for number, (words, tags) in enumerate(columns, 1)
    ]


def keep_texts(path: Path, texts: Iterable[str]) -> None:
    """The beginnings of texts, one per line, for people to look at."""
    write_jsonl(path, (shortened(text, SHOWN) for text in texts))


def keep_series(path: Path, series: Sequence[Series]) -> None:
    lengths = [len(each.values) for each in series]
    x = np.zeros((len(series), max(lengths), series[0].num_features), dtype=np.float32)
    for index, each in enumerate(series):
        x[index, : lengths[index]] = each.values
    np.savez(path, x=x, y=np.array([each.label for each in series]), lengths=lengths)
