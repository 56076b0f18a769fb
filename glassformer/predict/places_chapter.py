"""A chapter of a report: where a model looked in a few images.

"a red circle"     image   a   red   circle       the image again for each word, lit where the
                                                  model looked
3/7.png: 8         image   rollout
"""

from collections.abc import Iterable, Sequence
from typing import Any

from glassformer.data.thumbnails import data_uri
from glassformer.evaluation.chapter import Chapter
from glassformer.inspection.image_attention import ImageAttention
from glassformer.inspection.word_places import WordPlaces
from glassformer.models.caption_decoder import CaptionDecoder
from glassformer.models.image_classifier import ImageClassifier
from glassformer.predict.caption import CaptionPredictor
from glassformer.predict.classify_images import ClassifyImagesPredictor
from glassformer.preprocessing.caption import CaptionPreprocessing
from glassformer.preprocessing.image import ImagePreprocessing

LARGEST = 128  # pixels of a side of an image in a report
MOST_WORDS = 24  # of a caption whose panels are shown


def caption_places(
    model: CaptionDecoder, preprocessing: CaptionPreprocessing, captioned: Iterable[tuple[Any, str]]
) -> list[Chapter]:
    """For every word of these captions of images (H, W, C). Long captions are left out."""
    predictor = CaptionPredictor(model, preprocessing)
    found = [predictor.look(pixels, target=text) for pixels, text in captioned if text]
    scenes = [_scene(each.caption, each.pixels, _words(each)) for each in found]
    shown = [each for each in scenes if len(each["panels"]) <= MOST_WORDS]
    note = "Panels are bright where the model looked before it wrote that word. The frame is the "
    note += "place with the largest weight, which is given below."
    return _chapter("Where each word looked", shown, note)


def image_places(
    model: ImageClassifier, preprocessing: ImagePreprocessing, answered: Iterable[tuple[Any, str]]
) -> list[Chapter]:
    """Attention rollout for these images (H, W, C), each with a title."""
    predictor = ClassifyImagesPredictor(model, preprocessing)
    scenes = [
        _scene(title, pixels, _answer(predictor.rollout(pixels))) for pixels, title in answered
    ]
    note = "Attention followed back through all layers (rollout): the second image is bright where "
    note += "patches contributed most. The frame is the place with the largest weight, given below."
    return _chapter("Where it looked", scenes, note)


def _words(found: WordPlaces) -> list[dict[str, Any]]:
    pairs = zip(found.words, found.weights, strict=True)
    return [{"label": word, "weights": weights.round(4).tolist()} for word, weights in pairs]


def _answer(found: ImageAttention) -> list[dict[str, Any]]:
    return [{"label": found.label, "weights": found.weights.round(4).tolist()}]


def _scene(title: str, pixels: Any, panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    image = data_uri(pixels, LARGEST)
    return {"title": title, "image": image, "size": [*pixels.shape[:2]], "panels": panels}


def _chapter(title: str, scenes: Sequence[dict[str, Any]], note: str) -> list[Chapter]:
    return [Chapter(title, "places", {"scenes": list(scenes)}, note)] if scenes else []
