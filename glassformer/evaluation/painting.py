"""How well a model predicts images, pixel by pixel.

    loss           mean of -log p(colour | the pixels before it), over all pixels of all images
    bits per dim   the same in bits: loss / ln 2

A dimension is one pixel, whose value is one colour of the palette. So bits per dimension measure
images as they are after resizing and quantising; they can be compared between models of the same
size and palette only, and not with figures for the three 8-bit channels of the original pixels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.rows import Array
from glassformer.evaluation.evaluating import held_out
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.result import Result
from glassformer.generation.logits import refuse_nan
from glassformer.models.image_gpt import ImageGPT

READ_AT_ONCE = 2**14  # pixels


@dataclass(frozen=True)
class PaintResult(Result):
    """How well a model predicts images."""

    score_names = ("bits_per_dim", "loss")
    details = ("num_images", "num_pixels", "num_colors")
    loss: float
    """In nats per pixel."""
    num_images: int
    num_pixels: int
    """Of all images together."""
    num_colors: int
    """Colours of the palette; if all were equally likely, bits per dim would be its log₂."""
    notes: tuple[str, ...] = ()

    @property
    def bits_per_dim(self) -> float:
        return self.loss / math.log(2)

    def parts(self) -> list[str]:
        return [
            f"bits per dim {self.bits_per_dim:.4f} (a dim is the palette colour of a pixel)",
            f"loss {self.loss:.4f} per pixel",
            f"{self.num_images:,} images, {self.num_pixels:,} pixels, {self.num_colors:,} colours",
        ]


def with_start(ids: Tensor, start: int) -> Tensor:
    """What the model reads before it predicts each of the pixels (B, P): (B, P)."""
    return torch.cat((torch.full_like(ids[:, :1], start), ids[:, :-1]), dim=1)


def evaluate_painting(
    model: ImageGPT, take: Callable[[range], Array], number: int, num_pixels: int
) -> PaintResult:
    """Read `number` images once; `take` returns the colours (B, P) of some of them."""
    size = max(1, READ_AT_ONCE // num_pixels)
    batches = [range(first, min(first + size, number)) for first in range(0, number, size)]
    total = 0.0

    def colors(rows: range) -> Tensor:
        return torch.from_numpy(take(rows).astype("int64"))

    for ids in held_out(model, batches, colors):  # (B, P)
        hidden = model.hidden(with_start(ids, model.start_token))
        total += next_token_loss(hidden, model.head, ids).item() * ids.numel()
    loss = total / (number * num_pixels)
    refuse_nan(torch.tensor(loss))
    return PaintResult(loss, number, number * num_pixels, model.start_token)
