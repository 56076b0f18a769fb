"""What pictures for slides and papers are made of: a sheet measured in inches, and on it heat maps,
curves, bars and images; and the picture of how a training scales.

A picture depends on nothing but what it shows, so equal pictures have equal bytes: there are no
dates, no random names and no settings of the user's matplotlib. Text in SVG stays text, since the
viewer may have fonts that this machine lacks.
"""

import io
import logging
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.files import write_file
from glassformer.inspect import Pixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap


# --- tokens as labels: one short line of visible text ---

_BLANKS = {" ": "␣", "\u00a0": "␣", "\u3000": "␣", "\n": "⏎", "\r": "⏎", "\t": "⇥"}
# Control characters, surrogates, line and paragraph separators, marks of text direction.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(token: str) -> str:
    """The token without spaces around it; if it is only spaces, symbols for them."""
    label = token.strip() or "".join(_BLANKS.get(character, "␣") for character in token) or "∅"
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], label)


def label_of(token: str, limit: int = 24) -> str:
    """The token as visible text; a long one is reduced to its beginning and its end."""
    label, half = visible(token), (limit - 1) // 2
    return label if len(label) <= limit else f"{label[:half]}…{label[-half:]}"


# --- the sheet ---

INK, QUIET = "#333333", "#8a919a"
BLUE, ORANGE = "#3182bd", "#e6550d"  # more and less, as on the page
# Of several lines: they differ for eyes that do not tell red from green, too (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6b00", "#555555")
SMALL = 128  # pixels of a side, up to which single pixels are drawn as squares
MOST_SLANTED = 24  # columns; the names of more are upright
# Fallbacks, if installed, for characters that the first font does not have.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Noto Sans JP",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
)
_STYLE: Any = {
    "svg.hashsalt": "glassformer",
    "svg.fonttype": "none",  # a browser has more fonts than we do
    "text.parse_math": False,  # a $ is only a dollar sign
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "axes.labelsize"), 8),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
    **dict.fromkeys([f"axes.spines.{side}" for side in ("left", "right", "top", "bottom")], False),
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titlepad": 4,
}


class Sheet:
    """White paper, measured in inches from its upper left corner. What is drawn beyond its edges,
    such as names and titles, makes the picture larger."""

    def __init__(self, wide: float, high: float) -> None:
        from matplotlib.figure import Figure

        self.wide, self.high = wide, high
        self.figure = Figure(figsize=(wide, high), facecolor="white")

    def axes(
        self,
        left: float = 0.0,
        top: float = 0.0,
        wide: float | None = None,
        high: float | None = None,
    ) -> "Axes":
        """A place to draw on (default: all of the sheet), without ticks and frame."""
        wide, high = wide or self.wide, high or self.high
        corner = (left / self.wide, 1 - (top + high) / self.high)
        return self.figure.add_axes((*corner, wide / self.wide, high / self.high))

    def write(
        self, text: str, left: float, top: float, size: float = 9, va: str = "bottom"
    ) -> None:
        self.figure.text(left / self.wide, 1 - top / self.high, text, fontsize=size, va=va)

    def title(self, text: str, about: str, above: float = 0.12) -> None:
        """What was read, and what is shown, so many inches above the sheet."""
        self.write(label_of(text, 90), 0, -above - 0.2, 12)
        self.write(about, 0, -above)

    def scale(self, drawn: Any, name: str, high: float = 3.0, digits: int = 0) -> "Axes":
        """The colours of what was drawn, to the right of everything."""
        from matplotlib.ticker import MaxNLocator

        axes = self.axes(self.wide + 0.2, 0, 0.13, max(min(high, self.high), 1.2))
        bar = self.figure.colorbar(drawn, cax=axes, format=f"{{x:.{digits}%}}")
        bar.locator = MaxNLocator(8, steps=[1, 2, 5, 10])  # not 2.5, which would be rounded
        bar.update_ticks()
        bar.outline.set_visible(False)
        bar.set_label(name)
        return bar.ax


def draw_picture(make: Callable[[], Sheet], path: Path) -> None:
    """Write a .png or .svg, whole or not at all, without a date and with matplotlib's own settings
    instead of its user's."""
    kind = path.suffix.lower().removeprefix(".")
    image = io.BytesIO()
    with _silence():
        import matplotlib

        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE | {"font.family": _installed_fonts()})
            fixed = {"Date": None, "Creator": None} if kind == "svg" else {}
            around: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.15}
            make().figure.savefig(image, format=kind, dpi=150, metadata=fixed, **around)
    write_file(path, image.getvalue())


def _installed_fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    # The last for SVG viewers.
    return [*(name for name in _FONTS if name in installed), "sans-serif"]


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings about characters that no font has: they are drawn as boxes."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        logger.setLevel(level)


# --- heat maps ---


def heat_map(
    axes: "Axes",
    values: ArrayLike,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    most: float = 1.0,
    is_masked: bool = False,
    colours: str = "Blues",
    texts: ArrayLike | None = None,
    names_above: bool = False,
    gap: float = 1.5,
) -> Any:
    """A cell for each of the values (R, C): white at 0, darkest at `most`. If it `is_masked`, a row
    sees only the columns up to its own; the others are grey. `texts` stand in the cells, and `gap`
    points between them."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    table: Any = np.ma.asarray(values)
    if is_masked:
        table = np.ma.masked_where(np.triu(np.ones(table.shape, dtype=bool), 1), table)
    # With gaps, the palest colour still has to differ from the white between cells.
    palest = 0.05 if gap else 0.0
    shades = colormaps[colours](np.linspace(palest, 1, 256))
    style: dict[str, Any] = {"vmin": 0, "vmax": most}
    style["cmap"] = ListedColormap(shades).with_extremes(bad="#cccccc")
    num_rows, num_columns = table.shape
    if gap:
        drawn: Any = axes.pcolormesh(table, edgecolors="white", linewidth=gap, **style)
    else:
        drawn = axes.imshow(table, aspect="auto", extent=(0, num_columns, num_rows, 0), **style)
    axes.set_ylim(num_rows, 0)
    for (row, column), text in np.ndenumerate(np.asarray([] if texts is None else texts)):
        middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
        colour = "white" if table[row, column] > 0.6 * most else INK
        axes.text(column + 0.5, row + 0.5, str(text), color=colour, **middle)
    wide, high = (side / axes.figure.dpi for side in axes.bbox.size)
    if names_above:
        axes.xaxis.tick_top()
    _name_cells(axes.xaxis, columns, wide / num_columns, names_above)
    _name_cells(axes.yaxis, rows, high / num_rows)
    return drawn


def _name_cells(axis: "Axis", names: Sequence[str], cell: float, names_above: bool = False) -> None:
    """Names beside cells of this many inches: of every n-th, with a tick, if they are small."""

    def width(name: str) -> int:
        """Approximate width in letters: a Chinese character counts as two."""
        return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in name)

    size = min(max(30 * cell, 7), 10)  # points
    step = ceil(1.25 * size / 72 / cell)
    shown = range(0, len(names), step)
    style: dict[str, Any] = {"fontsize": size}
    room = 72 * cell * step / size - 0.8  # in units of the font size, without a gap
    if axis is axis.axes.xaxis and any(0.55 * width(name) > room for name in names):
        is_slanted = names_above and len(names) <= MOST_SLANTED
        style["rotation"] = 45 if is_slanted else 90
        if names_above:
            style |= {"ha": "left", "va": "center", "rotation_mode": "anchor"}
    axis.set_ticks([number + 0.5 for number in shown], [names[number] for number in shown], **style)
    if step > 1:
        axis.set_tick_params(length=2, color=INK)


# --- curves and bars ---


@dataclass(frozen=True)
class Curve:
    """A line, with its name at its right end."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    colour: str = INK
    style: dict[str, Any] = field(default_factory=lambda: {"marker": "o", "markersize": 3})


def curves(
    axes: "Axes",
    lines: Sequence[Curve],
    title: str,
    ticks: tuple[Sequence[float], Sequence[str]],
    x_name: str = "",
) -> None:
    """Lines over an axis whose marks are at these places and have these names."""
    for line in lines:
        style = {"linewidth": 1.5, "color": line.colour, **line.style}
        axes.plot(line.x, line.y, **style)
    axes.set_xticks(*ticks)
    axes.minorticks_off()
    axes.set_title(title)
    axes.set_xlabel(x_name)
    axes.grid(axis="y", color="#e5e9ee", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("left", "bottom"):
        axes.spines[side].set(visible=True, color=QUIET)
    axes.tick_params(length=2, color=QUIET)
    axes.autoscale_view()

    def end_of(line: Curve) -> float:
        """How high it ends, from 0 to 1."""
        end = axes.transData.transform((line.x[-1], line.y[-1]))
        return float(axes.transAxes.inverted().transform(end)[1])

    lowest = -np.inf  # names are moved apart
    for line in sorted((line for line in lines if line.name), key=end_of):
        lowest = max(end_of(line), lowest + 0.075)
        units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        style = {"fontsize": 8, "va": "center", "color": line.colour}
        axes.annotate(label_of(line.name, 16), (1, lowest), (4, 0), **units, **style)


def bars(axes: "Axes", values: Sequence[float], names: Sequence[str] = ()) -> None:
    """A bar for each value, from top to bottom: blue, or orange below 0."""
    colours = [BLUE if value >= 0 else ORANGE for value in values]
    axes.barh(range(len(values)), values, color=colours, height=0.72)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks(range(len(values)), names or [""] * len(values), fontsize=9)


# --- images ---


def image_strip(
    images: Sequence[Pixels], per_row: int, side: float, gap: tuple[float, float] = (0.06, 0.06)
) -> "tuple[Sheet, list[Axes]]":
    """Images of one size, row by row, each of at most `side` inches. `gap` are the inches between
    two of them, to the right and below."""
    height, width = images[0].shape[:2]
    ratio = min(max(height / width, 0.25), 4.0)
    wide, high = (side, side * ratio) if ratio <= 1 else (side / ratio, side)
    num_rows, columns = ceil(len(images) / per_row), min(len(images), per_row)
    right, below = wide + gap[0], high + gap[1]
    sheet = Sheet(columns * right - gap[0], num_rows * below - gap[1])
    all_axes = []
    for number, image in enumerate(images):
        row, column = divmod(number, per_row)
        axes = sheet.axes(column * right, row * below, wide, high)
        height, width = image.shape[:2]
        how = "nearest" if max(height, width) <= SMALL else "antialiased"
        axes.imshow(coloured(image), interpolation=how, aspect="auto", extent=(0, width, height, 0))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set(visible=True, color=QUIET, linewidth=0.6)  # a white image has an edge
        all_axes.append(axes)
    return sheet, all_axes


def name_image(axes: "Axes", name: str, size: float = 9, most: int = 32) -> None:
    axes.set_title(label_of(name, most), fontsize=size)


def coloured(pixels: Pixels) -> Pixels:
    """(H, W, 3) of (H, W, 1 or 3)."""
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def glowing() -> "Colormap":
    """Transparent where nothing was looked at; then red, orange, yellow."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    steps = np.linspace(0, 1, 256)
    heat = colormaps["inferno"](steps)  # (256, 4)
    heat[:, 3] = 0.8 * steps**0.6
    return ListedColormap(heat)


# --- how a training scales: time and efficiency over the number of devices ---

HOUR = 3600.0
SCALING_ENDINGS = (".png", ".svg")


class Point(NamedTuple):
    """The training on so many devices."""

    devices: int
    seconds: float
    efficiency: float


def draw_scaling(title: str, about: str, points: Sequence[Point], chosen: int, path: Path) -> None:
    draw_picture(lambda: scaling_picture(title, about, points, chosen), path)


def scaling_picture(title: str, about: str, points: Sequence[Point], chosen: int) -> Sheet:
    """Left: hours, beside those of perfect scaling. Right: efficiency. A line marks the `chosen`
    number of devices, which need not be one of the points."""
    sheet = Sheet(10.5, 3.2)
    devices = [point.devices for point in points]
    hours = [point.seconds / HOUR for point in points]
    ideal = [points[0].efficiency * points[0].devices * hours[0] / number for number in devices]
    efficiency = [100 * point.efficiency for point in points]
    left, right = sheet.axes(wide=4.2), sheet.axes(6.3, 0, 4.2)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.axvline(chosen, color=INK, linewidth=0.8, linestyle=":")
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:g}")
    right.set_ylim(0, 105)
    ticks = devices, [f"{number:,}" for number in devices]
    x_name = "devices (logarithmic)"
    perfect = Curve(devices, ideal, "perfect scaling", QUIET, {"linestyle": "--"})
    planned = Curve(devices, hours, "planned", COLOURS[0])
    curves(left, [perfect, planned], "hours (logarithmic)", ticks, x_name)
    curves(right, [Curve(devices, efficiency, colour=COLOURS[1])], "efficiency (%)", ticks, x_name)
    for axes in (left, right):
        axes.tick_params(axis="x", rotation=45)
    lines = textwrap.wrap(about, 130)
    sheet.write("\n".join(lines), 0, -0.35)
    sheet.write(title, 0, -0.45 - 0.17 * len(lines), 12)
    return sheet
