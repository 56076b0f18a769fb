"""How good a classifier is: the quality of its labels, and of their probabilities.

    logits of held-out inputs → Answers → Classification
                              → fit_temperature, fit_weights
                              → examine_classifier, the chapters of its report

Validation, `evaluate`, `compare` and the final test all come this way.

    macro F1   mean of F1 over the classes that occur, predicted or true: rare ones count as much.
               It comes first if classes are uneven: where 99 of 100 examples are of one class,
               always answering that class has an accuracy of 0.99
    loss       mean of -log p(class | example) at a temperature T: p = softmax(logits / T)

Calibrated, T is the temperature at which the held-out labels are likeliest: of the answers given
with 80% confidence, about 80% should be right.
With several labels each label is a yes-or-no question of its own: p = sigmoid(logit / T), yes above
one half, and the loss is the mean over all questions.

The counts are computed here because importing torchmetrics takes longer than scoring a test set (it
imports scipy.signal and transformers), and it refuses a single label.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.data.batches import LabelledBatch, LabelledRows, sorted_batches
from glassformer.data.labels import brief
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError
from glassformer.inspect import chapters
from glassformer.inspect.chapters import (
    Answer,
    Chapter,
    ClassScore,
    Examination,
    affordable,
    by_label,
    of_rows,
    shown,
    table,
    trend,
    wilson,
)
from glassformer.models.heads import Labeller
from glassformer.nn.layers import refuse_nan
from glassformer.tasks.evaluating import Mistake, Result, held_out
from glassformer.wording import counted

Counts = dict[str, dict[str, int]]  # true → predicted → how often; without zeros

COOLEST, HOTTEST = -10.0, 5.0  # of log T; hotter, and scores would no longer differ in float32
READ_AT_ONCE = 8192  # items, with padding
PROOF = 2.0  # nats by which a part has to improve the prediction of all held-out labels
ENOUGH_TO_FIT = 20  # examples; from fewer, a temperature would be noise
UNEVEN = 4  # times as many examples of the most frequent class as of the rarest one that occurs
WEIGH_CLASSES = "--set objective.class_weights=true"


def is_uneven(counts: Sequence[int]) -> bool:
    """Whether accuracy says little about classes with so many examples each."""
    present = [count for count in counts if count]
    return len(present) > 1 and max(present) >= UNEVEN * min(present)


def measure_of(targets: Array | None) -> str:
    """The score that people look at, for examples with these classes; None if an example can have
    several labels."""
    counts = () if targets is None else np.bincount(targets).tolist()
    return "macro_f1" if is_uneven(counts) else "accuracy"


@dataclass(frozen=True)
class Classification(Result):
    """The scores of a classifier."""

    score_names = ("accuracy", "macro_f1", "loss", "expected_calibration_error")
    details = ("num_examples",)
    loss: float
    """Mean cross-entropy in nats, at the temperature of the classifier."""
    accuracy: float
    """The share of right answers; with several labels, the whole set must be right."""
    macro_f1: float
    expected_calibration_error: float
    num_examples: int
    classes: tuple[ClassScore, ...]
    accuracy_interval: tuple[float, float]
    """95% Wilson interval of the accuracy."""
    unknown_labels: dict[str, int] = field(default_factory=dict)
    """Labels of the data that the model does not have, and how often they occur."""
    notes: tuple[str, ...] = ()
    confusion: Counts | None = None
    """The confusion matrix; None with several labels per example."""
    errors: tuple[Mistake, ...] | None = None

    @property
    def is_uneven(self) -> bool:
        """Whether macro F1 says more than accuracy."""
        return self.confusion is not None and is_uneven([score.support for score in self.classes])

    @property
    def never_found(self) -> tuple[ClassScore, ...]:
        """The classes that occur, but of which no example was recognised."""
        return tuple(score for score in self.classes if score.support and not score.recall)

    @cached_property
    def macro_f1_interval(self) -> tuple[float, float] | None:
        """95% interval; None with several labels per example."""
        return None if self.confusion is None else chapters.macro_f1_interval(self.confusion)

    @property
    def interval(self) -> tuple[float, float] | None:  # type: ignore[override]
        """The 95% interval of the first score."""
        return self.macro_f1_interval if self.is_uneven else self.accuracy_interval

    def interval_of(self, name: str) -> tuple[float, float] | None:
        intervals = {"macro_f1": self.macro_f1_interval, "accuracy": self.accuracy_interval}
        return intervals.get(name)

    def scores(self) -> dict[str, float]:
        scores = super().scores()
        return {"macro_f1": scores["macro_f1"]} | scores if self.is_uneven else scores

    def with_wrong(self, num_wrong: int) -> "Classification":
        """The scores with `num_wrong` more examples, all answered wrongly."""
        if not num_wrong:
            return self
        right, total = round(self.accuracy * self.num_examples), self.num_examples + num_wrong
        return replace(
            self, accuracy=right / total, accuracy_interval=wilson(right, total), num_examples=total
        )

    def with_advice(self, can_weigh: bool) -> "Classification":
        """The scores, with a note if rare classes are never predicted; `can_weigh` if their weight
        in the training could have been larger."""
        if not (self.is_uneven and (lost := self.never_found)):
            return self
        names = brief([f"{score.label} (0 of {score.support:,} examples)" for score in lost])
        num_present = sum(score.support > 0 for score in self.classes)
        are = "is" if len(lost) == 1 else "are"
        note = f"{len(lost):,} of {counted(num_present, 'label')} {are} never found: {names}."
        if can_weigh:
            note += f" To make rare labels count more, train with {WEIGH_CLASSES}."
        return replace(self, notes=(*self.notes, note))

    def as_json(self) -> dict[str, Any]:
        first: dict[str, Any] = {}
        for name in self.scores():
            if name in ("accuracy", "macro_f1"):
                interval = getattr(self, f"{name}_interval")
                first |= {name: getattr(self, name)}
                first |= {f"{name}_interval": None if interval is None else list(interval)}
        last = {
            "classes": by_label(self.classes),
            "confusion_matrix": self.confusion,
            "never_found": [score.label for score in self.never_found],
            "unknown_labels": self.unknown_labels,
        }
        return first | super().as_json() | last

    def parts(self) -> list[str]:
        accuracy = f"accuracy {self.accuracy:.4f} {shown(self.accuracy_interval)}"
        first = [accuracy, f"macro F1 {self.macro_f1:.4f}"]
        if self.is_uneven and self.macro_f1_interval is not None:
            first = [f"macro F1 {self.macro_f1:.4f} {shown(self.macro_f1_interval)}", accuracy]
            if self.never_found:
                first.insert(1, f"never finds {brief([e.label for e in self.never_found], 3)}")
        return [
            *first,
            f"loss {self.loss:.4f}",
            f"calibration error {self.expected_calibration_error:.4f}",
            counted(self.num_examples, "example"),
        ]

    def lines(self) -> list[str]:
        return table("class", self.classes)


def confusion(pairs: Iterable[tuple[str, str]], labels: Sequence[str] = ()) -> Counts:
    """The confusion matrix of pairs of the true and the predicted label (or a counter of them), in
    the order of `labels`."""
    counts, order = Counter(pairs), {name: index for index, name in enumerate(labels)}
    rows: Counts = {}

    def rank(pair: tuple[str, str]) -> list[tuple[int, str]]:
        return [(order.get(name, len(order)), name) for name in pair]  # unknown names come last

    for true, predicted in sorted(counts, key=rank):
        rows.setdefault(true, {})[predicted] = counts[true, predicted]
    return rows


# --- what a model answers ---


def read_batches(
    model: Labeller, rows: LabelledRows, read: Callable[..., Tensor] | None = None
) -> Iterator[tuple[Array, LabelledBatch, Tensor]]:
    """Every row once, in batches of rows alike in length: their numbers, the batch, its logits, or
    what else `read` computes of it."""
    read = read or model
    parts = sorted_batches(rows.lengths, READ_AT_ONCE)
    batches = held_out(model, parts, rows.batch, [int(rows.lengths[part].sum()) for part in parts])
    for part, batch in zip(parts, batches, strict=True):
        logits = read(batch.ids, batch.is_text)
        refuse_nan(logits.abs())  # -∞, too, is refused
        yield part, batch, logits.float().cpu()


def read_logits(model: Labeller, rows: LabelledRows) -> Tensor:
    """The logits (N, C) of all rows in their order, before the temperature."""
    logits = torch.empty(len(rows), len(model.labels))
    for numbers, _, batch_logits in read_batches(model, rows):
        logits[torch.from_numpy(numbers)] = batch_logits
    return logits


class Answers:
    """The predictions of a classifier for labelled inputs: a label each, or yes or no by label."""

    def __init__(
        self,
        logits: Tensor,
        targets: Tensor,
        labels: Sequence[str],
        temperature: float = 1.0,
        multi_label: bool = False,
    ) -> None:
        """`logits` (N, C) are those before the temperature; `targets` are the indices of the labels
        (N,) or, with several labels, 0 and 1 (N, C)."""
        if not (0 < temperature < math.inf):
            raise GlassformerError(f"a temperature must be above 0, not {temperature}.")
        self.labels = labels
        self.multi_label = multi_label
        logits, self.targets = _checked(logits, targets, len(labels), multi_label)
        self.scaled = logits / temperature
        if multi_label:
            self.probabilities = self.scaled.sigmoid()
            self.predicted, self.true = logits > 0, self.targets.bool()  # (N, C)
            self.is_right = self.predicted == self.true  # (N, C)
            self.confidence = self.scaled.abs().sigmoid()  # in a yes or a no
        else:
            self.probabilities, best = self.scaled.softmax(-1), logits.argmax(-1)
            self.predicted, self.true = (
                F.one_hot(classes, len(labels)).bool() for classes in (best, self.targets)
            )
            self.is_right = best == self.targets  # (N,)
            self.confidence = self.probabilities.amax(-1)

    @classmethod
    def of(cls, model: Labeller, logits: Tensor, targets: Tensor) -> "Answers":
        """The answers at the temperature of the model, in its precision."""
        return cls(
            logits, targets, model.labels, float(model.temperature), model.config.multi_label
        )

    def named(self, row: Tensor) -> tuple[str, ...]:
        """The labels of a row of `predicted` or `true`."""
        return tuple(compress(self.labels, row.tolist()))

    def surest_errors(self) -> list[tuple[int, float]]:
        """The inputs with a wrong answer and its probability, the surest first."""
        is_wrong = ~self.is_right.reshape(len(self.scaled), -1)  # (N, answers)
        confidence = self.confidence.reshape(is_wrong.shape).where(is_wrong, 0.0).amax(-1).tolist()
        rows = is_wrong.any(-1).nonzero()[:, 0].tolist()
        return sorted(((row, confidence[row]) for row in rows), key=lambda error: -error[1])

    def judge(self) -> Classification:
        """Score the predictions."""
        num_right = int((self.predicted == self.true).all(-1).sum())
        counts = torch.stack([self.predicted & self.true, self.predicted, self.true]).sum(1).T
        rows = counts.tolist()  # (C, 3)
        classes = tuple(
            ClassScore.of(label, *row) for label, row in zip(self.labels, rows, strict=True)
        )
        f1 = [score.f1 for score, row in zip(classes, rows, strict=True) if any(row)]
        return Classification(
            loss=_cross_entropy(self.scaled, self.targets, self.multi_label),
            accuracy=num_right / len(self.scaled),
            macro_f1=sum(f1) / max(len(f1), 1),
            expected_calibration_error=expected_calibration_error(self.confidence, self.is_right),
            num_examples=len(self.scaled),
            classes=classes,
            accuracy_interval=wilson(num_right, len(self.scaled)),
            confusion=None if self.multi_label else self._confusion(),
        )

    def _confusion(self) -> Counts:
        """The confusion matrix of the predictions."""
        predicted = self.predicted.int().argmax(-1)
        pairs, counts = torch.stack([self.targets, predicted]).unique(dim=1, return_counts=True)
        names = [(self.labels[true], self.labels[answer]) for true, answer in pairs.T.tolist()]
        return confusion(Counter(dict(zip(names, counts.tolist(), strict=True))), self.labels)


def judge(
    logits: Tensor,
    targets: Tensor,
    labels: Sequence[str],
    *,
    temperature: float = 1.0,
    multi_label: bool = False,
) -> Classification:
    """Compare logits (N, C) with numbers of classes (N,), or several labels with 0 and 1 (N, C)."""
    return Answers(logits, targets, labels, temperature, multi_label).judge()


def expected_calibration_error(confidence: Tensor, is_right: Tensor, bins: int = 15) -> float:
    """∑ over bins of confidence (share of answers in the bin) · |accuracy - mean confidence|."""
    confidence, is_right = confidence.flatten().double(), is_right.flatten().double()
    index = (confidence * bins).long().clamp(max=bins - 1)  # a confidence of 1 is in the last bin
    gap = torch.zeros(bins, dtype=torch.double, device=confidence.device)
    gap.index_add_(0, index, is_right - confidence)  # count · (accuracy - mean confidence)
    return gap.abs().sum().item() / max(len(confidence), 1)


def _checked(
    logits: Tensor, targets: Tensor, num_classes: int, multi_label: bool
) -> tuple[Tensor, Tensor]:
    """Both in double precision, for exact means. Raise unless their shapes fit."""
    expected = (len(logits), num_classes) if multi_label else (len(logits),)
    if tuple(logits.shape) != (len(logits), num_classes) or tuple(targets.shape) != expected:
        raise ValueError(
            f"logits {tuple(logits.shape)} and targets {tuple(targets.shape)} "
            f"do not fit {num_classes} classes"
        )
    if not len(logits):
        raise GlassformerError("there are no examples to score.")
    logits = refuse_nan(logits).detach().double()
    return logits, targets.to(logits.device, torch.double if multi_label else torch.long)


def _cross_entropy(logits: Tensor, targets: Tensor, multi_label: bool) -> float:
    of = F.binary_cross_entropy_with_logits if multi_label else F.cross_entropy
    return of(logits, targets).item()


# --- what is fitted to held-out examples ---


def fit_temperature(
    logits: Tensor, targets: Tensor, multi_label: bool = False, enough: int = ENOUGH_TO_FIT
) -> float:
    """The T that minimises the loss of logits / T, within e^-10 to e^5; 1 for fewer examples than
    `enough`.

    The goal is not 1 but 1 - 1 / (N + 2), as in Platt (1999): if all N answers are right, the loss
    would otherwise fall with T without end.
    The loss is convex in 1 / T, so its slope changes sign once, at a point that bisection finds.
    """
    logits, targets = _checked(logits, targets, logits.shape[-1], multi_label)
    if len(logits) < enough:
        return 1.0
    # Target probabilities (N, C): the truth, except for a share of the other answers.
    doubt, num_classes = 1 / (len(targets) + 2), logits.shape[-1]
    truth = targets if multi_label else F.one_hot(targets, num_classes).double()
    others = 1 if multi_label else max(1, num_classes - 1)  # several labels: each is yes or no
    goals = truth * (1 - doubt) + (1 - truth) * doubt / others
    low, high = COOLEST, HOTTEST
    while high - low > 1e-6:
        middle = (low + high) / 2
        scaled = logits / math.exp(middle)
        p = scaled.sigmoid() if multi_label else scaled.softmax(-1)
        is_too_sure = ((p - goals) * logits).sum() > 0  # the slope of the loss in 1 / T
        low, high = (middle, high) if is_too_sure else (low, middle)
    best = math.exp((low + high) / 2)
    fitted, plain = (_cross_entropy(logits / T, goals, multi_label) for T in (best, 1.0))
    return best if fitted < plain else 1.0  # no T is better if logits are equal


def fit_weights(
    body: Tensor, bag: Tensor, targets: Tensor, multi_label: bool = False
) -> tuple[float, float]:
    """The weights of two parts that give a prediction together: a · body + b · bag.

    Each is divided by its own temperature first. Then the share of the body is the one, in tenths,
    at which the labels are likeliest. It has to earn its place: a few examples that it has right by
    luck are not enough. However few there are, temperatures are fitted: without them, the part that
    is surer would outvote the other, and that is the one that knows its examples by heart.
    """

    def temperature(logits: Tensor) -> float:
        return fit_temperature(logits, targets, multi_label, enough=1)

    heat = temperature(body), temperature(bag)

    def cost(share: float) -> float:
        logits = (share / heat[0] * body + (1 - share) / heat[1] * bag).double()
        logits /= temperature(logits)
        true = targets.to(logits.device, torch.double if multi_label else torch.long)
        num_answers = len(logits) * (logits.shape[-1] if multi_label else 1)
        return num_answers * _cross_entropy(logits, true, multi_label) + PROOF * share

    best = min((tenth / 10 for tenth in range(11)), key=cost)
    return best / heat[0], (1 - best) / heat[1]


# --- the chapters of the report ---

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
    compared = []
    for text, *labels in zip(inputs, answers.true, answers.predicted, strict=True):
        true, predicted = map(answers.named, labels)
        expected, answered = (", ".join(names) or "none" for names in (true, predicted))
        compared.append(Answer(text, expected, answered, float(true == predicted)))
    parts = [
        *(confusion_chapter(scores.confusion, what, note) if scores.confusion else ()),
        *classes_chapter("Classes", scores.classes, note),
        *calibration_chapter(answers.confidence.flatten(), answers.is_right.flatten(), note),
    ]
    if lengths is not None:
        unit, counts = lengths
        parts += trend(
            f"Accuracy by length in {unit}",
            counts,
            [answer.score for answer in compared],
            (unit, "accuracy"),
            f"{note} Each point is a tenth of them, with its 95% interval.",
            "text",
        )
    if errors := answers.surest_errors():
        columns = {"confidence": "share", "predicted": "label", "labelled": "label"}
        columns |= ({} if picture is None else {"image": "image"}) | {column: "text"}
        rows = []
        for index, probability in errors[: MOST_SHOWN if picture is None else MOST_PICTURES]:
            answer, image = compared[index], () if picture is None else (picture(index),)
            rows.append([probability, answer.found, answer.expected, *image, answer.input])
        data = {"columns": [*columns], "rows": rows, "kinds": [*columns.values()]}
        how = f"The {len(rows)} most confident of {len(errors):,} wrong answers."
        parts.append(Chapter("Mistakes", "table", data, how))
    part = f" {note}" if len(inputs) < num_held_out else ""
    notes = tuple(f"{advice}{part}" for advice in scores.with_advice(can_weigh).notes)
    return Examination(tuple(parts), "accuracy", tuple(compared), notes)


def classes_chapter(title: str, scores: Sequence[ClassScore], note: str) -> list[Chapter]:
    """Precision, recall and F1 of each class that occurs."""
    rows = [asdict(one) for one in scores if one.support or one.precision or one.recall]
    return [Chapter(title, "classes", {"classes": rows}, note)] if rows else []


def calibration_chapter(confidence: Tensor, is_right: Tensor, note: str) -> list[Chapter]:
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
    worst = np.sort(np.argsort(-errors, kind="stable")[: MOST_CLASSES - 1])
    group = np.full(len(names), len(worst))
    group[worst] = np.arange(len(worst))
    merged = np.zeros((len(worst) + 1, len(worst) + 1), dtype=matrix.dtype)
    np.add.at(merged, (group[:, None], group[None, :]), matrix)
    return [*(names[index] for index in worst), OTHERS], merged


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
