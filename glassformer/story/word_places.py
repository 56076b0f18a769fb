"""A picture of where a captioner looked: one panel for each word, or a page to point at."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.atomic_files import write_file, write_json_line
from glassformer.data.thumbnails import data_uri
from glassformer.errors import GlassformerError
from glassformer.inspection.word_places import Pixels, WordPlaces
from glassformer.story.alignment import check_ending
from glassformer.story.figures import INK, drawing, written
from glassformer.story.labels import shortened, visible
from glassformer.story.page import assembled, part
from glassformer.story.spotlight import coloured, scaled_up, spotlight

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = ("page.css", "word_places.css")
SCRIPTS = ("elements.js", "pictures/word_places.js", "word_places.js")
PER_ROW = 6  # panels
PANEL = 1.9  # inches
LEAST_PIXELS = 256  # of the longer side of a picture
_FRAME = "#ff8c1a"


def draw(found: WordPlaces, path: Path) -> None:
    """Write the picture to `path`, whole or not at all. Equal results give equal bytes."""
    check_ending(path)
    ending = path.suffix.lower()
    if ending == ".json":
        write_json_line(path, found.as_json())
        return
    if found.pixels is None:
        raise GlassformerError(f"{path} was not drawn: there is no image to draw on.")
    if ending == ".html":
        write_file(path, page(found))
    else:
        write_file(path, panels(found, ending.removeprefix(".")))


def panels(found: WordPlaces, kind: str) -> bytes:
    """The bytes of a "png" or "svg": the image, and for each word the image with its weights."""
    with drawing():
        return written(_figure(found), kind)


def _figure(found: WordPlaces) -> "Figure":
    from matplotlib.figure import Figure

    picture = scaled_up(_pixels(found), LEAST_PIXELS)
    height, width = picture.shape[:2]
    count = len(found.words) + 1  # the image itself comes first
    columns = min(count, PER_ROW)
    rows = ceil(count / columns)
    scale = PANEL / max(height, width)
    # A panel is as high as the image, with room for the word above it.
    high, wide = height * scale + 0.34, width * scale + 0.1
    figure = Figure(figsize=(columns * wide, rows * high), facecolor="white")
    shown = [coloured(picture), *(spotlight(picture, each) for each in found.weights)]
    titles = ["", *(shortened(visible(word), 16) for word in found.words)]
    for number, (panel, title) in enumerate(zip(shown, titles, strict=True)):
        row, column = divmod(number, columns)
        left, bottom = column / columns, 1 - (row + 1) / rows
        size = (width * scale / (columns * wide), height * scale / (rows * high))
        axes = figure.add_axes((left, bottom, *size))
        axes.imshow(panel, interpolation="nearest", aspect="auto")
        axes.set_axis_off()
        style: dict[str, Any] = {"fontsize": 11, "color": INK, "parse_math": False}
        axes.set_title(title, pad=4, **style)
        if number:
            _mark_peak(axes, found, number - 1, (height, width))
    caption = shortened(visible(found.caption), 90) if found.caption else "(empty)"
    title_style: dict[str, Any] = {"fontsize": 12, "color": INK, "parse_math": False}
    figure.text(0, 1, caption, va="bottom", **title_style)
    note: dict[str, Any] = {"fontsize": 8, "color": INK, "parse_math": False}
    figure.text(0, -0.1 / (rows * high), found.about(), va="top", **note)
    return figure


def _mark_peak(axes: "Axes", found: WordPlaces, number: int, size: tuple[int, int]) -> None:
    """A frame around the place that was looked at most, and its share."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    (rows, columns), (height, width) = found.grid, size
    row, column = found.peaks()[number]
    share = float(found.weights[number, row, column])
    corner = (column * width / columns - 0.5, row * height / rows - 0.5)
    frame = Rectangle(corner, width / columns, height / rows, fill=False, color=_FRAME, linewidth=1)
    axes.add_patch(frame)
    below: dict[str, Any] = {"transform": axes.transAxes, "va": "bottom", "ha": "right"}
    style: dict[str, Any] = {"fontsize": 7, "color": "white", "parse_math": False}
    style["path_effects"] = [withStroke(linewidth=1.5, foreground=INK)]  # readable on any image
    axes.text(0.98, 0.02, f"{share:.0%}", **below, **style)


def page(found: WordPlaces) -> str:
    """One self-contained HTML page, which loads nothing from the network."""
    data = {
        "title": f"{visible(found.image)} → {visible(found.caption)}",
        "about": found.about(),
        "chosen": list(found.chosen),
        "scene": scene(found),
    }
    return assembled("Where each word looked", part("word_places.html"), STYLES, SCRIPTS, data)


def scene(found: WordPlaces) -> dict[str, Any]:
    """What the picture `word_places` of a page draws: the image, the words, their weights."""
    heads = None if found.heads is None else found.heads.round(4).tolist()
    return {
        "image": data_uri(_pixels(found)),
        "name": visible(found.image),
        "size": [*_pixels(found).shape[:2]],
        "grid": list(found.grid),
        "words": [visible(word) for word in found.words],
        "weights": found.weights.round(5).tolist(),
        "heads": heads,
    }


def _pixels(found: WordPlaces) -> Pixels:
    if found.pixels is None:
        raise ValueError("there is no image to draw on")
    return np.asarray(found.pixels)
