"""How a training scales, as a picture: time and efficiency over the number of devices."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from glassformer.atomic_files import write_file
from glassformer.errors import UsageError
from glassformer.story.figures import INK, drawing, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIME, IDEAL, EFFICIENCY = "#0b5cad", "#8a919a", "#c2410c"
HOUR = 3600.0
ENDINGS = (".png", ".svg")


class Point(NamedTuple):
    """The training on so many devices."""

    devices: int
    seconds: float
    efficiency: float


def check_picture(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path}: the name of a picture ends in {' or '.join(ENDINGS)}.")


def draw(title: str, about: str, points: Sequence[Point], chosen: int, path: Path) -> None:
    with drawing():
        figure = scaling_figure(title, about, points, chosen)
        write_file(path, written(figure, path.suffix.lower().removeprefix(".")))


def scaling_figure(title: str, about: str, points: Sequence[Point], chosen: int) -> "Figure":
    """Left: hours, beside those of perfect scaling. Right: efficiency. A line marks the `chosen`
    number of devices, which need not be one of the points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), facecolor="white")
    left, right = figure.subplots(1, 2)
    devices = [point.devices for point in points]
    hours = [point.seconds / HOUR for point in points]
    ideal = [points[0].efficiency * points[0].devices * hours[0] / number for number in devices]
    left.plot(devices, ideal, "--", color=IDEAL, label="perfect scaling")
    left.plot(devices, hours, "o-", color=TIME, markersize=4, label="planned")
    left.set_yscale("log")
    left.set_ylabel("hours (logarithmic)")
    right.plot(devices, [100 * point.efficiency for point in points], "o-", color=EFFICIENCY)
    right.set_ylim(0, 105)
    right.set_ylabel("efficiency (%)")
    for axes in (left, right):
        _style(axes, devices, chosen)
    left.legend(frameon=False, fontsize=9)
    lines = textwrap.wrap(about, 130)
    top = 1 + 0.05 * len(lines)
    figure.tight_layout()
    figure.text(0.01, top + 0.06, title, fontsize=12, color=INK)
    figure.text(0.01, top, "\n".join(lines), fontsize=9, color=INK, va="top")
    return figure


def _style(axes: "Axes", devices: Sequence[int], chosen: int) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(devices, [f"{number:,}" for number in devices], fontsize=8, rotation=45)
    axes.minorticks_off()
    axes.set_xlabel("devices (logarithmic)")
    axes.axvline(chosen, color=INK, linewidth=0.8, linestyle=":")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
