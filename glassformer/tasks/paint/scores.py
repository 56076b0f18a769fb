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

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.data.images import Pixels, data_uri
from glassformer.data.rows import Array
from glassformer.generation.sampling import Sampling, decode
from glassformer.inspect.chapters import (
    NORMAL_95,
    Chapter,
    Examination,
    affordable,
    of_rows,
    spread,
)
from glassformer.models.image_gpt import ImageGPT
from glassformer.nn.layers import refuse_nan
from glassformer.nn.loss import next_token_loss
from glassformer.preprocessing.images import PalettePreprocessing
from glassformer.tasks.evaluating import Result, evaluating, held_out

READ_AT_ONCE = 2**14  # pixels
SHOWN, EACH = 8, 3  # images in a report, and completions of each
MEASURED = 200  # images whose rows are measured
LARGEST = 96  # pixels of a side of an image in a report


@dataclass(frozen=True)
class PaintResult(Result):
    """How well a model predicts images."""

    score_names = ("bits_per_dim", "loss")
    details = ("num_images", "num_pixels", "num_colors")
    loss: float
    """Cross-entropy in nats per pixel."""
    num_images: int
    num_pixels: int
    """The pixels of all images together."""
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


def prepend_start(ids: Tensor, start: int) -> Tensor:
    """What the model reads before it predicts each of the pixels (B, P): (B, P)."""
    return torch.cat((torch.full_like(ids[:, :1], start), ids[:, :-1]), dim=1)


def evaluate_painting(
    model: ImageGPT, take: Callable[[range], Array], num_images: int, num_pixels: int
) -> PaintResult:
    """Read so many images once; `take` returns the colours (B, P) of some of them."""
    size = max(1, READ_AT_ONCE // num_pixels)
    batches = [range(first, min(first + size, num_images)) for first in range(0, num_images, size)]
    total = 0.0

    def colors(rows: range) -> Tensor:
        return torch.from_numpy(take(rows).astype("int64"))

    for ids in held_out(model, batches, colors):  # (B, P)
        hidden = model.hidden(prepend_start(ids, model.start_token))
        total += next_token_loss(hidden, model.head, ids).item() * ids.numel()
    loss = total / (num_images * num_pixels)
    refuse_nan(torch.tensor(loss))
    return PaintResult(loss, num_images, num_images * num_pixels, model.start_token)


def paint(
    model: ImageGPT,
    preprocessing: PalettePreprocessing,
    beginnings: Array,
    seed: int,
    sampling: Sampling | None = None,
    copies: int = 1,
) -> Pixels:
    """Whole images (N · copies, H, W, C), that begin with these pixels (N, P)."""
    with evaluating(model):
        steps = decode(
            model,
            [[model.start_token, *row] for row in beginnings.tolist()],
            sampling=sampling or Sampling(),
            max_new_tokens=preprocessing.num_pixels - beginnings.shape[1],
            seed=seed,
            num_return_sequences=copies,
            device=model.device,
        )
        painted = np.array(list(steps), dtype=np.int64).T  # (N · copies, remaining pixels)
    whole = np.concatenate((np.repeat(beginnings, copies, axis=0), painted), axis=1)
    return preprocessing.pixels(whole)


def examine_painting(
    model: ImageGPT, preprocessing: PalettePreprocessing, ids: Array
) -> Examination:
    """Some held-out images (N, P) beside their completions, and what each row of pixels costs."""
    num_parameters = sum(weight.numel() for weight in model.parameters())
    pixels = ids.shape[1]
    count = affordable(num_parameters, MEASURED * pixels, least=pixels) // pixels
    measured = spread(len(ids), count)
    note = of_rows(len(measured), len(ids), "image")
    costs = _costs(model, preprocessing, ids[measured].astype(np.int64), note)
    shown = spread(len(ids), min(SHOWN, max(1, count // EACH)))
    return Examination((_completions(model, preprocessing, ids[shown]), *costs))


def _completions(model: ImageGPT, preprocessing: PalettePreprocessing, ids: Array) -> Chapter:
    height, width = preprocessing.image_size
    upper = ids[:, : height // 2 * width].astype(np.int64)
    paintings = paint(model, preprocessing, upper, seed=0, copies=EACH)
    rows = []
    for number, original in enumerate(preprocessing.pixels(ids)):
        hidden = original.copy()
        hidden[height // 2 :] = 128
        images = [original, hidden, *paintings[number * EACH : (number + 1) * EACH]]
        rows.append([data_uri(image, LARGEST) for image in images])
    columns = ["original", "given", *(f"painted {copy}" for copy in range(1, EACH + 1))]
    data = {"columns": columns, "kinds": ["image"] * len(columns), "rows": rows}
    how = "Held-out images in the model's size and colours. The model saw the upper half only."
    return Chapter("Completed images", "table", data, how)


def _costs(
    model: ImageGPT, preprocessing: PalettePreprocessing, ids: Array, note: str
) -> list[Chapter]:
    """Bits per pixel in each row, from the top; nothing if there is only one row."""
    height, width = preprocessing.image_size
    parts = torch.from_numpy(ids).split(max(1, READ_AT_ONCE // ids.shape[1]))
    losses = []
    for colors in held_out(model, parts, lambda part: part):  # (B, P)
        logits = model(prepend_start(colors, model.start_token)).float()  # (B, P, colours)
        losses.append(F.cross_entropy(logits.transpose(1, 2), colors, reduction="none").cpu())
    bits = (torch.cat(losses) / np.log(2)).unflatten(1, (height, width)).mean(2).numpy()  # (N, H)
    if height < 2:
        return []
    points = []
    for row in range(height):
        values = bits[:, row].astype(float)
        reach = NORMAL_95 * values.std() / np.sqrt(len(values))
        mean = float(values.mean())
        point = {"x": row + 1, "y": mean, "low": mean - reach, "high": mean + reach}
        points.append(point | {"count": len(values)})
    data = {"x": "row", "y": "bits per pixel", "points": points, "is_share": False, "what": "image"}
    how = f"The more the model has seen of an image, the fewer bits the next rows need. {note}"
    return [Chapter("Bits per pixel by row", "trend", data, how)]
