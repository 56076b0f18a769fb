"""How a model learned: the same input through the snapshots of its training, as a chapter of the
story, as a page of its own, and as a picture.

    OverTime → history_data → the chapter, in the story or alone
             → history_picture: loss and prediction; the text; the head that changed most
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer import __version__
from glassformer.errors import UsageError
from glassformer.inspect import Array, Doubles
from glassformer.inspect.figures import COLOURS, INK, Curve, Sheet, curves, heat_map, label_of
from glassformer.inspect.over_time import OverTime
from glassformer.inspect.page import SHARED, assembled, part
from glassformer.inspect.story_data import packed

# --- the page ---

STYLES = ("page.css", "report.css", "story/story.css", "story/history.css")
SCRIPTS = (
    *SHARED,
    "live/weights.js",
    "story/tokens.js",
    "story/embeddings.js",
    "story/time_charts.js",
    "story/past_heads.js",
    "story/history.js",
    "story/history_page.js",
)
SHOWN_OPTIONS = 8  # of each prediction
MOST_PIXELS = 64  # of a side of a map: of a longer text, some tokens share one
MOST_BYTES = 40_000_000  # of the maps of a page


def page(history: OverTime) -> str:
    """One HTML page. Equal histories give equal bytes."""
    subject = history.subject
    data = {
        "model": subject.model,
        "version": __version__,
        "text": subject.text,
        "notes": list(history.notes),
        "predicts": subject.predicts,
        "separator": subject.separator,
        "streams": [
            {"name": stream.name, "tokens": stream.tokens, "ids": stream.ids}
            for stream in subject.streams
        ],
        "history": history_data(history),
    }
    body = part("story/history.html")
    about = "This page shows how a model read a text at several steps of its training."
    return assembled("While it learned", body, STYLES, SCRIPTS, data, about)


def history_data(history: OverTime) -> dict[str, Any]:
    """What the chapter shows."""
    subject, moments = history.subject, history.moments
    memory = subject.streams[-1].memory
    source = next((stream for stream in subject.streams if stream.name == memory), None)
    return {
        "text": subject.text,
        "tokens": history.tokens,
        "source": None if source is None else source.tokens,
        "predicts": subject.predicts,
        "separator": subject.separator,
        "focus": history.focus,
        "steps": history.steps,
        "options": [
            [
                [[option.token, option.probability] for option in each.options[:SHOWN_OPTIONS]]
                for each in moment.predictions
            ]
            for moment in moments
        ],
        "followed": {"names": history.followed, "shares": [moment.followed for moment in moments]},
        "actual": [each.actual for each in moments[-1].predictions] if moments else [],
        "logprobs": [[each.logprob for each in moment.predictions] for moment in moments],
        "written": [moment.written for moment in moments],
        "maps": _maps(history),
        "patterns": _patterns(history),
        "metrics": history.record.metrics,
        "samples": [[step, text] for step, text in history.record.samples],
    }


def _maps(history: OverTime) -> dict[str, Any]:
    """The attention of every head at every step, by what is attended to: "own" tokens, or those
    of the "source"."""
    kinds = {
        "own": [moment.attention for moment in history.moments],
        "source": [moment.cross_attention for moment in history.moments],
    }
    maps = {}
    for name, of_moments in kinds.items():
        pooled = [_pooled(weights) for weights in of_moments if weights is not None]
        if not pooled:
            continue
        size = sum(weights.nbytes for weights in pooled) // 2  # as float16
        if size > MOST_BYTES:
            raise UsageError(
                f"the attention of all heads at all steps would take {size / 1e6:,.0f} MB of a "
                "page. Choose a layer with --layer 0."
            )
        num_layers, num_heads = pooled[0].shape[:2]
        maps[name] = {
            "layers": history.layers or list(range(num_layers)),
            "heads": history.heads or list(range(num_heads)),
            "opens": list(_most_changed(pooled)),
            # How many of them a causal mask concerns.
            "tokens": len(history.tokens) if name == "own" and history.is_causal else None,
            "weights": packed(np.stack(pooled)),  # (S, L, H, T, T) or (S, L, H, T, source)
        }
    return maps


def _pooled(weights: Array) -> Array:
    """(L, H, T, S) with at most `MOST_PIXELS` rows and columns: the mean over tokens that look, the
    sum over tokens looked at, so that rows still sum to one."""
    for axis, is_mean in ((-2, True), (-1, False)):
        length = weights.shape[axis]
        if length > MOST_PIXELS:
            edges = np.arange(MOST_PIXELS + 1) * length // MOST_PIXELS
            weights = np.add.reduceat(weights, edges[:-1], axis=axis)
            if is_mean:
                weights = weights / np.diff(edges)[:, None]
    return weights


def _most_changed(maps: Sequence[Array]) -> tuple[int, int]:
    """The layer and the head that differ most between the first step and the last, as positions in
    the maps."""
    change = np.abs(maps[-1] - maps[0]).sum((-2, -1))  # (L, H)
    layer, head = np.unravel_index(int(change.argmax()), change.shape)
    return int(layer), int(head)


def _patterns(history: OverTime) -> list[dict[str, Any]]:
    if not history.moments:
        return []
    return [
        {
            "name": pattern.name,
            "evenly": pattern.evenly,
            "shares": [moment.patterns[number].shares.tolist() for moment in history.moments],
        }
        for number, pattern in enumerate(history.moments[-1].patterns)
    ]


# --- the picture ---

WIDE = 11.0  # inches
MOST_TOKENS = 48  # columns of the text
CURVES, LEFT, RIGHT, BELOW = 2.4, 0.55, 1.25, 0.95  # inches


def history_picture(history: OverTime) -> Sheet:
    """Rows: loss and prediction; the text; one head at every step."""
    last = history.moments[-1]
    columns = [n for n, prediction in enumerate(last.predictions) if prediction.logprob is not None]
    names = [label_of(str(last.predictions[n].actual), 10) for n in columns[:MOST_TOKENS]]
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


def _places(history: OverTime, steps: ArrayLike) -> Doubles:
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
        is_there = np.isfinite(values)
        if is_there.any():
            style: dict[str, Any] = {"linewidth": 1.6 - 0.6 * number}
            x, y = steps[is_there].tolist(), values[is_there].tolist()
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
    token = label_of(history.tokens[at], 20) if where else ""
    axes = sheet.axes(left, 0, wide, CURVES)
    axes.set_xlim(0, x[-1] or 1.0)
    axes.set_ylim(0, max(0.05, 1.05 * float(shares.max())))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    title = f"prediction {where} “{token}”" if where else "predicted label"
    curves(axes, lines, title, _ticks(history), "step (logarithmic)")


def _draw_head(sheet: Sheet, history: OverTime, top: float, side: float) -> None:
    """The head that changed most, at every step; of a translator, its view of the source."""
    is_source = history.moments[-1].cross_attention is not None
    maps = [moment.cross_attention if is_source else moment.attention for moment in history.moments]
    weights = [values for values in maps if values is not None]  # (L, H, T, T) of each step
    layer, head = _most_changed(weights)
    is_masked = history.is_causal and not is_source
    for number, step in enumerate(history.steps):
        axes = sheet.axes(number * (side + 0.08), top, side, side)
        heat_map(axes, weights[number][layer, head], is_masked=is_masked, gap=0)
        axes.set_xlabel(f"{step:,}")
        axes.spines[:].set(visible=True, color="#d5dae0")
    name = history.layers[layer] if history.layers else layer
    name_of_head = history.heads[head] if history.heads else head
    looks = "the source" if is_source else "the text"
    title = (
        f"attention to {looks} of layer {name}, head {name_of_head}, by step "
        f"(rows look, columns are looked at{'; grey: masked' if is_masked else ''})"
    )
    sheet.write(title, 0, top - 0.1)
