"""What a report shows of a trained model, as plain data: it draws this and knows no task.

    examine(model)  →  chapters: a title, the name of a picture, its numbers
                       answers: each held-out input with what the model made of it

Chapters are made of lists, dicts, numbers and texts only, so that they can be written as JSON. A
task that examines nothing still has facts, curves and samples in its report.

Before them stand the scores that several tasks share, and their 95% intervals:

    precision  right of a class / predicted as the class
    recall     right of a class / all there are of the class
    F1         2 · precision · recall / (precision + recall)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# --- scores and their intervals ---
# They are computed here and checked against scikit-learn and seqeval in the tests: importing
# torchmetrics takes longer than scoring a test set, and it has no scores of entities.

DRAWS = 1000  # for an interval
NORMAL_95 = 1.959963984540054  # 95% of a normal distribution lie within this many deviations


@dataclass(frozen=True)
class ClassScore:
    label: str
    precision: float
    recall: float
    f1: float
    support: int

    @classmethod
    def of(cls, label: str, right: int, predicted: int, true: int) -> "ClassScore":
        """Compute the scores from counts; 0 / 0 is 0, as in scikit-learn and conlleval."""
        return cls(
            label,
            precision=right / max(predicted, 1),
            recall=right / max(true, 1),
            f1=2 * right / max(predicted + true, 1),
            support=true,
        )


def by_label(scores: Sequence[ClassScore]) -> dict[str, Any]:
    """The scores of each label as JSON."""
    rows = map(asdict, scores)
    return {row.pop("label"): row for row in rows}


def table(heading: str, scores: Sequence[ClassScore]) -> list[str]:
    """A line for each class, in columns."""
    width = max([len(heading), *(len(score.label) for score in scores)])
    lines = (
        f"{score.label:<{width}}  {score.precision:>9.4f}  {score.recall:.4f}  {score.f1:.4f}"
        f"  {score.support:>7,}"
        for score in scores
    )
    return [f"{heading:<{width}}  precision  recall      F1  support", *lines]


def shown(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"(95% interval {low:.4f} to {high:.4f})"


def wilson(successes: int, total: int) -> tuple[float, float]:
    """The 95% interval of a share by Wilson's score, which holds for few trials and near 0 and 1.

    (p + z²/2n ± z √(p(1 - p)/n + z²/4n²)) / (1 + z²/n)
    """
    if total == 0:
        return 0.0, 1.0
    share, squared = successes / total, NORMAL_95**2 / total
    middle = share + squared / 2
    reach = math.sqrt(squared * (share * (1 - share) + squared / 4))
    # Rounding must not exceed the limits.
    return (
        max(0.0, (middle - reach) / (1 + squared)) if successes else 0.0,
        min(1.0, (middle + reach) / (1 + squared)) if successes < total else 1.0,
    )


def f1_interval(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The 95% interval of F1 by the bootstrap: sentences are resampled with replacement, always in
    the same way. Wilson's interval does not apply, because F1 is not a share of independent
    answers. The entities of a sentence are resampled together, because they are correlated.

    `counts` are, for each sentence, the right entities, and the predicted and the true together.
    """
    of_sentences = np.array(counts)  # (sentences, 2)
    size, draw = len(of_sentences), np.random.default_rng(0)
    scores = []
    for _ in range(DRAWS):
        right, total = of_sentences[draw.integers(size, size=size)].sum(0)
        scores.append(2 * right / max(total, 1))
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(low), float(high)


def macro_f1_interval(confusion: Mapping[str, Mapping[str, int]]) -> tuple[float, float]:
    """The 95% interval of macro F1. `confusion` counts true labels by what was predicted.

    How often each class is recognised is drawn from its distribution given these counts (Jeffreys'
    prior), always in the same way. A bootstrap would believe that a class is always recognised
    because two of two examples were, and leave rare classes out of many samples.
    """
    names = sorted({name for true, row in confusion.items() for name in (true, *row)})
    index = {name: number for number, name in enumerate(names)}
    cells = [(index[t], index[p], n) for t, row in confusion.items() for p, n in row.items()]
    true, predicted, counts = np.array(cells).T
    size, is_wrong = len(names), true != predicted
    support = np.bincount(true, counts, size)
    right = np.bincount(true, counts * ~is_wrong, size)
    wrong, true, predicted = support - right, true[is_wrong], predicted[is_wrong]
    share = counts[is_wrong] / wrong[true]  # of what each class is taken for
    is_always_right = wrong == 0  # if one were not, it would be taken for any other

    def macro_f1(right: NDArray[Any]) -> float:
        missed = support - right
        elsewhere = missed * is_always_right
        others = (elsewhere.sum() - elsewhere) / max(1, size - 1)
        wrongly = np.bincount(predicted, share * missed[true], size) + others
        return float((2 * right / (support + right + wrongly)).mean())

    draw = np.random.default_rng(0)
    scores = [macro_f1(support * draw.beta(right + 0.5, wrong + 0.5)) for _ in range(DRAWS)]
    low, high = np.quantile(scores, (0.025, 0.975))
    return min(float(low), macro_f1(right)), max(float(high), macro_f1(right))


# --- chapters ---

WORK = 1e11  # floating-point operations of an examination: seconds on a laptop
BINS = 10


@dataclass(frozen=True)
class Chapter:
    """One picture of a report."""

    title: str
    picture: str
    """The name of the picture: a file of that name in `inspect/static/pictures/` draws it."""
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
    """How right the answer is, from 0 to 1."""


@dataclass(frozen=True)
class Examination:
    """What a task shows of a model."""

    chapters: tuple[Chapter, ...] = ()
    measure: str = ""
    """What the scores of the answers measure."""
    answers: tuple[Answer, ...] = ()
    """All answers in the order of the data, so that two models can be compared one by one."""
    notes: tuple[str, ...] = ()
    """Notes on the model, as sentences."""


def affordable(num_parameters: int, most: int, least: int = 256) -> int:
    """How many tokens a model of this size reads in a few seconds, within these limits."""
    return max(least, min(most, int(WORK / (2 * max(1, num_parameters)))))


def spread(total: int, most: int) -> list[int]:
    """At most `most` of the numbers below `total`, evenly spaced."""
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
        middle = {"x": float(values[here].mean()), "y": float(scores[here].mean())}
        points.append(middle | {"low": whole * low, "high": whole * high, "count": int(here.sum())})
    if len(points) < 2:
        return []
    data = {"x": names[0], "y": names[1], "points": points, "is_share": most is None}
    data |= {"what": what, "most": most}
    return [Chapter(title, "trend", data, note)]
