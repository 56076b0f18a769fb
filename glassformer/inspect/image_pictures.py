"""Images for slides and papers: where a model looked in one, and those that it painted."""

from math import ceil, log10, sqrt
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from glassformer.inspect.alignment import ImageAttention, WordPlaces
from glassformer.inspect.figures import (
    INK,
    ORANGE,
    Pixels,
    Sheet,
    coloured,
    glowing,
    image_strip,
    name_image,
    shortened,
    visible,
)
from glassformer.inspect.places import Paintings
from glassformer.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PER_ROW = 6  # words
LEAST_PIXELS = 256  # of the longer side of an image with a spotlight, which is smooth
DARKEST = 0.15  # brightness of a place without attention
CELL, LEAST, WIDEST = 1.1, 0.35, 14.0  # inches: of a painted image, at least, and of all of them
LINE = "#d62728"  # where painting began


def attention_picture(looking: ImageAttention) -> Sheet:
    """The image, and beside it the image with the weights."""
    # In grey, and dim where it was not looked at.
    dim = np.repeat(coloured(looking.pixels).mean(axis=2, keepdims=True) * 0.51, 3, axis=2)
    sheet, (left, right) = image_strip([looking.pixels, dim.astype(np.uint8)], 2, 3.6, (0.2, 0))
    name_image(left, PurePath(looking.image).name, 11)
    name_image(right, f"{looking.label} {percent(looking.score, 0)}", 11)
    highest, (height, width) = float(looking.weights.max()), looking.size
    style: dict[str, Any] = {
        "cmap": glowing(),
        "vmin": 0,
        "vmax": highest,
        "interpolation": "nearest",
    }
    weights = right.imshow(looking.weights, extent=(0, width, height, 0), aspect="auto", **style)
    _frame(right, looking.size, looking.weights.shape, looking.peak, "white")
    # As many digits as tell the marks of the scale apart, a fifth of it or less from each other.
    digits = max(1, ceil(-log10(max(highest, 1e-7) / 5)) - 2)
    scale = sheet.scale(weights, "attention weight", sheet.high, digits)
    scale.set_facecolor("#3a3a3a")  # as the image below the weights
    sheet.write(looking.about(), 0, sheet.high + 0.1, va="top")
    return sheet


def words_picture(looking: WordPlaces) -> Sheet:
    """The image, and for each word the image with a light where the word looked."""
    from matplotlib.patheffects import withStroke

    picture = scaled_up(looking.pixels, LEAST_PIXELS)
    lit = [spotlight(picture, weights) for weights in looking.weights]
    sheet, (_, *places) = image_strip([picture, *lit], PER_ROW, 1.9, (0.1, 0.34))
    for axes, word, weights, peak in zip(
        places, looking.words, looking.weights, looking.peaks(), strict=True
    ):
        name_image(axes, word, 11, 16)
        _frame(axes, picture.shape[:2], looking.grid, peak, ORANGE)
        style: dict[str, Any] = {"fontsize": 7, "color": "white", "va": "bottom", "ha": "right"}
        outline = [withStroke(linewidth=1.5, foreground=INK)]  # readable on any image
        share = f"{weights[peak]:.0%}"
        axes.text(0.98, 0.02, share, transform=axes.transAxes, path_effects=outline, **style)
    sheet.write(
        shortened(visible(looking.caption), 90) if looking.caption else "(empty)", 0, -0.35, 12
    )
    sheet.write(looking.about(), 0, sheet.high + 0.1, 8, va="top")
    return sheet


def paintings_picture(paintings: Paintings) -> Sheet:
    """New images in a square; or a row for each completed one: the original, what was given, and
    the paintings."""
    if not paintings.completed:
        columns = ceil(sqrt(len(paintings.images)))
        return image_strip(paintings.images, columns, _cell(columns))[0]
    columns = len(paintings.rows[0][1])
    images = [image for _, row in paintings.rows for image in row]
    sheet, places = image_strip(images, columns, _cell(columns))
    for number, axes in enumerate(places):
        row, column = divmod(number, columns)
        completed = paintings.completed[row]
        if column > 1:
            edge = completed.num_rows
            width = completed.original.shape[1]
            axes.plot([0, width], [edge, edge], color=LINE, linewidth=0.8)
        if row == 0:
            name_image(axes, {0: "original", 1: "given"}.get(column, f"painted {column - 1}"), 8)
        if column == 0 and len(paintings.rows) > 1:
            name = shortened(visible(PurePath(completed.name).name), 18)
            axes.set_ylabel(name, fontsize=7)
    return sheet


def _cell(columns: int) -> float:
    return max(LEAST, min(CELL, WIDEST / columns))


def _frame(
    axes: "Axes",
    size: tuple[int, ...],
    grid: tuple[int, ...],
    place: tuple[int, int],
    colour: str,
) -> None:
    """A frame around a place of the grid that covers an image of this size."""
    from matplotlib.patches import Rectangle

    high, wide = (side / count for side, count in zip(size, grid, strict=True))
    corner = (place[1] * wide, place[0] * high)
    axes.add_patch(Rectangle(corner, wide, high, fill=False, color=colour, linewidth=1.2))


# --- a light over an image ---


def enlarged(weights: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.float64]:
    """A grid (rows, columns) as smooth values from 0 to 1, (height, width); the largest is 1."""
    grid = Image.fromarray((weights / max(float(weights.max()), 1e-12)).astype(np.float32))
    smooth = np.asarray(grid.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)
    return np.clip(smooth / max(float(smooth.max()), 1e-12), 0, 1)


def spotlight(pixels: Pixels, weights: npt.NDArray[np.float64]) -> Pixels:
    """The image (H, W, 3), lit by its weights (rows, columns)."""
    image = coloured(pixels).astype(np.float64)
    light = DARKEST + (1 - DARKEST) * enlarged(weights, *image.shape[:2])
    return np.rint(image * light[:, :, None]).astype(np.uint8)


def scaled_up(pixels: Pixels, least: int) -> Pixels:
    """A tiny image enlarged until its longer side has `least` pixels, each of them a square."""
    factor = -(-least // max(pixels.shape[:2]))
    return pixels.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else pixels
