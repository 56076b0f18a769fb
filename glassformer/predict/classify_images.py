"""Classifying images: files or pixels in; labels, and where the model looked, out."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from glassformer.data.images import Pixels
from glassformer.evaluation.image_logits import read_image_logits
from glassformer.inspection.image_attention import ImageAttention
from glassformer.inspection.rollout import attention_maps, rollout
from glassformer.inspection.subject import Subject
from glassformer.models import name_of
from glassformer.models.image_classifier import ImageClassifier
from glassformer.predict.image_attention import chosen_map, watch
from glassformer.predict.image_labels import ImageLabelPredictor
from glassformer.predict.image_subjects import of_image
from glassformer.predict.inspecting_images import IMAGE_VIEWS, InspectsImages
from glassformer.predict.predictor import View
from glassformer.preprocessing.image import ImageInput, ImagePreprocessing


class ClassifyImagesPredictor(ImageLabelPredictor, InspectsImages):
    """The verbs of an image classifier: classify, inspect and evaluate."""

    verbs = ("classify", "inspect", "evaluate")
    views: ClassVar = IMAGE_VIEWS | {
        "attention": View("attention", "where its attention goes in an image", reads_file=True),
        "rollout": View("rollout", "attention followed through all layers", reads_file=True),
    }
    preprocessing_class = ImagePreprocessing
    model: ImageClassifier  # type: ignore[assignment]
    preprocessing: ImagePreprocessing

    def _read(self, contents: Sequence[ImageInput]) -> tuple[Tensor, list[bool]]:
        def take(rows: range) -> Pixels:
            return np.stack(self.preprocessing.encode(contents[rows.start : rows.stop]))

        number = len(contents)
        logits = read_image_logits(self.model, self.preprocessing, take, number)
        return logits, [False] * number

    def attention(
        self, image: ImageInput, layer: int | None = None, head: int | None = None
    ) -> ImageAttention:
        """Where the attention of a layer and a head goes, by default the mean of all. What counts
        is what the class token attends to, or, without one, the places that are pooled.

        >>> model.attention("photo.png", layer=1).weights.shape
        (8, 8)
        """
        logits, layers, pooled, pixels = self._watched(image)
        maps = attention_maps(layers, pooled)
        notes = []
        if len({each.grid for each in layers}) > 1 and layer is None:
            notes.append(
                "the layers of this model have grids of different sizes, and places attend only to "
                "others in their window; the mean is shown on the finest grid. --view rollout "
                "follows the whole model."
            )
        weights = chosen_map(maps, layer, head)
        return self._seen(
            "attention", image, pixels, weights, logits, (layer, head), maps, tuple(notes)
        )

    def rollout(self, image: ImageInput) -> ImageAttention:
        """How much each patch contributes to the answer if attention is followed through all
        layers (Abnar and Zuidema, 2020).

        >>> model.rollout("photo.png").weights.sum().round(3)
        1.0
        """
        logits, layers, pooled, pixels = self._watched(image)
        return self._seen("rollout", image, pixels, rollout(layers, pooled), logits)

    def _subject(self, image: ImageInput) -> Subject:
        return of_image(self.model, self.preprocessing, image)

    def _watched(self, image: ImageInput) -> tuple[Tensor, Any, Any, Pixels]:
        pixels = self.preprocessing.original(image).pixels
        ready = self.preprocessing.pixels(np.stack(self.preprocessing.encode([pixels])))
        return *watch(self.model, ready), pixels

    def _seen(
        self,
        view: str,
        image: ImageInput,
        pixels: Pixels,
        weights: Any,
        logits: Tensor,
        chosen: tuple[int | None, int | None] = (None, None),
        heads: Any = None,
        notes: tuple[str, ...] = (),
    ) -> ImageAttention:
        scores = self.model.probabilities(logits.to(self.model.device)).cpu()
        best = int(scores.argmax())
        return ImageAttention(
            view=view,
            image=self.preprocessing.shown(image),
            pixels=pixels,
            weights=weights,
            label=self.model.labels[best],
            score=float(scores[best]),
            chosen=chosen,
            heads=heads,
            model=name_of(self.model),
            inspect=lambda: self.inspect(image),
            notes=notes,
        )
