"""Images that a tiny model learns in a few seconds: where is the bright square?"""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE, CELL = 12, 4  # pixels of an image, and of the square in it


def bright_square(row: int, column: int, random: np.random.Generator) -> Any:
    """(12, 12) grey noise with a white square in one of nine places."""
    pixels = random.integers(0, 60, (SIDE, SIDE), dtype=np.uint8)
    pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = 255
    return pixels


def squares(folder: Path, count: int = 150, seed: int = 0) -> Path:
    """images/LABEL/N.png: the label is the column of the square."""
    random, home = np.random.default_rng(seed), folder / "images"
    for number in range(count):
        row, column = divmod(number % 9, 3)
        label = home / ("left", "middle", "right")[column]
        label.mkdir(parents=True, exist_ok=True)
        Image.fromarray(bright_square(row, column, random)).save(label / f"{row}-{number}.png")
    return home
