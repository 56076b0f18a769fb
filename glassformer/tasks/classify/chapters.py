"""The chapters of the report on a classifier: which classes it confuses, how well it finds each of
them, whether its probabilities can be believed, and its mistakes.

`tag/scores.py` draws the same of tags.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer.data.rows import Array
from glassformer.inspect.chapters import (
    Answer,
    Chapter,
    ClassScore,
    Examination,
    affordable,
    of_rows,
    trend,
    wilson,
)
from glassformer.models.heads import Labeller
from glassformer.tasks.classify.scores import Answers, Counts

MOST_ROWS, MOST_TOKENS = 2_000, 100_000
MOST_SHOWN, MOST_PICTURES = 20, 40  # mistakes
MOST_CHARACTERS = 600  # of a text
CALIBRATION_BINS = 10
MOST_CLASSES = 60  # in a picture of confusions
OTHERS = "(others)"


def rows_to_read(lengths: Sequence[int], model: Labeller) -> list[int]:
    """The numbers of the held-out rows to examine: all, every second, every fourth, …, so that
    those of a large model are among those of a small one."""
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    # A table is looked up, not multiplied: a bag with millions of vectors reads fast.
    num_multiplied = sum(part.numel() for part in model.parameters() if id(part) not in tables)
    mean = max(1.0, sum(lengths) / max(1, len(lengths)))
    most = max(1, min(MOST_ROWS, int(affordable(num_multiplied, MOST_TOKENS) / mean)))
    stride = 1
    while stride * most < len(lengths):
        stride *= 2
    return list(range(0, len(lengths), stride))


def examine_classifier(
    answers: Answers,
    inputs: Sequence[str],
    num_held_out: int,
    can_weigh: bool,
    lengths: tuple[str, Sequence[int]] | None = None,
    picture: Callable[[int], str] | None = None,
) -> Examination:
    """Chapters on the predictions of a classifier for held-out `inputs`; `can_weigh` is whether
    rare labels could count more. Texts have `lengths`, in units of that name; `picture` returns
    the image that a page shows."""
    scores = answers.judge()
    what, column = ("example", "text") if picture is None else ("image", "file")
    note = of_rows(len(inputs), num_held_out, what)
    shown = []
    for text, *labels in zip(inputs, answers.true, answers.predicted, strict=True):
        true, predicted = map(answers.named, labels)
        expected, answered = (", ".join(names) or "none" for names in (true, predicted))
        shown.append(Answer(text, expected, answered, float(true == predicted)))
    chapters = [
        *(confusion_chapter(scores.confusion, what, note) if scores.confusion else ()),
        *classes("Classes", scores.classes, note),
        *calibration(answers.confidence.flatten(), answers.is_right.flatten(), note),
    ]
    if lengths is not None:
        unit, counts = lengths
        chapters += trend(
            f"Accuracy by length in {unit}",
            counts,
            [answer.score for answer in shown],
            (unit, "accuracy"),
            f"{note} Each point is a tenth of them, with its 95% interval.",
            "text",
        )
    if errors := answers.surest_errors():
        columns = {"confidence": "share", "predicted": "label", "labelled": "label"}
        columns |= ({} if picture is None else {"image": "image"}) | {column: "text"}
        rows = []
        for index, probability in errors[: MOST_SHOWN if picture is None else MOST_PICTURES]:
            answer, image = shown[index], () if picture is None else (picture(index),)
            rows.append([probability, answer.found, answer.expected, *image, answer.input])
        data = {"columns": [*columns], "rows": rows, "kinds": [*columns.values()]}
        how = f"The {len(rows)} most confident of {len(errors):,} wrong answers."
        chapters.append(Chapter("Mistakes", "table", data, how))
    part = f" {note}" if len(inputs) < num_held_out else ""
    notes = tuple(f"{advice}{part}" for advice in scores.with_advice(can_weigh).notes)
    return Examination(tuple(chapters), "accuracy", tuple(shown), notes)


def classes(title: str, scores: Sequence[ClassScore], note: str) -> list[Chapter]:
    """Precision, recall and F1 of each class that occurs."""
    rows = [asdict(one) for one in scores if one.support or one.precision or one.recall]
    return [Chapter(title, "classes", {"classes": rows}, note)] if rows else []


def calibration(confidence: Tensor, is_right: Tensor, note: str) -> list[Chapter]:
    """How many of the answers given with a confidence are right. Nothing without answers."""
    indices = (confidence * CALIBRATION_BINS).long().clamp(0, CALIBRATION_BINS - 1)
    bins = []
    for index in indices.unique().tolist():
        here = indices == index
        right, count = int(is_right[here].sum()), int(here.sum())
        low, high = wilson(right, count)
        bins.append(
            {
                "confidence": float(confidence[here].mean()),
                "accuracy": right / count,
                "low": low,
                "high": high,
                "count": count,
            }
        )
    how = "Of the answers given with 80% confidence, 80% should be right: points on the line are "
    how += f"well calibrated. Bars show how many answers there are. {note}"
    return [Chapter("Calibration", "calibration", {"bins": bins}, how)] if bins else []


def confusion_chapter(counts: Counts, what: str, note: str) -> list[Chapter]:
    """A square of all classes that occur; of very many classes, those with the most errors."""
    names = list(dict.fromkeys([*counts, *(name for row in counts.values() for name in row)]))
    if len(names) < 2:
        return []
    matrix = np.array([[counts.get(a, {}).get(b, 0) for b in names] for a in names])
    if len(names) > MOST_CLASSES:
        names, matrix = _merged(names, matrix)
        note += f" The {MOST_CLASSES - 1} classes with the most errors are shown, and all others "
        note += "as one."
    order = by_confusion(matrix)
    data: dict[str, Any] = {
        "labels": [names[index] for index in order],
        "counts": matrix[np.ix_(order, order)].tolist(),
        "what": what,
    }
    return [Chapter("Confusion matrix", "confusion", data, note)]


def _merged(names: list[str], matrix: Array) -> tuple[list[str], Array]:
    """The classes with the most errors, and all others as one."""
    errors = matrix.sum(0) + matrix.sum(1) - 2 * matrix.diagonal()
    shown = np.sort(np.argsort(-errors, kind="stable")[: MOST_CLASSES - 1])
    group = np.full(len(names), len(shown))
    group[shown] = np.arange(len(shown))
    merged = np.zeros((len(shown) + 1, len(shown) + 1), dtype=matrix.dtype)
    np.add.at(merged, (group[:, None], group[None, :]), matrix)
    return [*(names[index] for index in shown), OTHERS], merged


def by_confusion(matrix: Array) -> list[int]:
    """The classes in a row in which neighbours are often confused: grown from the two that are
    confused most, at the end where the next class is more similar."""
    sizes = np.maximum(matrix.sum(1), 1)
    share = matrix / sizes[:, None]
    alike = share + share.T
    np.fill_diagonal(alike, -1.0)
    first, second = map(int, np.unravel_index(alike.argmax(), alike.shape))
    row = [first, second]
    left = [index for index in range(len(matrix)) if index not in row]
    while left:
        ends = alike[[row[0], row[-1]]][:, left]  # (2, left)
        end, nearest = map(int, np.unravel_index(ends.argmax(), ends.shape))
        row.insert(len(row) if end else 0, left.pop(nearest))
    return row
