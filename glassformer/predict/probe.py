"""A linear probe in use: the label of an image, from one layer of an ImageGPT."""

from collections.abc import Sequence

from glassformer.evaluation.classification import Classification
from glassformer.models.image_gpt_probe import ImageGPTProbe
from glassformer.predict.classify import ClassifyPredictor
from glassformer.preprocessing.labelled import LabelledExample
from glassformer.preprocessing.palette import PalettePreprocessing


class ProbePredictor(ClassifyPredictor):
    """The verbs of a probe: classify and evaluate."""

    preprocessing_class = PalettePreprocessing
    model: ImageGPTProbe
    preprocessing: PalettePreprocessing

    def _shown(self, example: LabelledExample) -> str:
        return example.source

    def evaluate(  # type: ignore[override]
        self,
        paths: str | Sequence[str],
        image_column: str | None = None,
        label_column: str | None = None,
        encoding: str = "utf-8",
        errors: int | None = None,
    ) -> Classification:
        """Accuracy, macro F1 and more on labelled images, from the training's columns by default.

        >>> model.evaluate("digits/test").accuracy > 0.5
        True
        """
        columns = () if image_column is None else (image_column,)
        return super().evaluate(paths, columns, label_column, encoding, errors)
