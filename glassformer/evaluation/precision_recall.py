"""Precision, recall and F1 of one class, and the confidence intervals of F1 and of a share.

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
        """From counts; 0 divided by 0 is 0, as in scikit-learn and conlleval."""
        return cls(
            label,
            precision=right / max(predicted, 1),
            recall=right / max(true, 1),
            f1=2 * right / max(predicted + true, 1),
            support=true,
        )


def by_label(scores: Sequence[ClassScore]) -> dict[str, Any]:
    """For JSON."""
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
    table = np.array(counts)  # (sentences, 2)
    draw = np.random.default_rng(0)
    found = []
    for _ in range(DRAWS):
        right, total = table[draw.integers(len(table), size=len(table))].sum(0)
        found.append(2 * right / max(total, 1))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def macro_f1_interval(confusion: Mapping[str, Mapping[str, int]]) -> tuple[float, float]:
    """The 95% interval of macro F1. `confusion` counts true labels by what was predicted.

    How often each class is recognised is drawn from its distribution given these counts (Jeffreys'
    prior), always in the same way. A bootstrap would believe that a class is always recognised
    because two of two examples were, and leave rare classes out of many samples.
    """
    names = sorted({name for true, row in confusion.items() for name in (true, *row)})
    place = {name: number for number, name in enumerate(names)}
    cells = [(place[t], place[p], n) for t, row in confusion.items() for p, n in row.items()]
    true, predicted, counts = np.array(cells).T
    size, is_wrong = len(names), true != predicted
    support = np.bincount(true, counts, size)
    right = np.bincount(true, counts * ~is_wrong, size)
    wrong, true, predicted = support - right, true[is_wrong], predicted[is_wrong]
    share = counts[is_wrong] / wrong[true]  # of what each class is taken for
    is_always_right = wrong == 0  # if one were not, it would be taken for any other

    def macro_f1(right: NDArray[Any]) -> float:
        missed = support - right
        spread = missed * is_always_right
        others = (spread.sum() - spread) / max(1, size - 1)
        taken = np.bincount(predicted, share * missed[true], size) + others
        return float((2 * right / (support + right + taken)).mean())

    draw = np.random.default_rng(0)
    found = [macro_f1(support * draw.beta(right + 0.5, wrong + 0.5)) for _ in range(DRAWS)]
    low, high = np.quantile(found, (0.025, 0.975))
    return min(float(low), macro_f1(right)), max(float(high), macro_f1(right))
