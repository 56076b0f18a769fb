"""Data that is made here: drawn scenes with captions, and the handwritten digits of scikit-learn.

Everything is known of the scenes, so that one can check what a captioner sees:

    shapes/images/0000.png   64 × 64 pixels
    shapes/captions.csv      image,caption: each true sentence about a scene is a row
    shapes/scenes.json       the shapes of every scene, with their boxes

A scene has one shape, or two that lie clearly beside or above each other. So "a small red circle
left of a large blue square" is also "a large blue square right of a small red circle".

    digits/train/7/0012.png   8 × 8 pixels, grey on black
    digits/test/7/0430.png    every fifth of each digit
"""

import csv
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import cos, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from glassformer.data.images import Pixels, write_png

SIDE = 64  # pixels
FINER = 4  # drawn this many times as large, so that edges are smooth
ALONE = 0.25  # the share of scenes with one shape
MARGIN, GAP = 2, 3  # pixels to the edge, and between two shapes
COLORS: dict[str, tuple[int, int, int]] = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 90, 200),
    "yellow": (240, 200, 20),
    "purple": (130, 60, 170),
    "black": (25, 25, 25),
}
RADII = {"small": (6.0, 7.5), "large": (11.0, 13.0)}  # pixels
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}

Point = tuple[float, float]
Random = np.random.Generator


@dataclass(frozen=True)
class Shape:
    """A shape of a scene."""

    shape: str
    color: str
    size: str
    box: tuple[float, float, float, float]
    """Left, top, right and bottom edge, in pixels."""

    @property
    def words(self) -> str:
        return f"a {self.size} {self.color} {self.shape}"


@dataclass(frozen=True)
class Scene:
    """Shapes, and where the first lies as seen from the second."""

    shapes: tuple[Shape, ...]
    relation: str | None

    @property
    def captions(self) -> list[str]:
        """Every sentence of this form that is true."""
        if self.relation is None:
            return [self.shapes[0].words]
        first, second = self.shapes
        return [
            f"{first.words} {self.relation} {second.words}",
            f"{second.words} {OPPOSITE[self.relation]} {first.words}",
        ]


def write_shapes(folder: Path, count: int, seed: int) -> str:
    """Draw scenes; each is a function of (seed, its number). Returns what was written, in words."""
    scenes: list[dict[str, Any]] = []
    (folder / "images").mkdir(parents=True, exist_ok=True)
    digits = max(4, len(str(count - 1)))
    with (folder / "captions.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("image", "caption"))
        for index in range(count):
            random = np.random.default_rng((seed, index))
            scene = draw_scene(random)
            name = f"images/{index:0{digits}}.png"
            write_png(folder / name, paint(scene, random))
            rows.writerows((name, caption) for caption in scene.captions)
            scenes.append({"image": name, "size": [SIDE, SIDE], **asdict(scene)})
    lines = ",\n".join(json.dumps(scene) for scene in scenes)
    (folder / "scenes.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    num_captions = sum(1 if scene["relation"] is None else 2 for scene in scenes)
    return f"{count:,} scenes with {num_captions:,} captions"


def draw_scene(random: Random) -> Scene:
    """A random scene: one shape anywhere, or two that differ in their words."""
    if random.random() < ALONE:
        size = _one_of(RADII, random)
        radius = _radius(size, random)
        middle = _anywhere(radius, random), _anywhere(radius, random)
        return Scene((_shape(size, radius, middle, random),), None)
    relation = _one_of(OPPOSITE, random)
    sizes = [_one_of(RADII, random) for _ in range(2)]
    radii = [_radius(size, random) for size in sizes]
    first, second = _apart(relation, radii, random)
    one = _shape(sizes[0], radii[0], first, random)
    while (other := _shape(sizes[1], radii[1], second, random)).words == one.words:
        pass
    return Scene((one, other), relation)


def paint(scene: Scene, random: Random) -> Pixels:
    """The picture (SIDE, SIDE, 3) of a scene, on light paper."""
    paper = tuple(int(value) for value in random.integers(225, 256, 3))
    image = Image.new("RGB", (SIDE * FINER, SIDE * FINER), paper)
    pen = ImageDraw.Draw(image)
    for shape in scene.shapes:
        light = random.uniform(0.9, 1.05)
        color = tuple(min(255, round(value * light)) for value in COLORS[shape.color])
        left, top, right, bottom = (edge * FINER for edge in shape.box)
        middle, radius = ((left + right) / 2, (top + bottom) / 2), (right - left) / 2
        _OUTLINES[shape.shape](pen, middle, radius, color)
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small)


# --- where shapes are ---


def _apart(relation: str, radii: list[float], random: Random) -> tuple[Point, Point]:
    """Two middles. Along one axis the shapes are apart, along the other they overlap."""
    between = sum(radii) + GAP
    low, high = radii[0] + MARGIN, SIDE - radii[1] - MARGIN
    along_first = random.uniform(low, high - between)
    along_second = random.uniform(along_first + between, high)
    most = min(radii) * 0.8  # sideways
    across_first = random.uniform(radii[0] + MARGIN, SIDE - radii[0] - MARGIN)
    across_second = np.clip(
        across_first + random.uniform(-most, most), radii[1] + MARGIN, SIDE - radii[1] - MARGIN
    )
    if relation in ("right of", "below"):  # seen from the other end
        along_first, along_second = SIDE - along_first, SIDE - along_second
    points = (along_first, across_first), (along_second, float(across_second))
    if relation in ("above", "below"):
        points = points[0][::-1], points[1][::-1]
    return points


def _anywhere(radius: float, random: Random) -> float:
    return float(random.uniform(radius + MARGIN, SIDE - radius - MARGIN))


def _radius(size: str, random: Random) -> float:
    return float(random.uniform(*RADII[size]))


def _shape(size: str, radius: float, middle: Point, random: Random) -> Shape:
    x, y = middle
    edges = (x - radius, y - radius, x + radius, y + radius)
    left, top, right, bottom = (round(edge, 2) for edge in edges)
    kind, color = _one_of(_OUTLINES, random), _one_of(COLORS, random)
    return Shape(kind, color, size, (left, top, right, bottom))


def _one_of(names: dict[str, Any], random: Random) -> str:
    return list(names)[int(random.integers(len(names)))]


# --- how shapes look ---


def _circle(pen: ImageDraw.ImageDraw, middle: Point, radius: float, color: Any) -> None:
    x, y = middle
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)


def _square(pen: ImageDraw.ImageDraw, middle: Point, radius: float, color: Any) -> None:
    x, y = middle
    pen.rectangle((x - radius, y - radius, x + radius, y + radius), fill=color)


def _triangle(pen: ImageDraw.ImageDraw, middle: Point, radius: float, color: Any) -> None:
    x, y = middle
    points = [(x, y - radius), (x + radius, y + radius), (x - radius, y + radius)]
    pen.polygon(points, fill=color)


def _star(pen: ImageDraw.ImageDraw, middle: Point, radius: float, color: Any) -> None:
    x, y = middle
    reaches = [radius if point % 2 == 0 else radius * 0.42 for point in range(10)]
    angles = [pi * point / 5 - pi / 2 for point in range(10)]
    pairs = zip(reaches, angles, strict=True)
    pen.polygon([(x + far * cos(turn), y + far * sin(turn)) for far, turn in pairs], fill=color)


_OUTLINES: dict[str, Callable[[ImageDraw.ImageDraw, Point, float, Any], None]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
}


# --- digits ---

BRIGHTEST = 16  # of the original values
EVERY = 5  # of each digit, one is for testing


def write_digits(folder: Path) -> str:
    """Write all digits. Returns what was written, in words."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    seen: Counter[int] = Counter()
    counts: Counter[str] = Counter()
    for index, (values, label) in enumerate(
        zip(digits.images, digits.target.tolist(), strict=True)
    ):
        seen[label] += 1
        part = "train" if seen[label] % EVERY else "test"
        counts[part] += 1
        pixels = np.rint(values / BRIGHTEST * 255).astype(np.uint8)  # (8, 8)
        write_png(folder / part / str(label) / f"{index:04}.png", pixels)
    return f"{counts['train']:,} images of digits to train on, {counts['test']:,} to test on"
