"""Reading many images: only one batch of them is in memory at a time."""

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.data.images import Pixels
from glassformer.generation.logits import refuse_nan
from glassformer.models.sources import ImageClassifier
from glassformer.preprocessing.images import ImagePreprocessing
from glassformer.tasks.evaluating import held_out

READ_AT_ONCE = 2**18  # pixels


def read_image_logits(
    model: ImageClassifier,
    preprocessing: ImagePreprocessing,
    take: Callable[[range], Pixels],
    number: int,
) -> Tensor:
    """(N, C) of `number` images, before the temperature. `take` returns some of them, resized."""
    height, width = preprocessing.image_size
    size = max(1, READ_AT_ONCE // (height * width))
    batches = [range(first, min(first + size, number)) for first in range(0, number, size)]
    logits = torch.empty(number, len(model.labels))
    pixels = held_out(
        model, batches, lambda rows: preprocessing.pixels(take(rows)), [*map(len, batches)]
    )
    for rows, images in zip(batches, pixels, strict=True):
        found = model(images)
        refuse_nan(found.abs())  # -∞, too, is refused
        logits[rows.start : rows.stop] = found.float().cpu()
    return logits
