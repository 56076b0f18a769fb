"""A painter in use: it paints new images, or what is below the upper rows of others.

    upper rows  →  colours of the palette  →  decode, pixel by pixel  →  whole images

The palette turns pixels into ids and back, so the sampler and the cache are those of texts.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from secrets import randbelow
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from glassformer.config import Count
from glassformer.data.images import Pixels
from glassformer.data.rows import Array
from glassformer.errors import UsageError
from glassformer.generation.sampling import Sampling
from glassformer.inspect.inspection import Subject
from glassformer.inspect.places import Completed, Paintings
from glassformer.models.image_gpt import ImageGPT
from glassformer.preprocessing.images import ImageInput, PalettePreprocessing
from glassformer.tasks.image_subjects import of_painting
from glassformer.tasks.inspecting import InspectsImages
from glassformer.tasks.paint.scores import PaintResult, evaluate_painting, paint
from glassformer.tasks.task import as_list

MOST_IMAGES = 256  # painted at once: more would not fit into memory
COMPLETIONS = 4


class PaintSettings(Sampling):
    """How to paint. Names follow Hugging Face's."""

    num_return_sequences: Count = Field(16, ge=1, le=MOST_IMAGES)
    """Images to paint; completions of each image: 4 unless it is given."""
    seed: int | None = Field(None, ge=0)
    """Random seed; null: different images each time."""


class PaintPredictor(InspectsImages):
    """The verbs of a painter: generate, complete, inspect and evaluate."""

    verbs = ("generate", "complete", "inspect", "evaluate")
    draws: ClassVar[bool] = True
    preprocessing_class = PalettePreprocessing
    settings_class = PaintSettings
    model: ImageGPT
    preprocessing: PalettePreprocessing

    def generate(self, **settings: Any) -> Paintings:
        """Paint new images. The settings are those of `PaintSettings`.

        >>> model.generate(num_return_sequences=2, seed=1).images[0].shape
        (8, 8, 1)
        """
        no_pixels = np.zeros((1, 0), dtype=np.int64)
        return Paintings(self._paint(no_pixels, self.parse_settings(settings)), [])

    def complete(
        self, image: ImageInput | Sequence[ImageInput], keep: float = 0.5, **settings: Any
    ) -> Paintings:
        """Paint what is below the upper rows of an image, of which `keep` is the share. A list of
        images gives completions of each.

        >>> model.complete("photo.png", keep=0.5, seed=1).completed[0].num_rows
        4
        """
        if not 0 <= keep < 1:
            raise UsageError(f"keep is {keep}, but must be at least 0 and less than 1.")
        defaults = {"num_return_sequences": COMPLETIONS} | self.defaults
        sampling: PaintSettings = self.parse_settings(defaults | settings)
        is_one = self.preprocessing.is_one(image)
        images: list[Any] = [image] if is_one else list(image)  # type: ignore[arg-type]
        height, width = self.preprocessing.image_size
        num_rows = min(round(keep * height), height - 1)
        ids = np.stack(self.preprocessing.encode(images)).astype(np.int64)  # (images, pixels)
        paintings = iter(self._paint(ids[:, : num_rows * width], sampling))
        copies = sampling.num_return_sequences
        completed = [
            Completed(
                name=self.preprocessing.shown(content),
                original=original,
                num_rows=num_rows,
                paintings=[*islice(paintings, copies)],
            )
            for content, original in zip(images, self.preprocessing.pixels(ids), strict=True)
        ]
        return Paintings([], completed)

    def _paint(self, beginnings: Array, sampling: PaintSettings) -> list[Pixels]:
        """Whole images (H, W, C) that begin with these pixels (images, pixels); each is completed
        several times."""
        copies = sampling.num_return_sequences
        together = max(1, MOST_IMAGES // copies)
        seed = randbelow(2**31) if sampling.seed is None else sampling.seed
        painted: list[Pixels] = []
        for first in range(0, len(beginnings), together):
            some = beginnings[first : first + together]
            own_seed = seed + first * 7919  # other random numbers than for the images before
            painted.extend(paint(self.model, self.preprocessing, some, own_seed, sampling, copies))
        return painted

    def _subject(self, image: ImageInput) -> Subject:
        return of_painting(self.model, self.preprocessing, image)

    def evaluate(
        self, paths: str | Sequence[str], image_column: str | None = None, encoding: str = "utf-8"
    ) -> PaintResult:
        """Bits per dimension on images: what the colour of each pixel costs, given those before it.

        >>> model.evaluate("digits/test").bits_per_dim > 0
        True
        """
        names, column = as_list(paths), image_column or self.preprocessing.image_column
        images, notes = self.preprocessing.read_unlabelled(names, column, encoding)

        def take(rows: range) -> Array:
            return self.preprocessing.ids(np.stack([images[row].input for row in rows]))

        pixels = self.preprocessing.num_pixels
        result = evaluate_painting(self.model, take, len(images), pixels)
        return replace(result, notes=tuple(notes))
