"""Attention enlarged over an image: bright where a model looked, dark elsewhere."""

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]
Weights = npt.NDArray[np.float64]

DARKEST = 0.15  # brightness of a place without attention


def coloured(pixels: Pixels) -> Pixels:
    """(H, W, 3) of (H, W, 1 or 3)."""
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def enlarged(weights: Weights, height: int, width: int) -> Weights:
    """A grid (rows, columns) as smooth values from 0 to 1, (height, width); the largest is 1."""
    grid = Image.fromarray((weights / max(float(weights.max()), 1e-12)).astype(np.float32))
    smooth = np.asarray(grid.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)
    return np.clip(smooth / max(float(smooth.max()), 1e-12), 0, 1)


def spotlight(pixels: Pixels, weights: Weights) -> Pixels:
    """The image (H, W, 3), lit by its weights (rows, columns)."""
    image = coloured(pixels).astype(np.float64)
    light = DARKEST + (1 - DARKEST) * enlarged(weights, *image.shape[:2])
    return np.rint(image * light[:, :, None]).astype(np.uint8)


def scaled_up(pixels: Pixels, least: int) -> Pixels:
    """A tiny image enlarged until its longer side has `least` pixels, each of them a square."""
    factor = -(-least // max(pixels.shape[:2]))
    return pixels.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else pixels
