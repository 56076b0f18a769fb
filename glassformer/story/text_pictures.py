"""Views of a text model as pictures for slides and papers: heads, lens, ablation, prediction,
attribution, contexts."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.atomic_files import write_file, write_json_line
from glassformer.errors import UsageError
from glassformer.inspection.attribution import METHODS
from glassformer.inspection.text_views import (
    BASELINE,
    AblationView,
    AttributionView,
    ContextsView,
    HeadsView,
    LensView,
    PredictionView,
    TextView,
)
from glassformer.story.figures import INK, drawing, later, masking, written
from glassformer.story.labels import shortened, visible
from glassformer.story.story import page
from glassformer.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE = "#3182bd", "#e6550d"  # more and less, as on the page
# Of several words: they differ for eyes that do not tell red from green, too (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6b00", "#555555")
MOST_USES = len(COLOURS)
FEW_MAPS = 16  # up to which each map has the names of the tokens at its sides; else the outer ones
NAME = 0.115  # inches from one name to the next, at least
MOST_CELLS = 60  # columns of a lens


def draw(view: TextView, path: Path) -> None:
    """Write a view to `path`, whole or not at all; a page has all views and opens at this one."""
    ending = path.suffix.lower()
    if ending == ".json":
        write_json_line(path, view.as_json())
    elif ending == ".html":
        write_file(path, page(view.seen))
    else:
        with drawing():
            write_file(path, written(_FIGURES[type(view)](view), ending.removeprefix(".")))


def _names(tokens: Sequence[str], limit: int = 14) -> list[str]:
    return [shortened(visible(token), limit) for token in tokens]


def _plain(axes: "Axes") -> None:
    axes.tick_params(length=0, labelsize=8, labelcolor=INK, pad=3)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _title(figure: "Figure", text: str, about: str, high: float, above: float = 0.0) -> None:
    """Above the axes, with some more inches between: what was read, and what is shown."""
    style: dict[str, Any] = {"color": INK, "parse_math": False, "ha": "left", "va": "bottom"}
    figure.text(0, 1 + (0.32 + above) / high, shortened(visible(text), 90), fontsize=12, **style)
    figure.text(0, 1 + (0.12 + above) / high, about, fontsize=9, **style)


def _scale(figure: "Figure", drawn: Any, name: str, wide: float, high: float) -> None:
    """The colours of a map, to the right of all axes."""
    bar_high = min(high - 0.3, 3.0)
    corner = (1 + 0.2 / wide, 1 - (0.3 + bar_high) / high)
    place = figure.add_axes((*corner, 0.12 / wide, bar_high / high))
    bar = figure.colorbar(drawn, cax=place, format="{x:.0%}")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=INK)
    bar.set_label(name, fontsize=8, color=INK)


# --- attention ---


def heads_figure(view: HeadsView) -> "Figure":
    """A map for each head: rows are the tokens that look, columns the tokens looked at."""
    from matplotlib.figure import Figure

    capture, tokens = view.seen.capture(), view.seen.tokens
    weights = capture.attention  # (L, H, T, T)
    layers, heads = weights.shape[:2]
    is_hidden = np.full(weights.shape[2:], view.seen.stream.is_causal) & later(len(tokens))
    if layers == 1:  # the heads of one layer fill a square
        columns = min(heads, max(1, math.ceil(math.sqrt(heads))))
        rows = math.ceil(heads / columns)
    else:
        rows, columns = layers, heads
    are_few = rows * columns <= FEW_MAPS
    room = max(1.6, 14 / columns) if are_few else min(1.6, 12 / columns)
    size = min(5.5, max(1.1, 0.2 * len(tokens)), room)
    gap = 0.75 if are_few else 0.14
    wide, high = columns * size + (columns - 1) * gap, rows * (size + 0.3) + (rows - 1) * gap
    figure = Figure(figsize=(wide, high), facecolor="white")
    for number, (layer, head) in enumerate(view.titles):
        row, column = divmod(number, columns)
        top = 1 - (row * (size + 0.3 + gap) + 0.3) / high
        place = (column * (size + gap) / wide, top - size / high, size / wide, size / high)
        axes = figure.add_axes(place)
        each = weights.reshape(-1, *weights.shape[2:])[number]
        shown = np.ma.masked_where(is_hidden, each)
        drawn = axes.imshow(shown, cmap=masking(), vmin=0, vmax=weights.max())
        axes.set_title(f"layer {layer}, head {head}", fontsize=8, color=INK, loc="left", pad=3)
        is_lowest = number + columns >= len(view.titles)
        _name_tokens(axes, tokens, size, are_few or is_lowest, are_few or column == 0)
    _scale(figure, drawn, "attention weight", wide, high)
    grey = "; grey: masked" if view.seen.stream.is_causal else ""
    about = f"attention of {view.seen.subject.model}: rows look, columns are looked at{grey}"
    _title(figure, view.seen.subject.text, about, high)
    return figure


def _name_tokens(
    axes: "Axes", tokens: Sequence[str], size: float, below: bool, beside: bool
) -> None:
    """The names of the tokens at a map of `size` inches: of every n-th, with a tick, if they are
    many."""
    _plain(axes)
    places = range(0, len(tokens), math.ceil(NAME * len(tokens) / size))
    names = _names([tokens[place] for place in places])
    style: dict[str, Any] = {"fontsize": 7, "parse_math": False}
    axes.set_xticks(places if below else (), names if below else (), rotation=90, **style)
    axes.set_yticks(places if beside else (), names if beside else (), **style)
    if len(places) < len(tokens):
        axes.tick_params(length=2, color=INK)


# --- lens ---


def lens_figure(view: LensView) -> "Figure":
    """The likeliest token after each layer; the darker, the likelier."""
    from matplotlib.figure import Figure

    seen = view.seen
    if len(seen.lens[0]) > MOST_CELLS:
        raise UsageError(
            f"the lens of {len(seen.tokens):,} tokens does not fit into a picture. Use a text of "
            f"at most {MOST_CELLS} tokens, or write a page (.html)."
        )
    layers = seen.lens
    best = [[place[0] for place in layer] for layer in layers]
    p = np.array([[each.probability for each in row] for row in best])  # (N + 1, T)
    written = [each.token for row in best for each in row]
    letters = max(map(len, _names([*seen.tokens, *written], 11)))
    wide, high = max(2.5, min(0.95, 0.25 + 0.075 * letters) * p.shape[1]), 0.34 * p.shape[0]
    figure = Figure(figsize=(wide, high), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    drawn = axes.pcolormesh(p, cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=2)
    for row, cells in enumerate(best):
        for column, each in enumerate(cells):
            name = shortened(visible(each.token), 11)
            colour = "white" if each.probability > 0.55 else "black"
            axes.text(
                column + 0.5,
                row + 0.5,
                name,
                ha="center",
                va="center",
                fontsize=8,
                color=colour,
                parse_math=False,
            )
    _plain(axes)
    is_whole = seen.subject.predicts == "whole"
    names = ["all tokens"] if is_whole else _names(seen.tokens, 11)
    axes.set_xticks(np.arange(len(names)) + 0.5, names, fontsize=9, parse_math=False)
    steps = ["input", *(f"layer {n}" for n in range(len(layers) - 1))]
    axes.set_yticks(np.arange(len(steps)) + 0.5, steps)
    _scale(figure, drawn, "probability", wide, high + 0.3)
    _title(figure, seen.subject.text, "what each layer would predict, were it the last", high)
    return figure


# --- ablation ---


def ablation_figure(view: AblationView) -> "Figure":
    """The effect of each head on the last prediction, or on the vector of the text."""
    from matplotlib.figure import Figure

    table = view.effects.divergence  # (N, H)
    wide, high = max(2.5, 0.75 * table.shape[1]), max(0.8, 0.5 * table.shape[0])
    figure = Figure(figsize=(wide, high), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    most = max(float(table.max()), 1e-9)
    axes.pcolormesh(table, cmap="Oranges", vmin=0, vmax=most, edgecolors="white", linewidth=2)
    axes.invert_yaxis()
    for (layer, head), value in np.ndenumerate(table):
        colour = "white" if value > 0.7 * most else INK
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "color": colour}
        axes.text(head + 0.5, layer + 0.5, f"{value:.3f}", **style)
    _plain(axes)
    axes.set_xticks(np.arange(table.shape[1]) + 0.5, [f"head {n}" for n in range(table.shape[1])])
    axes.set_yticks(np.arange(table.shape[0]) + 0.5, [f"layer {n}" for n in range(len(table))])
    if view.effects.change is None:
        about = "cosine distance of the vector of the text, without each head"
    else:
        about = f"KL divergence of what is predicted {_place(view)}, without each head"
    _title(figure, view.seen.subject.text, about, high)
    return figure


# --- prediction ---


def prediction_figure(view: PredictionView) -> "Figure":
    """The likeliest tokens or labels of the last prediction."""
    from matplotlib.figure import Figure

    options = view.seen.focused.options
    high = 0.3 * len(options)
    figure = Figure(figsize=(5.5, high), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    values = [each.probability for each in options]
    axes.barh(range(len(options)), values, color=BLUE, height=0.72)
    axes.set_xlim(0, max(values) * 1.18)
    axes.set_ylim(len(options) - 0.5, -0.5)
    for row, value in enumerate(values):
        axes.text(value, row, f" {percent(value)}", va="center", fontsize=9, color=INK)
    _plain(axes)
    axes.set_xticks([])
    axes.set_yticks(
        range(len(options)), _names([o.token for o in options], 20), fontsize=10, parse_math=False
    )
    about = f"what {view.seen.subject.model} predicts {_place(view)}"
    _title(figure, view.seen.subject.text, about, high)
    return figure


# --- attribution ---


def attribution_figure(view: AttributionView) -> "Figure":
    """A row for each token, a column of bars for each method."""
    from matplotlib.figure import Figure

    found = view.found
    rows = np.flatnonzero(found.is_read)
    if len(rows) > MOST_CELLS:
        raise UsageError(
            f"the bars of {len(rows):,} tokens do not fit into a picture. Use a text of at most "
            f"{MOST_CELLS} tokens, or write .json."
        )
    wide, high, step = 1.75 * len(found.methods), max(0.5, 0.26 * len(rows)), 1 / len(found.methods)
    figure = Figure(figsize=(wide, high), facecolor="white")
    for number, (name, values) in enumerate(found.methods.items()):
        axes = figure.add_axes((number * step, 0, 0.92 * step, 1))
        own = values[rows]
        most = max(float(np.abs(own).max(initial=0)), 1e-12)
        colours = [BLUE if value >= 0 else ORANGE for value in own]
        axes.barh(range(len(rows)), own / most, color=colours, height=0.72)
        axes.set_xlim(min(0.0, float(own.min()) / most) - 0.03, 1.05)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.axvline(0, color=INK, linewidth=0.6)
        _plain(axes)
        axes.set_xticks([])
        is_first = number == 0
        shown = _names([view.tokens[row] for row in rows]) if is_first else [""] * len(rows)
        axes.set_yticks(range(len(rows)), shown, fontsize=9, parse_math=False)
        unit = "" if name in ("attention", "rollout") else " nats"
        about = f"{METHODS[name]}\nup to {most:.2g}{unit}"
        axes.set_title(about, fontsize=8, color=INK, loc="left", pad=4)
    option = shortened(visible(found.token), 20)
    p = math.exp(found.logprob)
    where = f"{view.seen.subject.model} {_place(view)}"
    about = f"what the prediction of {where} rests on: “{option}”, {percent(p)}"
    figure.text(0, -0.22 / high, _completeness(view), fontsize=8, color=INK, va="top")
    _title(figure, view.seen.subject.text, about, high, 0.42)
    return figure


def _completeness(view: AttributionView) -> str:
    found = view.found
    return (
        f"baseline: {BASELINE}; integrated gradients sum to "
        f"{found.integrated_gradients.sum():.3f} of {found.logprob - found.baseline_logprob:.3f} "
        f"nats (error {abs(found.error):.1e})"
    )


# --- one word in several sentences ---


def contexts_figure(view: ContextsView) -> "Figure":
    """Left, the way of each vector through the layers; right, how alike they are after each."""
    from matplotlib.figure import Figure

    found = view.contexts
    if len(found.uses) > MOST_USES:
        raise UsageError(
            f'"{found.word}" stands in {len(found.uses)} places, and a picture shows at most '
            f"{MOST_USES}. Use fewer sentences, or write .json."
        )
    wide, high = 9.5, 3.6
    figure = Figure(figsize=(wide, high), facecolor="white")
    ways, alike = figure.add_axes((0, 0, 0.5, 1)), figure.add_axes((0.6, 0.12, 0.4, 0.88))
    places, share = found.places
    for number, name in enumerate(found.names):
        x, y = places[:, number].T
        colour = COLOURS[number]
        ways.plot(x, y, "-", color=colour, linewidth=1.5, zorder=1)
        ways.scatter(x, y, s=12, color=colour, zorder=2)
        ways.scatter(x[-1:], y[-1:], s=60, color=colour, zorder=3, label=shortened(name, 60))
    ways.set_xticks([])
    ways.set_yticks([])
    for spine in ways.spines.values():
        spine.set_color("#d0d7de")
    about = f"from the input to the last layer (large); {share:.0%} of all differences"
    ways.set_title(about, fontsize=8, color=INK, loc="left", pad=4)
    layers = ["input", *(f"layer {number}" for number in range(len(found.hidden) - 1))]
    layers = layers if len(layers) < 7 else ["input", *map(str, range(len(layers) - 1))]
    for a, b in found.pairs:
        style: dict[str, Any] = {
            "color": COLOURS[a],
            "markerfacecolor": COLOURS[b],
            "markeredgecolor": COLOURS[b],
        }
        alike.plot(found.cosine[:, a, b], "o-", markersize=5, linewidth=1.5, **style)
    alike.set_xticks(range(len(layers)), layers)
    alike.set_title(
        "cosine of each two of them: a line of one colour, dots of the other",
        fontsize=8,
        color=INK,
        loc="left",
        pad=4,
    )
    alike.tick_params(length=0, labelsize=8, labelcolor=INK)
    alike.grid(axis="y", color="#e5e9ee", linewidth=0.8)
    for spine in alike.spines.values():
        spine.set_visible(False)
    marks = ways.legend(
        loc="upper left", bbox_to_anchor=(0, -0.03), frameon=False, fontsize=9, borderpad=0
    )
    for text in marks.get_texts():
        text.set_parse_math(False)
        text.set_color(INK)
    title = f"“{found.word}” in {len(found.uses)} places"
    _title(figure, title, f"its vectors in {found.model}, layer by layer", high, 0.2)
    return figure


def _place(view: TextView) -> str:
    """Which prediction is drawn."""
    position = view.seen.focused.position
    if position is None:
        return "for the whole text"
    where = "after" if view.seen.subject.predicts == "next" else "at"
    return f"{where} “{shortened(visible(view.seen.tokens[position]), 20)}”"


_FIGURES: dict[type[Any], Callable[[Any], "Figure"]] = {
    HeadsView: heads_figure,
    LensView: lens_figure,
    AblationView: ablation_figure,
    PredictionView: prediction_figure,
    AttributionView: attribution_figure,
    ContextsView: contexts_figure,
}
