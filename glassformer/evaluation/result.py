"""What the results of all evaluations have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from glassformer.evaluation.mistakes import Mistake
from glassformer.tables import Table, html_table, html_text
from glassformer.wording import score_name

SMALLER_IS_BETTER = {
    "loss",
    "perplexity",
    "bits_per_byte",
    "bits_per_dim",
    "expected_calibration_error",
}


class Result(ABC):
    """How good a model is."""

    score_names: ClassVar[tuple[str, ...]] = ("loss",)
    """Names of the scores, including `loss`. The first one is used to compare models."""
    details: ClassVar[tuple[str, ...]] = ()
    """The names of what else is written as JSON."""
    loss: float
    notes: tuple[str, ...] = ()
    """What to know about the data or the scores."""
    interval: tuple[float, float] | None = None
    """95% confidence interval of the first score."""
    errors: tuple[Mistake, ...] | None = None
    """The worst answers, if they were asked for."""

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))  # e^709 is the largest number there is

    def scores(self) -> dict[str, float]:
        """Those that there are, by name."""
        found = {name: getattr(self, name) for name in self.score_names}
        return {name: value for name, value in found.items() if value is not None}

    def interval_of(self, name: str) -> tuple[float, float] | None:
        """The 95% confidence interval of a score, if it is known."""
        return self.interval if name == next(iter(self.scores())) else None

    @property
    def metrics(self) -> Table:
        """The scores as a table of one row."""
        return Table([dict(self.scores())])

    @abstractmethod
    def parts(self) -> list[str]:
        """The scores in words, and what they were computed on."""

    def lines(self) -> list[str]:
        """More for people to see, below the scores."""
        return []

    def headline(self) -> str:
        """One line, for model cards and summaries."""
        return ", ".join(self.parts())

    def text(self) -> str:
        """For people; several lines where there is more to see."""
        errors = [] if self.errors is None else _listed(self.errors)
        return "\n".join(["  ".join(self.parts()), *self.lines(), *errors])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """For notebooks: the scores as a table, and below it what `text` shows below them."""
        scores = self.scores()
        table = html_table(
            [*map(score_name, scores)], [[f"{value:.4f}" for value in scores.values()]]
        )
        _, _, rest = self.text().partition("\n")
        return table + (html_text(rest.strip("\n")) if rest else "")

    def as_json(self) -> dict[str, Any]:
        """Depending on the task; with the worst answers, if they were asked for."""
        found = self.scores() | {name: getattr(self, name) for name in self.details}
        if self.errors is not None:
            found["errors"] = [each.as_json() for each in self.errors]
        return found


def _listed(errors: Sequence[Mistake]) -> list[str]:
    if not errors:
        return ["no errors"]
    return ["", "errors, the worst first:", *(line for each in errors for line in each.lines())]


def order(measure: str, value: float, loss: float) -> tuple[float, float]:
    """A key to sort by, the best first: the value of the measure decides, then the loss."""
    return value if measure in SMALLER_IS_BETTER else -value, loss
