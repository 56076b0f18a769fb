"""A classifier of sequences of numbers: values in, a label and how sure it is out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from glassformer.data.sequences import Sequences
from glassformer.data.series import read_series
from glassformer.errors import GlassformerError
from glassformer.models.classifier import TextClassifier
from glassformer.predict.classifier import ClassificationFound, Prediction
from glassformer.training.scores import judge
from glassformer.training.tasks.labelled import LabelledTask

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
        scores = self.model.probabilities(self.logits(sequences).to(self.model.device)).cpu()
        found = []
        for values, row in zip(sequences, scores.tolist(), strict=True):
            ordered = sorted(zip(self.model.labels, row, strict=True), key=lambda pair: -pair[1])
            found.append(Prediction(f"{len(values)} steps", (ordered[0][0],), dict(ordered)))
        return found

    def logits(self, sequences: Sequence[Values]) -> torch.Tensor:
        """(N, C), before the temperature."""
        features = getattr(self.model.config, "num_features", None)
        for values in sequences:
            if values.ndim != 2 or values.shape[1] != features:
                raise GlassformerError(
                    f"a sequence has the shape {values.shape}, and the model reads (steps, "
                    f"{features})."
                )
        limit = self.model.context_length
        rows = Sequences.of(
            [values if limit is None else values[-limit:] for values in sequences],
            [0] * len(sequences),
            np.float32,
            is_per_item=False,
        )
        logits = torch.empty(len(sequences), len(self.model.labels))
        for numbers, _, found in LabelledTask.read(self.model, rows):
            logits[torch.from_numpy(numbers)] = found
        return logits

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> ClassificationFound:
        """Accuracy, macro F1 and the rest on files of labelled sequences."""
        names = [paths] if isinstance(paths, str) else list(paths)
        column = label_column or self.model.config.label_column
        series = read_series(names, column, encoding)
        number = {label: index for index, label in enumerate(self.model.labels)}
        known = [each for each in series if each.label in number]
        unknown = sorted({each.label for each in series} - number.keys())
        if not known:
            raise GlassformerError(
                f"{', '.join(names)} has only labels that the model does not know: "
                f"{', '.join(unknown)}."
            )
        notes = (f"left out, for the model does not know them: {', '.join(unknown)}",)
        scores = judge(
            self.logits([each.values for each in known]),
            torch.tensor([number[each.label] for each in known]),
            self.model.labels,
            temperature=float(self.model.temperature),
        )
        counts = {label: sum(each.label == label for each in series) for label in unknown}
        return ClassificationFound(scores, counts, notes if unknown else ())
