"""What quantising a model costs: its scores on the same data before and after."""

from dataclasses import dataclass
from typing import Any

from glassformer.evaluation.result import Result
from glassformer.wording import score_name


@dataclass(frozen=True)
class QuantizedResult(Result):
    """The result of a quantised model, beside that of the model in float32."""

    kind: str
    """Such as int8."""
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
        before, after = (each.scores()[self.measure] for each in (self.original, self.quantized))
        change = "" if self.change is None else f" ({self.change:+.2%})"
        name = score_name(self.measure)
        return f"{name} {before:.4f} in float32, {after:.4f} in {self.kind}{change}"

    def text(self) -> str:
        named = (("float32", self.original), (self.kind, self.quantized))
        both = [f"{name + ':':<9}{'  '.join(result.parts())}" for name, result in named]
        return "\n".join([*both, self.summary(), *self.quantized.text().split("\n")[1:]])

    def as_json(self) -> dict[str, Any]:
        more = {"quantize": self.kind, "float32": self.original.as_json(), "change": self.change}
        return self.quantized.as_json() | more
