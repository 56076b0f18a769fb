"""Grids of images that a model painted: samples, or originals beside their completions."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.atomic_files import write_file, write_json_line
from glassformer.errors import UsageError
from glassformer.inspection.paintings import Paintings, Pixels
from glassformer.story.figures import INK, drawing, written
from glassformer.story.labels import shortened, visible
from glassformer.story.spotlight import coloured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".json")
CELL, LEAST, WIDEST = 1.1, 0.35, 14.0  # inches: of an image, at least, and of the picture
LINE, FRAME = "#d62728", "#8c959f"  # the first marks where painting began


def check_ending(path: Path) -> None:
    """Raise unless `path` ends like a picture; called before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path}: the name must end in .png, .svg or .json.")


def draw(found: Paintings, path: Path) -> None:
    """Write the picture to `path`, whole or not at all. Equal results give equal bytes."""
    check_ending(path)
    ending = path.suffix.lower().removeprefix(".")
    if ending == "json":
        write_json_line(path, found.as_json())
        return
    with drawing():
        figure = _completions(found) if found.completed else _samples(found.images)
        write_file(path, written(figure, ending))


def _samples(images: list[Pixels]) -> "Figure":
    columns = math.ceil(math.sqrt(len(images)))
    figure, axes = _grid(math.ceil(len(images) / columns), columns, images[0])
    for place, image in zip(axes, images, strict=False):
        _show(place, image)
    return figure


def _completions(found: Paintings) -> "Figure":
    """A row for each image: the original, what was given, and the paintings."""
    columns = len(found.rows[0][1])
    figure, axes = _grid(len(found.rows), columns, found.rows[0][1][0])
    for row, (name, images) in enumerate(found.rows):
        for column, image in enumerate(images):
            place = axes[row * columns + column]
            _show(place, image)
            if column > 1:
                edge = found.completed[row].num_rows - 0.5
                place.plot([-0.5, image.shape[1] - 0.5], [edge, edge], color=LINE, linewidth=0.8)
            if row == 0:
                title = {0: "original", 1: "given"}.get(column, f"painted {column - 1}")
                place.set_title(title, fontsize=8, color=INK, loc="left", pad=3)
        if len(found.rows) > 1:
            shown = shortened(visible(Path(name).name), 18)
            axes[row * columns].set_ylabel(shown, fontsize=7, color=INK, parse_math=False)
    return figure


def _grid(rows: int, columns: int, image: Pixels) -> "tuple[Figure, list[Axes]]":
    from matplotlib.figure import Figure

    height, width = image.shape[:2]
    ratio = min(max(height / width, 0.25), 4.0)
    cell = max(LEAST, min(CELL, WIDEST / columns))
    figure = Figure(figsize=(columns * cell, rows * cell * ratio), facecolor="white")
    axes = figure.subplots(
        rows, columns, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06}
    )
    flat = list(np.ravel(axes))
    for place in flat:
        place.set_xticks([])
        place.set_yticks([])
        for edge in place.spines.values():
            edge.set_visible(False)
    return figure, flat


def _show(place: "Axes", image: Pixels) -> None:
    place.imshow(coloured(image), interpolation="nearest", aspect="auto")
    for edge in place.spines.values():  # a white image ends somewhere on white paper
        edge.set(visible=True, color=FRAME, linewidth=0.6)
