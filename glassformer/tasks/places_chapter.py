"""A chapter of a report: where a model looked in a few images.

"a red circle"     image   a   red   circle       the image again for each word, lit where the
                                                  model looked
3/7.png: 8         image   rollout
"""

from collections.abc import Iterable
from typing import Any

from glassformer.data.images import data_uri
from glassformer.inspect.chapters import Chapter
from glassformer.models.sources import CaptionDecoder, ImageClassifier
from glassformer.preprocessing.images import CaptionPreprocessing, ImagePreprocessing
from glassformer.tasks.caption.predictor import CaptionPredictor
from glassformer.tasks.images.predictor import ClassifyImagesPredictor

LARGEST = 128  # pixels of a side of an image in a report
MOST_WORDS = 24  # of a caption whose panels are shown


def caption_places(
    model: CaptionDecoder, preprocessing: CaptionPreprocessing, captioned: Iterable[tuple[Any, str]]
) -> list[Chapter]:
    """For every word of these captions of images (H, W, C). Long captions are left out."""
    predictor = CaptionPredictor(model, preprocessing)
    looks = [predictor.look(pixels, target=text) for pixels, text in captioned if text]
    scenes = [
        _scene(look.caption, look.pixels, zip(look.words, look.weights, strict=True))
        for look in looks
        if len(look.words) <= MOST_WORDS
    ]
    note = "Panels are bright where the model looked before it wrote that word. The frame is the "
    note += "place with the largest weight, which is given below."
    return [Chapter("Where each word looked", "places", {"scenes": scenes}, note)] if scenes else []


def image_places(
    model: ImageClassifier, preprocessing: ImagePreprocessing, answered: Iterable[tuple[Any, str]]
) -> list[Chapter]:
    """Attention rollout for these images (H, W, C), each with a title."""
    predictor = ClassifyImagesPredictor(model, preprocessing)
    scenes = []
    for pixels, title in answered:
        seen = predictor.rollout(pixels)
        scenes.append(_scene(title, pixels, [(seen.label, seen.weights)]))
    note = "Attention followed back through all layers (rollout): the second image is bright where "
    note += "patches contributed most. The frame is the place with the largest weight, given below."
    return [Chapter("Where it looked", "places", {"scenes": scenes}, note)] if scenes else []


def _scene(title: str, pixels: Any, panels: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An image, and for each label where the model looked."""
    return {
        "title": title,
        "image": data_uri(pixels, LARGEST),
        "size": [*pixels.shape[:2]],
        "panels": [
            {"label": label, "weights": weights.round(4).tolist()} for label, weights in panels
        ],
    }
