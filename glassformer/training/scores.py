"""How good predictions of classes are.

    precision  right of a class / predicted as the class
    recall     right of a class / all there are of the class
    F1         2 · precision · recall / (precision + recall)
    macro F1   mean of F1 over the classes that occur, predicted or true: rare ones count as much
    loss       mean of -log p(class | example) at a temperature T: p = softmax(logits / T)

With several labels each label is a yes-or-no question of its own: p = sigmoid(logit / T), yes above
one half, and the loss is the mean over all questions.

The counts are written out here, because to import torchmetrics takes longer than to score a test
set (it brings scipy.signal and transformers along), and it refuses a single label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.wording import counted

NORMAL_95 = 1.959963984540054  # 95 % of a normal distribution lie within so many deviations
COOLEST, HOTTEST = -10.0, 5.0  # of log T; hotter, and scores would no longer differ in float32
ENOUGH_TO_FIT = 20  # examples; from fewer, a temperature would be noise


@dataclass(frozen=True)
class ClassScore:
    label: str
    precision: float
    recall: float
    f1: float
    support: int

    @classmethod
    def of(cls, label: str, right: int, predicted: int, true: int) -> "ClassScore":
        """From counts; what has nothing to be divided by is 0, as in scikit-learn and conlleval."""
        return cls(
            label,
            precision=right / max(predicted, 1),
            recall=right / max(true, 1),
            f1=2 * right / max(predicted + true, 1),
            support=true,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "support": self.support,
        }


@dataclass(frozen=True)
class Classification:
    """An evaluation of a classifier."""

    loss: float
    """Mean cross-entropy in nats, at the temperature the classifier was judged at."""
    accuracy: float
    """With several labels: the share of examples with exactly the right set."""
    macro_f1: float
    expected_calibration_error: float
    num_examples: int
    classes: tuple[ClassScore, ...]
    interval: tuple[float, float]
    """95 % Wilson interval of the accuracy."""

    def as_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "accuracy_interval": list(self.interval),
            "macro_f1": self.macro_f1,
            "loss": self.loss,
            "expected_calibration_error": self.expected_calibration_error,
            "num_examples": self.num_examples,
            "classes": {score.label: score.as_json() for score in self.classes},
        }

    def text(self) -> str:
        low, high = self.interval
        return (
            f"accuracy {self.accuracy:.4f} (95 % interval {low:.4f} to {high:.4f})  "
            f"macro F1 {self.macro_f1:.4f}  loss {self.loss:.4f}  "
            f"calibration error {self.expected_calibration_error:.4f}  "
            f"{counted(self.num_examples, 'example')}\n{table('class', self.classes)}"
        )


def table(heading: str, scores: Sequence[ClassScore]) -> str:
    """A line for each class, in columns."""
    width = max([len(heading), *(len(score.label) for score in scores)])
    lines = [f"{heading:<{width}}  precision  recall      F1  support"]
    lines += [
        f"{score.label:<{width}}  {score.precision:>9.4f}  {score.recall:.4f}  {score.f1:.4f}"
        f"  {score.support:>7,}"
        for score in scores
    ]
    return "\n".join(lines)


def judge(
    logits: Tensor,
    targets: Tensor,
    labels: Sequence[str],
    *,
    temperature: float = 1.0,
    multi_label: bool = False,
) -> Classification:
    """Compare logits (N, C) with numbers of classes (N,), or several labels with 0 and 1 (N, C)."""
    if not (0 < temperature < math.inf):
        raise GlassformerError(f"A temperature must be above 0, not {temperature}.")
    logits, targets = _checked(logits, targets, len(labels), multi_label)
    scaled = logits / temperature
    if multi_label:
        predicted, true = logits > 0, targets.bool()  # (N, C)
        is_right = predicted == true
        confidence = scaled.abs().sigmoid()  # of the answer given, be it yes or no
    else:
        chosen = logits.argmax(-1)
        predicted, true = _one_hot(chosen, len(labels)), _one_hot(targets, len(labels))
        is_right = chosen == targets
        confidence = scaled.softmax(-1).amax(-1)
    num_right = int((predicted == true).all(-1).sum())
    classes = _per_class(predicted, true, labels)
    return Classification(
        loss=_loss(scaled, targets, multi_label),
        accuracy=num_right / len(logits),
        macro_f1=_macro_f1(classes, predicted.any(0)),
        expected_calibration_error=expected_calibration_error(confidence, is_right),
        num_examples=len(logits),
        classes=classes,
        interval=wilson(num_right, len(logits)),
    )


def fit_temperature(logits: Tensor, targets: Tensor, multi_label: bool = False) -> float:
    """The T that minimises the loss of logits / T, within e^-10 to e^5.

    The N answers are doubted a little, as Platt does (1999): the goal is not 1 but 1 - 1 / (N + 2).
    Else there would be no best T where all is right: the cooler, the likelier.
    The loss is convex in 1 / T, so it has one valley in log T, and golden sections close in on it.
    """
    logits, targets = _checked(logits, targets, logits.shape[-1], multi_label)
    if len(logits) < ENOUGH_TO_FIT:
        return 1.0
    goals = _doubted(targets, logits.shape[-1], multi_label)

    def loss(log_temperature: float) -> float:
        return _loss(logits / math.exp(log_temperature), goals, multi_label)

    low, high = COOLEST, HOTTEST
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    left_loss, right_loss = loss(left), loss(right)
    while high - low > 1e-6:
        if left_loss <= right_loss:
            high, right, right_loss = right, left, left_loss
            left = high - golden * (high - low)
            left_loss = loss(left)
        else:
            low, left, left_loss = left, right, right_loss
            right = low + golden * (high - low)
            right_loss = loss(right)
    best = (low + high) / 2
    return math.exp(best) if loss(best) < loss(0.0) else 1.0  # logits that are all the same: no T


def _doubted(targets: Tensor, num_classes: int, multi_label: bool) -> Tensor:
    """Probabilities (N, C) to aim at: the truth, but for a share that all other answers have."""
    doubt = 1 / (len(targets) + 2)
    if multi_label:  # each label is a choice of two, yes or no
        return targets * (1 - doubt) + (1 - targets) * doubt
    truth = F.one_hot(targets, num_classes).double()
    return truth * (1 - doubt) + (1 - truth) * doubt / max(1, num_classes - 1)


def expected_calibration_error(confidence: Tensor, is_right: Tensor, bins: int = 15) -> float:
    """∑ over bins of confidence (share of answers in the bin) · |accuracy - mean confidence|."""
    confidence, is_right = confidence.flatten().double(), is_right.flatten().double()
    number = (confidence * bins).long().clamp(max=bins - 1)  # a confidence of 1 is in the last bin
    gap = torch.zeros(bins, dtype=torch.double, device=confidence.device)
    gap.index_add_(0, number, is_right - confidence)  # count · (accuracy - mean confidence)
    return gap.abs().sum().item() / max(len(confidence), 1)


def wilson(successes: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score: sensible for few trials and near 0 and 1.

    (p + z²/2n ± z √(p(1 - p)/n + z²/4n²)) / (1 + z²/n)
    """
    if total == 0:
        return 0.0, 1.0
    share, squared = successes / total, NORMAL_95**2 / total
    middle = share + squared / 2
    reach = math.sqrt(squared * (share * (1 - share) + squared / 4))
    # rounding must not leave a hair's breadth outside of what is possible
    return (
        max(0.0, (middle - reach) / (1 + squared)) if successes else 0.0,
        min(1.0, (middle + reach) / (1 + squared)) if successes < total else 1.0,
    )


def _checked(
    logits: Tensor, targets: Tensor, num_classes: int, multi_label: bool
) -> tuple[Tensor, Tensor]:
    """In double precision, so that a mean of a million losses is exact."""
    expected = (len(logits), num_classes) if multi_label else (len(logits),)
    if tuple(logits.shape) != (len(logits), num_classes) or tuple(targets.shape) != expected:
        raise ValueError(
            f"logits {tuple(logits.shape)} and targets {tuple(targets.shape)} "
            f"do not fit {num_classes} classes"
        )
    if not len(logits):
        raise GlassformerError("There are no examples to score.")
    if logits.isnan().any():
        raise GlassformerError(
            "The model's predictions are not numbers (NaN): its training went astray; "
            "train again with a lower learning rate."
        )
    logits = logits.detach().double()
    return logits, targets.to(logits.device, torch.double if multi_label else torch.long)


def _loss(logits: Tensor, targets: Tensor, multi_label: bool) -> float:
    of = F.binary_cross_entropy_with_logits if multi_label else F.cross_entropy
    return of(logits, targets).item()


def _one_hot(numbers: Tensor, num_classes: int) -> Tensor:
    return F.one_hot(numbers, num_classes).bool()  # (N,) → (N, C)


def _per_class(predicted: Tensor, true: Tensor, labels: Sequence[str]) -> tuple[ClassScore, ...]:
    counts = torch.stack([predicted & true, predicted, true]).sum(1)  # (3, C)
    columns: list[list[int]] = counts.T.tolist()
    return tuple(
        ClassScore.of(label, *column) for label, column in zip(labels, columns, strict=True)
    )


def _macro_f1(classes: Sequence[ClassScore], is_predicted: Tensor) -> float:
    occurring = [
        score.f1
        for score, predicted in zip(classes, is_predicted.tolist(), strict=True)
        if score.support or predicted
    ]
    return sum(occurring) / max(len(occurring), 1)
