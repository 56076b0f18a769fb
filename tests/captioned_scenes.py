"""Tiny images of a coloured square in a corner, with two captions each."""

import csv
import random
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (40, 70, 220)}
PLACES = {
    "top left": (0, 0),
    "top right": (0, 1),
    "bottom left": (1, 0),
    "bottom right": (1, 1),
}
SIZE = 16  # pixels of a side; a corner has half of them

CAPTIONER = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_feedforward": 32, "patch_size": 4}
SHOW_ATTEND_TELL = {"d_embedding": 16, "d_model": 16, "num_encoder_layers": 1, "patch_size": 4}
SIZES = {"captioner": CAPTIONER, "show-attend-tell": SHOW_ATTEND_TELL}


def scene(draw: random.Random, colour: str, place: str) -> Image.Image:
    """Of slightly different brightness each time, so that no two images are equal."""
    pixels = np.full((SIZE, SIZE, 3), draw.randint(180, 255), np.uint8)
    row, column = (side * SIZE // 2 + draw.randint(0, 2) for side in PLACES[place])
    pixels[row : row + 6, column : column + 6] = COLOURS[colour]
    return Image.fromarray(pixels)


def captions_of(colour: str, place: str) -> list[str]:
    return [f"A {colour} square at the {place}.", f"At the {place} is a {colour} square."]


def scenes(folder: Path, count: int = 60, seed: int = 0, name: str = "captions.csv") -> Path:
    """Images in `folder`/images, and a table of their captions."""
    draw = random.Random(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["image", "caption"])
        for number in range(count):
            colour, place = draw.choice([*COLOURS]), draw.choice([*PLACES])
            image = f"images/{path.stem}-{number:03}.png"
            scene(draw, colour, place).save(folder / image)
            table.writerows([image, text] for text in captions_of(colour, place))
    return path
