"""How good a model is on data that it does not learn from: the loop, and the result.

    for batch in held_out(model, parts, read):      on the model's device, without gradients
        loss = next_token_loss(model.hidden(batch.ids), model.head, batch.targets)
    Result.scores(), .parts(), .as_json()           one kind of result for every task

A listener hears how far the loop is. The code that owns the terminal is far above it, so a context
variable holds the listener, as for attention that is observed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from glassformer.tables import Table, html_table, html_text
from glassformer.wording import score_name, shortened

# --- the loop over held-out batches ---

Part = TypeVar("Part")
Batch = TypeVar("Batch")
Listener = Callable[[float], None]  # is given the share that has been read

EVALUATION_SEED = 2**31  # of what is hidden or drawn in held-out data; no training can have it

_listener: ContextVar[Listener | None] = ContextVar("reading progress", default=None)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients; restore the mode of the model afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def held_out(
    model: Any,
    parts: Sequence[Part],
    batch: Callable[[Part], Batch],
    sizes: Sequence[int] | None = None,
) -> Iterator[Batch]:
    """Batches on the model's device, `batch(part)` for each of the parts, while the model is being
    evaluated. `sizes` says how much work each part is; None: all are alike."""
    # A `for` statement that is left by an error closes this generator, which ends `evaluating`.
    with evaluating(model):
        for part in tracked(parts, sizes or [1] * len(parts)):
            yield _on_device(batch(part), model.device)


def _on_device(batch: Any, device: torch.device) -> Any:
    """A tensor, or a named tuple of tensors."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    return type(batch)(*(part.to(device) for part in batch))


@contextmanager
def reporting_progress(listener: Listener) -> Iterator[None]:
    """Inside, the share of the work that is done is passed to `listener`."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tracked(parts: Iterable[Part], sizes: Sequence[int]) -> Iterator[Part]:
    """The parts of what is read, each reported by its size when the next one is asked for."""
    listener, total, done = _listener.get(), max(1, sum(sizes)), 0
    for part, size in zip(parts, sizes, strict=True):
        yield part
        done += size
        if listener is not None:
            listener(done / total)


# --- the result of an evaluation ---

SMALLER_IS_BETTER = {
    "loss",
    "perplexity",
    "bits_per_byte",
    "bits_per_dim",
    "expected_calibration_error",
}


class Mistake(Protocol):
    """An input that a model got wrong."""

    def as_json(self) -> dict[str, Any]: ...
    def lines(self) -> list[str]:
        """The lines to print: the mistake, then the input."""


class Result(ABC):
    """The scores of a model."""

    score_names: ClassVar[tuple[str, ...]] = ("loss",)
    """Names of the scores, including `loss`. The first one is used to compare models."""
    details: ClassVar[tuple[str, ...]] = ()
    """The names of further fields of the JSON."""
    loss: float
    notes: tuple[str, ...] = ()
    """Notes on the data or the scores."""
    interval: tuple[float, float] | None = None
    """95% confidence interval of the first score."""
    errors: tuple[Mistake, ...] | None = None
    """The worst answers, if they were asked for."""

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))  # e^709 is the largest number there is

    def scores(self) -> dict[str, float]:
        """The scores that there are, by name."""
        values = {name: getattr(self, name) for name in self.score_names}
        return {name: value for name, value in values.items() if value is not None}

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
        """The scores as text, with further lines for details."""
        errors = [] if self.errors is None else _listed(self.errors)
        return "\n".join(["  ".join(self.parts()), *self.lines(), *errors])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """The scores as an HTML table, for notebooks, and below it the details of `text`."""
        scores = self.scores()
        table = html_table(
            [*map(score_name, scores)], [[f"{value:.4f}" for value in scores.values()]]
        )
        _, _, rest = self.text().partition("\n")
        return table + (html_text(rest.strip("\n")) if rest else "")

    def as_json(self) -> dict[str, Any]:
        """The scores and details, with the worst answers if they were asked for."""
        values = self.scores() | {name: getattr(self, name) for name in self.details}
        if self.errors is not None:
            values["errors"] = [mistake.as_json() for mistake in self.errors]
        return values


def _listed(errors: Sequence[Mistake]) -> list[str]:
    if not errors:
        return ["no errors"]
    lines = (line for mistake in errors for line in mistake.lines())
    return ["", "errors, the worst first:", *lines]


def order(measure: str, value: float, loss: float) -> tuple[float, float]:
    """A key to sort by, the best first: the value of the measure decides, then the loss."""
    return value if measure in SMALLER_IS_BETTER else -value, loss


# --- wrong answers, for people to read: `evaluate --errors N`, and the report ---

SHOWN = 200  # characters of a text on the terminal


@dataclass(frozen=True)
class WrongLabel:
    """An input with another label than the model's."""

    text: str
    labels: tuple[str, ...]
    predicted: tuple[str, ...]
    probability: float
    """The probability of the prediction; among several labels, that of the surest wrong one."""
    source: str
    is_multi_label: bool = False

    def as_json(self) -> dict[str, Any]:
        several = self.is_multi_label
        true = {"labels": list(self.labels)} if several else {"label": self.labels[0]}
        predicted = list(self.predicted) if several else self.predicted[0]
        answer = {"text": self.text, **true, "predicted": predicted}
        return answer | {"probability": self.probability, "source": self.source}

    def lines(self) -> list[str]:
        predicted, true = (", ".join(names) or "none" for names in (self.predicted, self.labels))
        head = f"{self.probability:6.1%}  predicted {predicted}, labelled {true}  {self.source}"
        if self.text == self.source:  # an image is shown by the name of its file
            return [head]
        return [head.rstrip(), f"        {shortened(self.text, SHOWN)}"]


@dataclass(frozen=True)
class WrongTags:
    """A sentence with other tags than the model's."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    predicted: tuple[str, ...]
    scores: tuple[float, ...]
    """The probability of each predicted tag."""
    source: str

    @property
    def share_right(self) -> float:
        return (len(self.tags) - len(self.wrong)) / len(self.tags)

    @property
    def wrong(self) -> list[int]:
        """The numbers of the words with wrong tags, the surest first."""
        words = [n for n, tag in enumerate(self.tags) if tag != self.predicted[n]]
        return sorted(words, key=lambda n: -self.scores[n])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        head = f"{self.scores[self.wrong[0]]:6.1%}  "
        marked = [
            word if tag == predicted else f"{word} [{predicted}, tagged {tag}]"
            for word, tag, predicted in zip(self.words, self.tags, self.predicted, strict=True)
        ]
        return [f"{head}{' '.join(marked)}  {self.source}".rstrip()]


def wrong_sentences(
    sentences: Sequence[WrongTags], most: int | None = None
) -> tuple[WrongTags, ...]:
    """The sentences with a wrong tag, those with the surest wrong tag first."""
    wrong = [sentence for sentence in sentences if sentence.tags != sentence.predicted]
    wrong.sort(key=lambda sentence: -sentence.scores[sentence.wrong[0]])
    return tuple(wrong[:most])


# --- what quantising a model costs: its scores on the same data before and after ---


@dataclass(frozen=True)
class QuantizedResult(Result):
    """The result of a quantised model, beside that of the model in float32."""

    kind: str
    """The type of the weights, such as int8."""
    original: Result
    quantized: Result

    @property
    def loss(self) -> float:  # type: ignore[override]
        return self.quantized.loss

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.quantized.notes

    @property
    def measure(self) -> str:
        """The score to compare: perplexity, where there is one."""
        names = self.quantized.scores()
        return "perplexity" if "perplexity" in names else next(iter(names))

    @property
    def change(self) -> float | None:
        """How much larger the measure is after quantising, as a share; None if it was 0."""
        before = self.original.scores()[self.measure]
        return self.quantized.scores()[self.measure] / before - 1 if before else None

    def scores(self) -> dict[str, float]:
        return self.quantized.scores()

    def parts(self) -> list[str]:
        return self.quantized.parts()

    def summary(self) -> str:
        """One line, for model cards."""
        before = self.original.scores()[self.measure]
        after = self.quantized.scores()[self.measure]
        change = "" if self.change is None else f" ({self.change:+.2%})"
        name = score_name(self.measure)
        return f"{name} {before:.4f} in float32, {after:.4f} in {self.kind}{change}"

    def text(self) -> str:
        results = (("float32", self.original), (self.kind, self.quantized))
        parts = [f"{name + ':':<9}{'  '.join(result.parts())}" for name, result in results]
        return "\n".join([*parts, self.summary(), *self.quantized.text().split("\n")[1:]])

    def as_json(self) -> dict[str, Any]:
        more = {"quantize": self.kind, "float32": self.original.as_json(), "change": self.change}
        return self.quantized.as_json() | more
