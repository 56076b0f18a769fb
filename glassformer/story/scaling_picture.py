"""How a training scales, as a picture: time and efficiency over the number of devices."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from glassformer.story.figures import COLOURS, INK, QUIET, Curve, Sheet, curves, draw_picture

HOUR = 3600.0
ENDINGS = (".png", ".svg")


class Point(NamedTuple):
    """The training on so many devices."""

    devices: int
    seconds: float
    efficiency: float


def draw(title: str, about: str, points: Sequence[Point], chosen: int, path: Path) -> None:
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
