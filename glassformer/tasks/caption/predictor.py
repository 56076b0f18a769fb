"""A captioner in use: it describes images, and shows where it looked for every word.

    image          →  memory of its places  →  beam search  →  Captions
    image, text    →  (T, N) attention of words to places   →  WordPlaces

The memory is an image instead of a sentence; the decoder and its search are those of translation.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast, overload

import numpy as np
import torch
from pydantic import Field

from glassformer.config import Count
from glassformer.data.batches import ChosenImages
from glassformer.data.image_sets import ImageExample, read_images
from glassformer.data.images import Pixels, at_most, resized
from glassformer.errors import UsageError
from glassformer.generation.beam import Beams
from glassformer.inspect.alignment import WordPlaces
from glassformer.inspect.inspection import Inspection, Subject
from glassformer.models import name_of
from glassformer.models.sources import CaptionDecoder
from glassformer.preprocessing.images import CaptionPreprocessing, ImageInput
from glassformer.tasks import answers
from glassformer.tasks.alignment import attention_to, select_weights, shown_tokens, word_starts
from glassformer.tasks.caption import scores
from glassformer.tasks.image_subjects import LARGEST_PICTURE, of_caption
from glassformer.tasks.inspecting import IMAGE_VIEWS, InspectsImages
from glassformer.tasks.task import View, as_list


class CaptionSettings(Beams):
    """How to write captions. Names follow Hugging Face's."""

    max_new_tokens: Count | None = Field(None, ge=1)
    """The most tokens of a caption, with its end, up to the model's context (null: as many as the
    longest caption in training has)."""


class Captions(answers.WrittenTexts):
    """The captions of an image, the best first. The source is what the image is called."""

    @property
    def image(self) -> str:
        return self.source

    @property
    def captions(self) -> list[answers.WrittenText]:
        return self.ranked

    def as_json(self) -> dict[str, Any]:
        return {"image": self.source, "captions": [asdict(one) for one in self.ranked]}


class CaptionPredictor(InspectsImages):
    """The verbs of a captioner: caption, look, evaluate."""

    verbs = ("caption", "inspect", "evaluate")
    views: ClassVar = IMAGE_VIEWS | {
        "words": View("look", "the place of an image that each word looks at", reads_file=True)
    }
    preprocessing_class = CaptionPreprocessing
    settings_class = CaptionSettings
    model: CaptionDecoder
    preprocessing: CaptionPreprocessing

    @overload
    def caption(self, image: ImageInput, **settings: Any) -> Captions: ...
    @overload
    def caption(self, image: list[ImageInput], **settings: Any) -> list[Captions]: ...
    def caption(self, image: Any, **settings: Any) -> Captions | list[Captions]:
        """The best captions of an image: a path, or an array of pixels (uint8). A list gives a
        list. The settings are those of `CaptionSettings`.

        >>> model.caption("scene.png").text
        '...'
        >>> found = model.caption("scene.png", num_beams=4, num_return_sequences=2)
        >>> [(each.text, each.score) for each in found.captions]
        [('...', -...), ('...', -...)]
        """
        if self.preprocessing.is_one(image):
            return self.caption_batch([image], **settings)[0]
        return self.caption_batch(list(image), **settings)

    def caption_batch(self, images: Sequence[ImageInput], **settings: Any) -> list[Captions]:
        """Describe every image, in order.

        >>> [each.text for each in model.caption_batch(["scene.png"], num_beams=1)]
        ['...']
        """
        beams = self.settings(settings)
        if not images:
            return []
        pixels = np.stack(self.preprocessing.encode(images))  # (B, H, W, C)
        results = scores.search_captions(
            self.model, self.preprocessing, pixels, beams, beams.max_new_tokens
        )
        decode = self.preprocessing.decode
        return [
            Captions(
                self.preprocessing.shown(image),
                [
                    answers.WrittenText(decode(one.ids), one.score, one.finish_reason)
                    for one in best
                ],
            )
            for image, best in zip(images, results, strict=True)
        ]

    def look(
        self,
        image: ImageInput,
        target: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = True,
        **settings: Any,
    ) -> WordPlaces:
        """Attention to the image for each word of the caption, or of `target`. Without `layer` or
        `head`, the mean of all; with `words=False`, for each token.

        >>> found = model.look("scene.png")
        >>> len(found.words) == len(found.weights)
        True
        """
        preprocessing = self.preprocessing
        original = preprocessing.original(image).pixels  # (H, W, C)
        small = np.stack([resized(original, preprocessing.image_size)])  # (1, H, W, C)
        pixels = preprocessing.pixels(small).to(self.model.device)
        ids = self._written(small, target, settings)
        with torch.inference_mode():
            memory = self.model.encode(pixels)
        heads = attention_to(memory, self.model, ids)  # (layers, H, T, N)
        grid = self.model.grid
        total = float(answers.logprobs_about(memory, self.model, ids).sum())
        places = WordPlaces(
            image=preprocessing.shown(image),
            caption=preprocessing.decode(ids[1:]) if target is None else target,
            score=self.settings({}).score(total, len(ids) - 1),
            words=shown_tokens(preprocessing.tokenizer, ids[1:]),
            weights=select_weights(heads, layer, head).unflatten(-1, grid).double().numpy(),
            is_cut_off=ids[-1] != preprocessing.end,
            heads=heads.unflatten(-1, grid).double().numpy(),
            chosen=(layer, head),
            model=name_of(self.model),
            inspect=lambda: Inspection(of_caption(self.model, preprocessing, image, original, ids)),
            pixels=at_most(original, LARGEST_PICTURE),
        )
        return places.in_words(word_starts(preprocessing.tokenizer, ids[1:])) if words else places

    def _written(self, small: Pixels, target: str | None, settings: dict[str, Any]) -> list[int]:
        """A caption of an image (1, H, W, C), from its start to its end: `target`, or the model's
        own, which may have been cut off before its end."""
        preprocessing = self.preprocessing
        if target is not None:
            (ids,) = preprocessing.encode_captions([" ".join(target.split())])
            answers.check_room("caption", len(ids) - 1, self.model.context_length)
            return ids
        beams = self.settings(settings)
        results = scores.search_captions(
            self.model, preprocessing, small, beams, beams.max_new_tokens
        )
        return answers.whole_ids(preprocessing, results[0][0])

    def inspect(
        self,
        image: ImageInput,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        target: str | None = None,
    ) -> Inspection:
        """What the model computes on an image while it writes its caption, or `target`, another
        one: patches, attention of words to patches, predictions. `layers` and `heads` limit the
        attention that is kept.

        >>> seen = model.inspect("scene.png")
        >>> seen.cross_attention.shape[2] == len(seen.predictions)
        True
        """
        return Inspection(self._subject(image, target), layers, heads)

    def _subject(self, image: ImageInput, target: str | None = None) -> Subject:
        original = self.preprocessing.original(image).pixels
        small = np.stack([resized(original, self.preprocessing.image_size)])  # (1, H, W, C)
        ids = self._written(small, target, {})
        return of_caption(self.model, self.preprocessing, image, original, ids)

    def evaluate(
        self,
        paths: str | Sequence[str] = (),
        *,
        image_column: str | None = None,
        text_column: Sequence[str] = (),
        encoding: str = "utf-8",
        max_new_tokens: int | None = None,
        bleu_tokenizer: str | None = None,
        errors: int | None = None,
        kept: Sequence[ImageExample] | None = None,
        **settings: Any,
    ) -> scores.CaptionResult:
        """Describe the images of a table, and compare with their captions: all captions of an image
        are references. `text_column` is the column of the captions. `bleu_tokenizer` is one of
        sacreBLEU's (None: chosen by the script of the references). With `errors`, the result has
        that many of the captions, the one with the lowest CIDEr-D first. `kept` are images that
        have been read, instead of `paths`.

        >>> 0 <= model.evaluate("scenes.csv").bleu <= 100
        True
        """
        preprocessing, beams = self.preprocessing, self.settings(settings)
        if len(text_column) > 1:
            raise UsageError("captions are read from one column. Pass one --text-column.")
        with TemporaryDirectory(prefix="glassformer-", ignore_cleanup_errors=True) as folder:
            images, notes = kept or [], list[str]()
            if kept is None:
                images, notes = read_images(
                    as_list(paths),
                    Path(folder),
                    preprocessing.image_size,
                    preprocessing.num_channels,
                    role="caption",
                    image_column=image_column or preprocessing.image_column,
                    other_column=text_column[0] if text_column else preprocessing.caption_column,
                    encoding=encoding,
                )
            references = [image.captions for image in images]
            rows, store = scores.caption_rows(preprocessing, images), images[0].store
            pixels = ChosenImages(store, rows.numbers)

            def describe() -> tuple[list[str], int]:
                results = scores.search_captions(
                    self.model, preprocessing, pixels, beams, max_new_tokens
                )
                return answers.texts_of(preprocessing, results)

            loss = scores.caption_loss(self.model, preprocessing, store, rows)
            result = scores.evaluate_captions(
                self.model, loss, references, describe, bleu_tokenizer, notes
            )
        if errors is None:
            return result
        compared = scores.CaptionScorer(references, bleu_tokenizer).compare(images, result.texts)
        poor = [one for one in compared if not one.is_match]
        poor.sort(key=lambda one: one.score)
        return replace(result, errors=tuple(poor[:errors]))

    def settings(self, settings: dict[str, Any]) -> CaptionSettings:
        return cast(CaptionSettings, self.parse_settings(settings))
