"""How a model learned, as one picture: its loss, a prediction, the text, and the head that changed
most, over the steps of the training."""

from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.inspection.over_time import OverTime
from glassformer.story.figures import INK, later, masking
from glassformer.story.labels import shortened, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 11.0  # inches
COLOURS = ("#0b5cad", "#c2410c", "#1a7f37", "#7c3aed", "#a16207", "#be185d")
TURNED = 0.45  # inches more, for names that stand upright
QUIET = "#8a919a"
MOST_TOKENS = 48  # columns of the text
CURVES, LEFT, RIGHT, BELOW_CURVES, BELOW_TEXT = 2.4, 0.55, 1.25, 0.95, 0.55  # inches


def history_figure(found: OverTime) -> "Figure":
    """Rows: loss and prediction; the text; one head at every step."""
    from matplotlib.figure import Figure

    text, film = _text_height(found), _film_height(found)
    below = BELOW_CURVES + (TURNED if text and _are_turned(_names(found)) else 0)
    high = CURVES
    high += (text or film) and below
    high += text + film + (text and film and BELOW_TEXT)
    figure = Figure(figsize=(WIDE, high), facecolor="white")
    top = high

    def axes(left: float, wide: float, tall: float) -> "Axes":
        return figure.add_axes((left / WIDE, (top - tall) / high, wide / WIDE, tall / high))

    half = (WIDE - LEFT) / 2 - RIGHT
    _loss(axes(LEFT, half, CURVES), found)
    _prediction(axes(LEFT + half + RIGHT + LEFT, half - LEFT, CURVES), found)
    top -= CURVES + below
    if text:
        _text(axes(LEFT, WIDE - LEFT, text), found)
        top -= text + BELOW_TEXT
    if film:
        _film(figure, found, top, high)
    style: dict[str, Any] = {"color": INK, "parse_math": False, "ha": "left", "va": "bottom"}
    title = shortened(visible(found.subject.text), 90)
    figure.text(0, 1 + 0.62 / high, title, fontsize=12, **style)
    about = f"{found.subject.model} at {len(found.moments)} steps of its training"
    figure.text(0, 1 + 0.4 / high, about, fontsize=9, **style)
    return figure


# --- curves ---


def _places(steps: list[int]) -> Any:
    """Steps on an axis that begins with 0 and is logarithmic from the first snapshot on."""
    unit = next((step for step in steps if step), 1)
    return lambda step: np.log1p(np.asarray(step, dtype=np.float64) / unit)


def _time_axis(axes: "Axes", found: OverTime, title: str) -> None:
    place, steps = _places(found.steps), found.steps
    shown: list[int] = []
    width = float(place(steps[-1])) or 1.0
    for step in reversed(steps):  # the last one is always named
        if not shown or place(shown[-1]) - place(step) > width / 14:
            shown.append(step)
    axes.set_xticks(place(shown), [f"{step:,}" for step in shown])
    axes.set_xlim(0, width)
    axes.set_title(title, fontsize=9, color=INK, loc="left", parse_math=False)
    axes.tick_params(length=2, labelsize=8, labelcolor=INK, color=QUIET)
    axes.grid(axis="y", color="#edf2f7")
    axes.set_axisbelow(True)
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)
    for name in ("left", "bottom"):
        axes.spines[name].set_color(QUIET)
    axes.set_xlabel("step (logarithmic)", fontsize=8, color=INK)


def _named(axes: "Axes", ends: list[float], names: list[str], colours: list[str]) -> None:
    """Names at the right end of the lines, moved apart."""
    low, high = axes.get_ylim()
    least, taken = (high - low) * 0.075, -np.inf
    for number in sorted(range(len(ends)), key=ends.__getitem__):
        taken = max(ends[number], taken + least)
        axes.annotate(
            shortened(visible(names[number]), 12),
            (1.0, (taken - low) / (high - low)),
            xycoords="axes fraction",
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=colours[number],
            parse_math=False,
        )


def _loss(axes: "Axes", found: OverTime) -> None:
    """The curves of the run, and the loss of this text at the snapshots."""
    place, metrics = _places(found.steps), found.record.metrics
    steps = np.array(metrics.get("step", []), dtype=np.float64)
    ends, names, colours = [], [], []
    for number, (column, name) in enumerate(
        (("val_loss", "validation"), ("train_loss", "training"))
    ):
        values = np.array(metrics.get(column, []), dtype=np.float64)  # None is nan
        known = np.isfinite(values)
        if known.any():
            axes.plot(
                place(steps[known]), values[known], color=COLOURS[number], lw=1.6 - 0.6 * number
            )
            ends.append(float(values[known][-1]))
            names.append(name)
            colours.append(COLOURS[number])
    of_text = [each.loss for each in found.moments if each.loss is not None]
    if of_text:
        axes.plot(place(found.steps), of_text, color=INK, lw=1.2, ls="--", marker="o", ms=3)
        ends.append(of_text[-1])
        names.append("this text")
        colours.append(INK)
    _time_axis(axes, found, "loss")
    _named(axes, ends, names, colours)


def _prediction(axes: "Axes", found: OverTime) -> None:
    """How the tokens or labels that are likeliest in the end became so."""
    place, at = _places(found.steps), found.focus
    names = found.followed[at]
    shares = np.array([each.followed[at] for each in found.moments])  # (S, K)
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(names))]
    for number, colour in enumerate(colours):
        axes.plot(place(found.steps), shares[:, number], color=colour, lw=1.6, marker="o", ms=3)
    axes.set_ylim(0, max(0.05, 1.05 * float(shares.max())))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    where = {"next": "after", "same": "at"}.get(found.subject.predicts)
    token = shortened(visible(found.tokens[at]), 20) if where else ""
    _time_axis(axes, found, f"prediction {where} “{token}”" if where else "predicted label")
    _named(axes, shares[-1].tolist(), names, colours)


# --- the text ---


def _text_height(found: OverTime) -> float:
    known = any(each.logprob is not None for each in found.moments[-1].predictions)
    return 0.19 * len(found.moments) if known else 0.0


def _columns(found: OverTime) -> list[int]:
    """The positions whose token is known, and which fit."""
    last = found.moments[-1].predictions
    return [n for n, each in enumerate(last) if each.logprob is not None][:MOST_TOKENS]


def _names(found: OverTime) -> list[str]:
    last = found.moments[-1].predictions
    return [shortened(visible(str(last[n].actual)), 10) for n in _columns(found)]


def _are_turned(names: list[str]) -> bool:
    """Whether the names of the columns would touch if they were level."""
    return max(map(len, names), default=0) * len(names) > 100


def _text(axes: "Axes", found: OverTime) -> None:
    """A row for each step, a column for each token: how likely it was."""
    last, columns = found.moments[-1].predictions, _columns(found)
    logprobs = [[each.predictions[n].logprob for n in columns] for each in found.moments]
    p = np.exp(np.array(logprobs, dtype=np.float64))  # (S, T)
    axes.pcolormesh(p, cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=1)
    axes.invert_yaxis()
    names = _names(found)
    turn = 90 if _are_turned(names) else 0
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(names)) + 0.5, names, fontsize=8, parse_math=False, rotation=turn)
    axes.set_yticks(np.arange(len(found.steps)) + 0.5, [f"{step:,}" for step in found.steps])
    axes.tick_params(length=0, labelsize=8, labelcolor=INK, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    cut = f"; the first {MOST_TOKENS} of them" if len(last) > len(columns) == MOST_TOKENS else ""
    what = "text" if len(found.subject.streams) == 1 else "translation"
    title = f"probability of each token of the {what}, by step{cut}"
    axes.set_title(title, fontsize=9, color=INK, loc="left", pad=6)


# --- one head ---


def _film_height(found: OverTime) -> float:
    return _frame(found) if found.moments[-1].attention is not None or _has_source(found) else 0.0


def _has_source(found: OverTime) -> bool:
    return found.moments[-1].cross_attention is not None


def _frame(found: OverTime) -> float:
    """Inches of a side of one map."""
    return min(1.6, WIDE / len(found.moments) - 0.08)


def _film(figure: "Figure", found: OverTime, top: float, high: float) -> None:
    """The head that changed most, at every step; of a translator, its view of the source."""
    is_source = _has_source(found)
    maps = [each.cross_attention if is_source else each.attention for each in found.moments]
    weights = np.stack([each for each in maps if each is not None])  # (S, L, H, T, T)
    change = np.abs(weights[-1] - weights[0]).sum((-2, -1))  # (L, H)
    layer, head = np.unravel_index(int(change.argmax()), change.shape)
    side, is_masked = _frame(found), found.is_causal and not is_source
    is_hidden = later(len(found.tokens)) if is_masked else np.zeros(weights.shape[-2:], bool)
    for number, step in enumerate(found.steps):
        left = number * (side + 0.08)
        axes = figure.add_axes((left / WIDE, (top - side) / high, side / WIDE, side / high))
        shown = np.ma.masked_where(is_hidden, weights[number, layer, head])
        axes.imshow(shown, cmap=masking(), vmin=0, vmax=1, aspect="auto")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"{step:,}", fontsize=8, color=INK)
        for spine in axes.spines.values():
            spine.set_color("#d5dae0")
    names = found.layers or [*range(change.shape[0])], found.heads or [*range(change.shape[1])]
    looks = "the source" if is_source else "the text"
    title = (
        f"attention to {looks} of layer {names[0][layer]}, head {names[1][head]}, by step "
        f"(rows look, columns are looked at{'; grey: masked' if is_masked else ''})"
    )
    style: dict[str, Any] = {"fontsize": 9, "color": INK, "ha": "left", "va": "bottom"}
    figure.text(0, (top + 0.1) / high, title, **style)
