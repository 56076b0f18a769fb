"""How a model learned, as one picture: its loss, a prediction, the text, and the head that changed
most, over the steps of the training."""

from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.inspection.over_time import OverTime
from glassformer.story.figures import COLOURS, INK, Curve, Sheet, curves, heat_map
from glassformer.story.labels import shortened, visible

WIDE = 11.0  # inches
MOST_TOKENS = 48  # columns of the text
CURVES, LEFT, RIGHT, BELOW = 2.4, 0.55, 1.25, 0.95  # inches


def history_picture(history: OverTime) -> Sheet:
    """Rows: loss and prediction; the text; one head at every step."""
    last = history.moments[-1]
    columns = [n for n, prediction in enumerate(last.predictions) if prediction.logprob is not None]
    names = [shortened(visible(str(last.predictions[n].actual)), 10) for n in columns[:MOST_TOKENS]]
    # Names of columns that would touch each other stand upright.
    names_high = 0.45 if max(map(len, names), default=0) * len(names) > 100 else 0.0
    text_high = 0.19 * len(history.moments) if names else 0.0
    side = min(1.6, WIDE / len(history.moments) - 0.08)  # of the map of a head
    has_heads = last.attention is not None or last.cross_attention is not None
    text_top = CURVES + BELOW + names_high
    heads_top = text_top + text_high + 0.55 if names else CURVES + BELOW
    end = heads_top + side if has_heads else text_top + text_high if names else CURVES
    sheet = Sheet(WIDE, end)
    half = (WIDE - LEFT) / 2 - RIGHT
    _draw_loss(sheet, history, LEFT, half)
    _draw_prediction(sheet, history, 2 * LEFT + half + RIGHT, half - LEFT)
    if names:
        logprobs = [
            [moment.predictions[n].logprob for n in columns[:MOST_TOKENS]]
            for moment in history.moments
        ]
        axes = sheet.axes(LEFT, text_top, WIDE - LEFT, text_high)
        rows = [f"{step:,}" for step in history.steps]
        p = np.exp(np.array(logprobs, dtype=np.float64))  # (S, T)
        heat_map(axes, p, rows, names, names_above=True, gap=1)
        cut = f"; the first {MOST_TOKENS} of them" if len(columns) > MOST_TOKENS else ""
        what = "text" if len(history.subject.streams) == 1 else "translation"
        title = f"probability of each token of the {what}, by step{cut}"
        axes.set_title(title)
    if has_heads:
        _draw_head(sheet, history, heads_top, side)
    about = f"{history.subject.model} at {len(history.moments)} steps of its training"
    sheet.title(history.subject.text, about, 0.4)
    return sheet


def _places(history: OverTime, steps: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Steps on an axis that begins with 0 and is logarithmic from the first snapshot on."""
    unit = next((step for step in history.steps if step), 1)
    return np.log1p(np.asarray(steps, dtype=np.float64) / unit)


def _ticks(history: OverTime) -> tuple[list[float], list[str]]:
    """The steps whose names have room; the last one always has."""
    places = _places(history, history.steps).tolist()
    shown: list[int] = []
    for number in reversed(range(len(places))):
        if not shown or places[shown[-1]] - places[number] > (places[-1] or 1.0) / 14:
            shown.append(number)
    return [places[number] for number in shown], [f"{history.steps[number]:,}" for number in shown]


def _draw_loss(sheet: Sheet, history: OverTime, left: float, wide: float) -> None:
    """The curves of the run, and the loss of this text at the snapshots."""
    metrics, lines = history.record.metrics, list[Curve]()
    steps = _places(history, np.array(metrics.get("step", []), dtype=np.float64))
    names = {"val_loss": "validation", "train_loss": "training"}
    for number, (column, name) in enumerate(names.items()):
        values = np.array(metrics.get(column, []), dtype=np.float64)  # None is nan
        is_known = np.isfinite(values)
        if is_known.any():
            style: dict[str, Any] = {"linewidth": 1.6 - 0.6 * number}
            x, y = steps[is_known].tolist(), values[is_known].tolist()
            lines.append(Curve(x, y, name, COLOURS[number], style))
    of_text = [moment.loss for moment in history.moments if moment.loss is not None]
    if of_text:
        style = {"linestyle": "--", "marker": "o", "markersize": 3}
        x = _places(history, history.steps).tolist()
        lines.append(Curve(x, of_text, "this text", INK, style))
    axes = sheet.axes(left, 0, wide, CURVES)
    axes.set_xlim(0, _ticks(history)[0][0] or 1.0)
    curves(axes, lines, "loss", _ticks(history), "step (logarithmic)")


def _draw_prediction(sheet: Sheet, history: OverTime, left: float, wide: float) -> None:
    """How the tokens or labels that are likeliest in the end became so."""
    at = history.focus
    shares = np.array([moment.followed[at] for moment in history.moments])  # (S, K)
    x = _places(history, history.steps).tolist()
    lines = [
        Curve(x, y, name, COLOURS[number % len(COLOURS)])
        for number, (name, y) in enumerate(
            zip(history.followed[at], shares.T.tolist(), strict=True)
        )
    ]
    where = {"next": "after", "same": "at"}.get(history.subject.predicts)
    token = shortened(visible(history.tokens[at]), 20) if where else ""
    axes = sheet.axes(left, 0, wide, CURVES)
    axes.set_xlim(0, x[-1] or 1.0)
    axes.set_ylim(0, max(0.05, 1.05 * float(shares.max())))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    title = f"prediction {where} “{token}”" if where else "predicted label"
    curves(axes, lines, title, _ticks(history), "step (logarithmic)")


def _draw_head(sheet: Sheet, history: OverTime, top: float, side: float) -> None:
    """The head that changed most, at every step; of a translator, its view of the source."""
    is_source = history.moments[-1].cross_attention is not None
    maps = [one.cross_attention if is_source else one.attention for one in history.moments]
    weights = np.stack([values for values in maps if values is not None])  # (S, L, H, T, T)
    change = np.abs(weights[-1] - weights[0]).sum((-2, -1))  # (L, H)
    layer, head = np.unravel_index(int(change.argmax()), change.shape)
    is_masked = history.is_causal and not is_source
    for number, step in enumerate(history.steps):
        axes = sheet.axes(number * (side + 0.08), top, side, side)
        heat_map(axes, weights[number, layer, head], is_masked=is_masked, gap=0)
        axes.set_xlabel(f"{step:,}")
        axes.spines[:].set(visible=True, color="#d5dae0")
    names = history.layers or [*range(change.shape[0])], history.heads or [*range(change.shape[1])]
    looks = "the source" if is_source else "the text"
    title = (
        f"attention to {looks} of layer {names[0][layer]}, head {names[1][head]}, by step "
        f"(rows look, columns are looked at{'; grey: masked' if is_masked else ''})"
    )
    sheet.write(title, 0, top - 0.1)
