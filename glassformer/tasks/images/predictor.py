"""Classifying images: files or pixels in; labels, and where the model looked, out.

classify, evaluate     images → pixels (N, C, H, W) → logits (N, C) → probabilities
attention, rollout     image → attention of every layer → weights (rows, columns)
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.data.images import Pixels
from glassformer.inspect import Floats
from glassformer.inspect.alignment import ImageAttention
from glassformer.inspect.inspection import Subject
from glassformer.inspect.places import LayerAttention, attention_maps, chosen_map, rollout, watch
from glassformer.models import name_of
from glassformer.models.sources import ImageClassifier
from glassformer.nn.layers import refuse_nan
from glassformer.preprocessing.images import ImageInput, ImagePreprocessing
from glassformer.tasks.evaluating import held_out
from glassformer.tasks.image_subjects import of_image
from glassformer.tasks.inspecting import IMAGE_VIEWS, InspectsImages
from glassformer.tasks.labels.predictor import LabelPredictor
from glassformer.tasks.labels.scores import Classification
from glassformer.tasks.task import View

READ_AT_ONCE = 2**18  # pixels


def read_image_logits(
    model: ImageClassifier,
    preprocessing: ImagePreprocessing,
    take: Callable[[range], Pixels],
    num_images: int,
) -> Tensor:
    """The logits (N, C) of images, before the temperature. `take` returns some of them, resized:
    only one batch is in memory at a time."""
    height, width = preprocessing.image_size
    size = max(1, READ_AT_ONCE // (height * width))
    starts = range(0, num_images, size)
    batches = [range(start, min(start + size, num_images)) for start in starts]
    logits = torch.empty(num_images, len(model.labels))
    pixels = held_out(
        model, batches, lambda rows: preprocessing.pixels(take(rows)), [*map(len, batches)]
    )
    for rows, images in zip(batches, pixels, strict=True):
        batch_logits = model(images)
        refuse_nan(batch_logits.abs())  # -∞, too, is refused
        logits[rows.start : rows.stop] = batch_logits.float().cpu()
    return logits


class ImageLabelPredictor(LabelPredictor):
    """The verbs of every classifier of images, a probe included: classify and evaluate."""

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

        logits = read_image_logits(self.model, self.preprocessing, take, len(contents))
        return logits, [False] * len(contents)

    def attention(
        self, image: ImageInput, layer: int | None = None, head: int | None = None
    ) -> ImageAttention:
        """The attention of a layer and a head to the image (default: the mean of all): that of the
        class token or, without one, of the patches that are pooled.

        >>> model.attention("photo.png", layer=1).weights.shape
        (8, 8)
        """
        logits, layers, pooled, pixels = self._watched(image)
        maps = attention_maps(layers, pooled)
        notes = []
        if len({attention.grid for attention in layers}) > 1 and layer is None:
            notes.append(
                "the layers of this model have grids of different sizes, and places attend only to "
                "others in their window; the mean is shown on the finest grid. --view rollout "
                "follows the whole model."
            )
        weights = chosen_map(maps, layer, head)
        return self._shown(
            "attention", image, pixels, weights, logits, (layer, head), maps, tuple(notes)
        )

    def rollout(self, image: ImageInput) -> ImageAttention:
        """How much each patch contributes to the answer if attention is followed through all
        layers (Abnar and Zuidema, 2020).

        >>> model.rollout("photo.png").weights.sum().round(3)
        1.0
        """
        logits, layers, pooled, pixels = self._watched(image)
        return self._shown("rollout", image, pixels, rollout(layers, pooled), logits)

    def _subject(self, image: ImageInput) -> Subject:
        return of_image(self.model, self.preprocessing, image)

    def _watched(self, image: ImageInput) -> tuple[Tensor, list[LayerAttention], Floats, Pixels]:
        """What `watch` observed on an image, and its pixels."""
        pixels = self.preprocessing.original(image).pixels
        ready = self.preprocessing.pixels(np.stack(self.preprocessing.encode([pixels])))
        return *watch(self.model, ready), pixels

    def _shown(
        self,
        view: str,
        image: ImageInput,
        pixels: Pixels,
        weights: Floats,
        logits: Tensor,
        layer_and_head: tuple[int | None, int | None] = (None, None),
        heads: list[Floats] | None = None,
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
            chosen=layer_and_head,
            heads=heads,
            model=name_of(self.model),
            inspect=lambda: self.inspect(image),
            notes=notes,
        )
