"""A picture of where a model looked in an image: an image, a page, or its numbers."""

from math import ceil, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.atomic_files import write_file, write_json_line
from glassformer.data.thumbnails import data_uri
from glassformer.inspection.image_attention import ImageAttention
from glassformer.story.alignment import check_ending
from glassformer.story.figures import INK, drawing, written
from glassformer.story.labels import shortened, visible
from glassformer.story.page import assembled, part
from glassformer.story.spotlight import coloured
from glassformer.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

STYLES = ("page.css", "image_attention.css")
SCRIPTS = ("elements.js", "heat_colours.js", "image_attention.js")
SMALL = 128  # pixels of a side, up to which single pixels are drawn as squares
DIM = 0.35  # brightness of what was not looked at
LARGEST = 1024  # pixels of a side of the image in a page


def draw(found: ImageAttention, path: Path) -> None:
    """Write the picture to `path`, whole or not at all. Equal results give equal bytes."""
    check_ending(path)
    ending = path.suffix.lower()
    if ending == ".html":
        write_file(path, page(found))
    elif ending == ".json":
        write_json_line(path, found.as_json())
    else:
        write_file(path, overlay(found, ending.removeprefix(".")))


def title_of(found: ImageAttention) -> str:
    return f"{found.label} {percent(found.score, 0)}"


def overlay(found: ImageAttention, kind: str) -> bytes:
    """The bytes of a "png" or "svg": the image, and beside it the image with the weights."""
    with drawing():
        return written(_figure(found), kind)


def _figure(found: ImageAttention) -> "Figure":
    from matplotlib.figure import Figure

    height, width = found.size
    ratio = min(max(height / width, 0.25), 4)
    wide = 3.6 if ratio <= 1 else 3.6 / ratio
    high = wide * ratio
    figure = Figure(figsize=(2 * wide + 0.2, high), facecolor="white")
    share, gap = wide / (2 * wide + 0.2), 0.2 / (2 * wide + 0.2)
    left = figure.add_axes((0, 0, share, 1))
    right = figure.add_axes((share + gap, 0, share, 1))
    style: dict[str, Any] = {"fontsize": 11, "color": INK, "parse_math": False, "loc": "left"}
    _show(left, coloured(found.pixels), found)
    left.set_title(shortened(visible(Path(found.image).name), 32), **style)
    _show(right, _lit(found), found)
    right.set_title(title_of(found), **style)
    highest = float(found.weights.max())
    weights = right.imshow(
        found.weights,
        cmap=_colours(),
        vmin=0,
        vmax=highest,
        extent=(0, width, height, 0),
        interpolation="nearest",
        aspect="auto",
    )
    row, column = found.peak
    x0, y0, x1, y1 = found.box(row, column)
    right.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color="white", linewidth=1.2)
    place = figure.add_axes((1 + 0.12 / (2 * wide), 0, 0.12 / (2 * wide), 1))
    # As many digits as tell the marks of the scale apart, a fifth of it or less from each other.
    digits = max(1, ceil(-log10(max(highest, 1e-7) / 5)) - 2)
    bar = figure.colorbar(weights, cax=place, format=f"{{x:.{digits}%}}")
    bar.ax.set_facecolor("#3a3a3a")  # as the image below the weights
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=INK)
    bar.set_label("attention weight", fontsize=9, color=INK)
    about: dict[str, Any] = {"fontsize": 9, "color": INK, "parse_math": False, "va": "top"}
    left.text(0, -0.08 / high, found.about(), transform=left.transAxes, **about)
    return figure


def _show(axes: "Axes", pixels: Any, found: ImageAttention) -> None:
    height, width = found.size
    how = "nearest" if max(height, width) <= SMALL else "antialiased"
    axes.imshow(pixels, extent=(0, width, height, 0), interpolation=how, aspect="auto")
    axes.set_axis_off()


def _lit(found: ImageAttention) -> Any:
    """The image in grey, dim where it was not looked at."""
    grey = coloured(found.pixels).mean(axis=2, keepdims=True) / 255  # (H, W, 1)
    return np.repeat(grey * DIM + (1 - DIM) * 0.25 * grey, 3, axis=2)


def _colours() -> "Colormap":
    """Transparent where nothing was looked at; then red, orange, yellow."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    heat = matplotlib.colormaps["inferno"]
    steps = np.linspace(0, 1, 256)
    return ListedColormap([(*heat(step)[:3], 0.8 * step**0.6) for step in steps])


def page(found: ImageAttention) -> str:
    """One self-contained HTML page, which loads nothing from the network."""
    heads = None if found.heads is None else [each.round(6).tolist() for each in found.heads]
    data = found.as_json() | {
        "title": f"{Path(found.image).name}: {title_of(found)}",
        "about": found.about(),
        "model": found.model or "the model",
        "source": data_uri(found.pixels, LARGEST),
        "heads": heads,
    }
    return assembled("Attention", part("image_attention.html"), STYLES, SCRIPTS, data)
