"""What there is to see about a trained model, as plain data: a report draws it and knows no task.

examine(model)  →  chapters: a title, the name of a picture, its numbers
                   answers: each held-out input with what the model made of it

Chapters are made of lists, dicts, numbers and texts only, so that they can be written as JSON.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.evaluation.precision_recall import NORMAL_95, wilson

WORK = 1e11  # floating-point operations of an examination: seconds on a laptop
BINS = 10


@dataclass(frozen=True)
class Chapter:
    """One picture of a report."""

    title: str
    picture: str
    """Which one: a file of that name in `story/static/pictures/` draws it."""
    data: dict[str, Any]
    note: str = ""
    """How to read it, and what it was computed on."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """A held-out input, the right answer, and the model's."""

    input: str
    expected: str
    found: str
    score: float
    """From 0 to 1, where 1 is right."""


@dataclass(frozen=True)
class Examination:
    """What a task shows of a model."""

    chapters: tuple[Chapter, ...] = ()
    measure: str = ""
    """What the scores of the answers measure."""
    answers: tuple[Answer, ...] = ()
    """In the order of the data: models with the same data can be compared answer by answer."""
    notes: tuple[str, ...] = ()
    """What to know about the model, in sentences."""


def affordable(num_parameters: int, most: int, least: int = 256) -> int:
    """How many tokens a model of this size reads in a few seconds, within these limits."""
    return max(least, min(most, int(WORK / (2 * max(1, num_parameters)))))


def spread(total: int, most: int) -> list[int]:
    """At most so many of the numbers below `total`, evenly spaced: the same ones every time."""
    count = min(total, most)
    return [number * total // count for number in range(count)]


def of_rows(shown: int, total: int, what: str) -> str:
    """What a chapter was computed on, in words."""
    if shown == total:
        return f"All {total:,} held-out {what}s." if total > 1 else f"The only held-out {what}."
    return f"{shown:,} of the {total:,} held-out {what}s, evenly spaced."


def mean_interval(scores: Sequence[float]) -> tuple[float, float]:
    """95% interval of a mean: Wilson's for answers that are right or wrong, otherwise normal."""
    values = np.asarray(scores, dtype=float)
    if np.isin(values, (0, 1)).all():
        return wilson(round(values.sum()), len(values))
    reach = NORMAL_95 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(max(0, values.mean() - reach)), float(min(1, values.mean() + reach))


def trend(
    title: str,
    x: Sequence[float],
    y: Sequence[float],
    names: tuple[str, str],
    note: str,
    what: str,
    most: float | None = None,
) -> list[Chapter]:
    """How scores depend on a number, in bins of about equally many; nothing if there is only one
    bin. Scores are shares, or go from 0 to `most`; `what` they are scores of."""
    values, scores = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    numbers = np.searchsorted(edges, values, side="right")
    points, whole = [], most or 1.0
    for number in np.unique(numbers):
        here = numbers == number
        low, high = mean_interval((scores[here] / whole).tolist())
        place = {"x": float(values[here].mean()), "y": float(scores[here].mean())}
        points.append(place | {"low": whole * low, "high": whole * high, "count": int(here.sum())})
    if len(points) < 2:
        return []
    data = {"x": names[0], "y": names[1], "points": points, "is_share": most is None}
    data |= {"what": what, "most": most}
    return [Chapter(title, "trend", data, note)]
