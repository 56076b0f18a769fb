"""Classifiers of images: what image classifiers and probes share."""

from collections.abc import Sequence

from glassformer.evaluation.classification import Classification
from glassformer.predict.classify import LabelPredictor


class ImageLabelPredictor(LabelPredictor):
    """The verbs of every classifier of images: classify and evaluate."""

    def evaluate(  # type: ignore[override]
        self,
        paths: str | Sequence[str],
        image_column: str | None = None,
        label_column: str | None = None,
        encoding: str = "utf-8",
        errors: int | None = None,
    ) -> Classification:
        """Accuracy, macro F1 and more on labelled images, from the training's columns by default.
        With `errors`, the result has that many of the wrong answers, the most confident first.

        >>> model.evaluate("digits/test").accuracy > 0.5
        True
        """
        columns = () if image_column is None else (image_column,)
        return super().evaluate(paths, columns, label_column, encoding, errors)
