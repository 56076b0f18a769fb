"""What the results of all evaluations have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import nn

SMALLER_IS_BETTER = {"loss", "perplexity", "bits_per_byte", "expected_calibration_error"}


class Result(ABC):
    """How good a model is."""

    score_names: ClassVar[tuple[str, ...]] = ("loss",)
    """The one that models are compared by comes first, and `loss` is among them."""
    details: ClassVar[tuple[str, ...]] = ()
    """The names of what else is written as JSON."""
    loss: float
    notes: tuple[str, ...] = ()
    """What to know about the data or the scores."""
    interval: tuple[float, float] | None = None
    """95% confidence interval of the first score."""

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))  # e^709 is the largest number there is

    def scores(self) -> dict[str, float]:
        """Those that there are, by name."""
        found = {name: getattr(self, name) for name in self.score_names}
        return {name: value for name, value in found.items() if value is not None}

    @abstractmethod
    def headline(self) -> str:
        """One line, for model cards and summaries."""

    def text(self) -> str:
        """For people; several lines where there is more to see."""
        return self.headline()

    def as_json(self) -> dict[str, Any]:
        return self.scores() | {name: getattr(self, name) for name in self.details}


def order(scores: dict[str, float], measure: str) -> tuple[float, float]:
    """A key to sort by, the best first: the measure decides, then the loss."""
    sign = 1 if measure in SMALLER_IS_BETTER else -1
    return sign * scores[measure], scores["loss"]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; afterwards the model is in its former mode."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
