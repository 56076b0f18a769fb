"""A classifier of sequences of numbers: values in, a label and how sure it is out."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from glassformer.data.sequences import Sequences
from glassformer.data.series import read_series
from glassformer.data.splits import listed_with_counts
from glassformer.errors import GlassformerError
from glassformer.models.classifier import TextClassifier
from glassformer.predict.classifier import ClassificationFound, Prediction, logits_of, said
from glassformer.training.scores import judge
from glassformer.wording import counted

Values = npt.NDArray[np.floating[Any]]


class SeriesPredictor:
    """The verbs of a classifier of sequences: classify and evaluate."""

    def __init__(self, model: TextClassifier) -> None:
        self.model = model.eval()

    def classify(self, values: Values) -> Prediction:
        """Of one sequence: (steps, features)."""
        (prediction,) = self.classify_batch([values])
        return prediction

    def classify_batch(self, sequences: Sequence[Values]) -> list[Prediction]:
        shown = [counted(len(values), "step") for values in sequences]
        return said(self.model, shown, self.logits(sequences)) if sequences else []

    def logits(self, sequences: Sequence[Values]) -> torch.Tensor:
        """(N, C), before the temperature."""
        for values in sequences:
            self._check_shape(values, "a sequence")
        limit = self.model.context_length
        rows = Sequences.of(
            [values if limit is None else values[-limit:] for values in sequences],
            [0] * len(sequences),
            np.float32,
            is_per_item=False,
        )
        return logits_of(self.model, rows)

    def _check_shape(self, values: Values, what: str) -> None:
        features = getattr(self.model.config, "num_features", None)
        if values.ndim != 2 or values.shape[1] != features:
            raise GlassformerError(
                f"{what} has the shape {values.shape}, and the model reads (steps, {features})."
            )

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> ClassificationFound:
        """Accuracy, macro F1 and the rest on files of labelled sequences."""
        names = [paths] if isinstance(paths, str) else list(paths)
        config = self.model.config
        features = text_column or config.text_column
        series = read_series(names, label_column or config.label_column, encoding, features)
        for each in series:
            self._check_shape(each.values, each.source)
        number = {label: index for index, label in enumerate(self.model.labels)}
        known = [each for each in series if each.label in number]
        counts = Counter(each.label for each in series if each.label not in number)
        if not known:
            raise GlassformerError(
                f"{', '.join(names)} has only labels that the model does not know: "
                f"{listed_with_counts(counts)}. It knows: {', '.join(self.model.labels)}."
            )
        notes = tuple(
            f"{counted(count, 'sequence')} of a label that the model does not know count as wrong: "
            f"{label}"
            for label, count in counts.items()
        )
        scores = judge(
            self.logits([each.values for each in known]),
            torch.tensor([number[each.label] for each in known]),
            self.model.labels,
            temperature=float(self.model.temperature),
        )
        found = ClassificationFound(scores, dict(counts), notes)
        return found.with_wrong(len(series) - len(known))
