"""An alignment as a heat map for slides and papers, drawn by matplotlib without a display."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from glassformer.inspection.alignment import Alignment
from glassformer.story.figures import INK, drawing, written
from glassformer.story.labels import shortened, visible, width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MANY = 24  # with more columns, their labels are vertical


@dataclass(frozen=True)
class _Layout:
    """Sizes in inches and points: with more tokens, cells shrink and the whole grows slowly."""

    num_rows: int
    num_columns: int

    @property
    def cell(self) -> float:
        longest = max(self.num_rows, self.num_columns)
        return min(max(5.5 / longest, 0.27), 0.6, 22 / longest)

    @property
    def font_size(self) -> float:
        return min(max(self.cell * 72 * 0.42, 7.5), 11)

    @property
    def label_step(self) -> int:
        """Number of cells per label."""
        return ceil(self.font_size * 1.25 / 72 / self.cell)

    def rotation(self, labels: Sequence[str]) -> int:
        room = self.cell * 72 / self.font_size - 0.8  # in units of the font size, without a gap
        if all(0.55 * width(label) <= room for label in labels):
            return 0
        return 45 if self.num_columns <= _MANY else 90


def heat_map(alignment: Alignment, title: str | None, about: str, kind: str) -> bytes:
    """The bytes of a "png" or "svg": source from left to right, output from top to bottom."""
    with drawing():
        return written(_figure(alignment, title, about), kind)


def _figure(alignment: Alignment, title: str | None, about: str) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    num_rows, num_columns = alignment.weights.shape
    layout = _Layout(num_rows, num_columns)
    wide, high = layout.cell * num_columns, layout.cell * num_rows
    figure = Figure(figsize=(wide, high), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    mesh = axes.pcolormesh(
        alignment.weights,
        cmap=_colours(),
        vmin=0,
        vmax=float(alignment.weights.max()),
        edgecolors="white",
        linewidth=min(1.5, layout.cell * 4),
    )
    axes.invert_yaxis()
    _label(axes, alignment, layout)
    bar_high = min(max(high, 1.2), 4.0)  # one row is too low for a scale, sixty rows are too high
    corner = (1 + 0.25 / wide, 1 - bar_high / high)
    bar = figure.colorbar(
        mesh, cax=figure.add_axes((*corner, 0.14 / wide, bar_high / high)), format="{x:.0%}"
    )
    bar.locator = MaxNLocator(8, steps=[1, 2, 5, 10])  # not 2.5, which would be rounded
    bar.update_ticks()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=INK)
    bar.set_label("attention weight", fontsize=9, color=INK)
    if title is not None:
        # The sentences on two lines: a wide title would make a wide picture of a narrow map.
        lines = [shortened(visible(part), 60) for part in title.split(" → ")]
        shown = "\n→ ".join(lines)
        axes.set_title(shown, fontsize=12, color=INK, pad=12, parse_math=False)
    if about:
        style: dict[str, Any] = {"fontsize": 9, "color": INK, "parse_math": False}
        axes.text(0, -0.15 / high, about, transform=axes.transAxes, va="top", **style)
    return figure


def _colours() -> "Colormap":
    """From a pale blue, which still contrasts with the white gaps, to a dark one."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    blues = matplotlib.colormaps["Blues"]
    return ListedColormap([blues(0.05 + 0.95 * step / 255) for step in range(256)])


def _label(axes: "Axes", alignment: Alignment, layout: _Layout) -> None:
    columns = [shortened(visible(token)) for token in alignment.source_tokens]
    rows = [shortened(visible(token)) for token in alignment.target_tokens]
    step, rotation = layout.label_step, layout.rotation(columns)
    turned: dict[str, Any] = {"ha": "left", "va": "center", "rotation_mode": "anchor"}
    style: dict[str, Any] = {"fontsize": layout.font_size, "color": INK}
    style["parse_math"] = False  # a $ is only a dollar sign
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(
        [place + 0.5 for place in range(0, len(columns), step)],
        columns[::step],
        rotation=rotation,
        **(turned if rotation else {}),
        **style,
    )
    axes.set_yticks([place + 0.5 for place in range(0, len(rows), step)], rows[::step], **style)
    axes.set_xlabel("source", fontsize=10, color=INK, labelpad=8)
    axes.set_ylabel("translation", fontsize=10, color=INK, labelpad=8)
    axes.tick_params(length=0, pad=5)
    for spine in axes.spines.values():
        spine.set_visible(False)
