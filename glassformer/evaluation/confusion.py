"""Which classes are predicted as which, and an order in which confused classes are neighbours."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.data.rows import Array
from glassformer.evaluation.chapter import Chapter

Counts = dict[str, dict[str, int]]  # true → predicted → how often; without zeros

MOST_CLASSES = 60  # in a picture
OTHERS = "(others)"


def confusion(pairs: Iterable[tuple[str, str]], labels: Sequence[str] = ()) -> Counts:
    """From pairs of the true and the predicted label, in the order of the labels."""
    return of_counts(Counter(pairs), labels)


def of_counts(counted: Mapping[tuple[str, str], int], labels: Sequence[str] = ()) -> Counts:
    """The same from the number of times that each pair occurs."""
    place = {name: number for number, name in enumerate(labels)}
    rows: Counts = {}

    def rank(pair: tuple[str, str]) -> list[tuple[int, str]]:
        return [(place.get(name, len(place)), name) for name in pair]  # unknown names come last

    for true, predicted in sorted(counted, key=rank):
        rows.setdefault(true, {})[predicted] = counted[true, predicted]
    return rows


def confusion_chapter(counts: Counts, what: str, note: str) -> list[Chapter]:
    """A square of all classes that occur; of very many classes, those with the most errors."""
    names = list(dict.fromkeys([*counts, *(each for row in counts.values() for each in row)]))
    if len(names) < 2:
        return []
    matrix = np.array([[counts.get(a, {}).get(b, 0) for b in names] for a in names])
    if len(names) > MOST_CLASSES:
        names, matrix = _merged(names, matrix)
        note += f" The {MOST_CLASSES - 1} classes with the most errors are shown, and all others "
        note += "as one."
    order = by_confusion(matrix)
    data: dict[str, Any] = {
        "labels": [names[place] for place in order],
        "counts": matrix[np.ix_(order, order)].tolist(),
        "what": what,
    }
    return [Chapter("Confusion matrix", "confusion", data, note)]


def _merged(names: list[str], matrix: Array) -> tuple[list[str], Array]:
    errors = matrix.sum(0) + matrix.sum(1) - 2 * matrix.diagonal()
    kept = np.sort(np.argsort(-errors, kind="stable")[: MOST_CLASSES - 1])
    group = np.full(len(names), len(kept))
    group[kept] = np.arange(len(kept))
    merged = np.zeros((len(kept) + 1, len(kept) + 1), dtype=matrix.dtype)
    np.add.at(merged, (group[:, None], group[None, :]), matrix)
    return [*(names[place] for place in kept), OTHERS], merged


def by_confusion(matrix: Array) -> list[int]:
    """The classes in a row in which neighbours are often confused: grown from the two that are
    confused most, at the end where the next class is more similar."""
    sizes = np.maximum(matrix.sum(1), 1)
    share = matrix / sizes[:, None]
    alike = share + share.T
    np.fill_diagonal(alike, -1.0)
    first, second = map(int, np.unravel_index(alike.argmax(), alike.shape))
    row = [first, second]
    left = [place for place in range(len(matrix)) if place not in row]
    while left:
        ends = alike[[row[0], row[-1]]][:, left]  # (2, left)
        end, place = map(int, np.unravel_index(ends.argmax(), ends.shape))
        row.insert(len(row) if end else 0, left.pop(place))
    return row
