"""Sequences of numbers: each feature is scaled to mean 0 and standard deviation 1."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from glassformer.data.time_series import read_series
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing import LabelledExample, LabelledInputs
from glassformer.wording import counted

SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

Values = npt.NDArray[np.floating[Any]]


class SeriesPreprocessing(LabelledInputs):
    """The scale of each feature in the training data."""

    kind: ClassVar[str] = "series"
    unit: ClassVar[str] = "step"
    what_is_kept: ClassVar[str] = "only the last steps are read"

    mean: tuple[Annotated[float, Field(ge=-LARGEST, le=LARGEST)], ...] = Field(min_length=1)
    deviation: tuple[Annotated[float, Field(ge=SMALLEST, le=LARGEST)], ...]

    @model_validator(mode="after")
    def _one_scale_per_feature(self) -> Self:
        if len(self.mean) != len(self.deviation):
            raise ValueError(
                f"mean has {len(self.mean)} values and deviation {len(self.deviation)}, but both "
                "need one per feature"
            )
        return self

    @classmethod
    def of(cls, values: Values, columns: Sequence[str], label: str | None) -> Self:
        """The preprocessing with the scale of the training data, all of whose steps are `values`:
        (N, features)."""
        mean, deviation = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
        return cls(
            text_column=tuple(columns),
            label_column=label,
            mean=tuple(mean.tolist()),
            deviation=tuple(np.where(deviation < SMALLEST, 1.0, deviation).tolist()),
        )

    @property
    def sizes(self) -> dict[str, int | None]:
        return {"num_features": self.width}

    @property
    def dtype(self) -> str:
        return "<f4"

    def encode(self, series: Sequence[Values]) -> list[Any]:
        """The scaled steps of each sequence."""
        for values in series:
            self._check(values, "a sequence")
        mean, deviation = np.array((self.mean, self.deviation), dtype=np.float32)
        return [(values.astype(np.float32) - mean) / deviation for values in series]

    def rows(self, encoded: Sequence[Any], limit: int | None) -> tuple[list[Any], list[bool]]:
        if limit is None:
            return list(encoded), [False] * len(encoded)
        return [steps[-limit:] for steps in encoded], [len(steps) > limit for steps in encoded]

    def cut(self, row: Any, limit: int) -> Any:
        return row[-limit:]

    @property
    def width(self) -> int:
        return len(self.mean)

    def _check(self, values: Values, what: str) -> None:
        if values.ndim != 2 or values.shape[1] != self.width:
            raise GlassformerError(
                f"{what} has the shape {values.shape}, but the model reads (steps, {self.width})."
            )

    def read_labelled(
        self,
        paths: Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> tuple[Sequence[LabelledExample], list[str]]:
        features = text_column or self.text_column
        series = read_series(paths, label_column or self.label_column, encoding, features)
        for sequence in series:
            self._check(sequence.values, sequence.source)
        return series, []

    def read_inputs(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> Iterator[tuple[Values, str]]:
        features = text_column or self.text_column
        for series in read_series(paths, self.label_column, encoding, features, is_labelled=False):
            self._check(series.values, series.source)
            yield series.values, series.source

    def from_line(self, line: str) -> Values:
        raise UsageError("this model reads time series. Pass a file of them with --data.")

    def is_one(self, content: Any) -> bool:
        return isinstance(content, np.ndarray) and content.ndim < 3

    def shown(self, values: Values) -> str:
        return counted(len(values), "step") if len(values) else ""

    def trial(self, row: Any) -> tuple[str, ...]:
        return "--data", "FILE"

    def summary(self) -> dict[str, str]:
        return {"features": f"{self.width:,}, scaled to mean 0 and standard deviation 1"}

    def facts(self) -> dict[str, Any]:
        return dict(self.sizes)
