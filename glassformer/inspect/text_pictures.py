"""Views of a model that reads text, as pictures for slides and papers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.errors import UsageError
from glassformer.inspect.alignment import Alignment
from glassformer.inspect.attribution import MEAN_VECTOR, METHODS
from glassformer.inspect.capture import layer_names
from glassformer.inspect.figures import (
    COLOURS,
    Curve,
    Sheet,
    bars,
    curves,
    heat_map,
    shortened,
    visible,
)
from glassformer.inspect.text_views import (
    AblationView,
    AttributionView,
    ContextsView,
    HeadsView,
    LensView,
    PredictionView,
    TextView,
)
from glassformer.wording import percent

FEW_MAPS = 16  # up to which each map has the names of the tokens at its sides; else the outer ones
MOST_CELLS = 60  # columns of a lens


def labels_of(tokens: Sequence[str], limit: int = 14) -> list[str]:
    return [shortened(visible(token), limit) for token in tokens]


def alignment_picture(alignment: Alignment) -> Sheet:
    """Source from left to right, translation from top to bottom."""
    num_rows, num_columns = alignment.weights.shape
    longest = max(num_rows, num_columns)
    cell = min(max(5.5 / longest, 0.27), 0.6, 22 / longest)  # inches: with more tokens, they shrink
    sheet = Sheet(cell * num_columns, cell * num_rows)
    axes = sheet.axes()
    most = float(alignment.weights.max())
    names = labels_of(alignment.target_tokens, 24), labels_of(alignment.source_tokens, 24)
    drawn = heat_map(axes, alignment.weights, *names, most=most, names_above=True)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source", fontsize=10, labelpad=8)
    axes.set_ylabel("translation", fontsize=10, labelpad=8)
    sheet.scale(drawn, "attention weight")
    # The sentences on two lines: a wide title would make a wide picture of a narrow map.
    source, target = labels_of([alignment.source, alignment.target], 60)
    axes.set_title(f"{source}\n→ {target}", fontsize=12, pad=12)
    sheet.write(alignment.about(), 0, sheet.high + 0.15, va="top")
    return sheet


def heads_picture(view: HeadsView) -> Sheet:
    """A map for each head: rows are the tokens that look, columns the tokens looked at."""
    tokens, weights = view.seen.tokens, view.seen.attention  # (L, H, T, T)
    num_layers, num_heads = weights.shape[:2]
    maps = weights.reshape(-1, *weights.shape[2:])
    # The heads of one layer fill a square.
    columns = num_heads if num_layers > 1 else max(1, math.ceil(math.sqrt(num_heads)))
    rows = math.ceil(len(maps) / columns)
    are_few = rows * columns <= FEW_MAPS
    room = max(1.6, 14 / columns) if are_few else min(1.6, 12 / columns)
    size, gap = min(5.5, max(1.1, 0.2 * len(tokens)), room), 0.75 if are_few else 0.14
    across, down = size + gap, size + gap + 0.3
    sheet = Sheet(columns * across - gap, rows * down - gap)
    most, is_causal, names = float(weights.max()), view.seen.stream.is_causal, labels_of(tokens)
    for number, ((layer, head), values) in enumerate(zip(view.titles, maps, strict=True)):
        row, column = divmod(number, columns)
        axes = sheet.axes(column * across, row * down + 0.3, size, size)
        below = names if are_few or number + columns >= len(maps) else ()
        beside = names if are_few or column == 0 else ()
        drawn = heat_map(axes, values, beside, below, most=most, is_masked=is_causal, gap=0)
        axes.set_title(f"layer {layer}, head {head}", fontsize=8)
    sheet.scale(drawn, "attention weight")
    grey = "; grey: masked" if is_causal else ""
    about = f"attention of {view.seen.subject.model}: rows look, columns are looked at{grey}"
    sheet.title(view.seen.subject.text, about)
    return sheet


def lens_picture(view: LensView) -> Sheet:
    """The likeliest token after each layer; the darker, the likelier."""
    seen = view.seen
    best = [[options[0] for options in layer] for layer in seen.lens]
    if len(best[0]) > MOST_CELLS:
        raise UsageError(
            f"the lens of {len(seen.tokens):,} tokens does not fit into a picture. Use a text of "
            f"at most {MOST_CELLS} tokens, or write a page (.html)."
        )
    texts = [labels_of([likely.token for likely in row], 11) for row in best]
    is_whole = seen.subject.predicts == "whole"
    columns = ["all tokens"] if is_whole else labels_of(seen.tokens, 11)
    letters = max(map(len, [*columns, *(text for row in texts for text in row)]))
    cell = min(0.95, 0.25 + 0.075 * letters)
    sheet = Sheet(max(2.5, cell * len(columns)), 0.34 * len(best))
    p = [[likely.probability for likely in row] for row in best]  # (N + 1, T)
    drawn = heat_map(sheet.axes(), p, layer_names(len(best)), columns, texts=texts)
    sheet.scale(drawn, "probability")
    sheet.title(seen.subject.text, "what each layer would predict, were it the last")
    return sheet


def ablation_picture(view: AblationView) -> Sheet:
    """The effect of each head on the last prediction, or on the vector of the text."""
    table = view.effects.divergence  # (N, H)
    sheet = Sheet(max(2.5, 0.75 * table.shape[1]), max(0.8, 0.5 * table.shape[0]))
    rows, columns = (
        [f"{name} {number}" for number in range(count)]
        for name, count in zip(("layer", "head"), table.shape, strict=True)
    )
    texts = [[f"{value:.3f}" for value in row] for row in table]
    most = max(float(table.max()), 1e-9)
    heat_map(sheet.axes(), table, rows, columns, most=most, colours="Oranges", texts=texts)
    if view.effects.change is None:
        about = "cosine distance of the vector of the text, without each head"
    else:
        about = f"KL divergence of what is predicted {_place(view)}, without each head"
    sheet.title(view.seen.subject.text, about)
    return sheet


def prediction_picture(view: PredictionView) -> Sheet:
    """The likeliest tokens or labels of the last prediction."""
    options = view.seen.focused.options
    sheet = Sheet(5.5, 0.3 * len(options))
    axes, p = sheet.axes(), [likely.probability for likely in options]
    bars(axes, p, labels_of([likely.token for likely in options], 20))
    axes.set_xlim(0, max(p) * 1.18)
    for row, value in enumerate(p):
        axes.text(value, row, f" {percent(value)}", va="center", fontsize=9)
    sheet.title(view.seen.subject.text, f"what {view.seen.subject.model} predicts {_place(view)}")
    return sheet


def attribution_picture(view: AttributionView) -> Sheet:
    """A row for each token, a column of bars for each method."""
    attribution = view.found
    rows = np.flatnonzero(attribution.is_read)
    if len(rows) > MOST_CELLS:
        raise UsageError(
            f"the bars of {len(rows):,} tokens do not fit into a picture. Use a text of at most "
            f"{MOST_CELLS} tokens, or write .json."
        )
    wide = 1.75
    sheet = Sheet(wide * len(attribution.methods), max(0.5, 0.26 * len(rows)))
    names = labels_of([view.tokens[row] for row in rows])
    for number, (method, values) in enumerate(attribution.methods.items()):
        axes = sheet.axes(number * wide, 0, 0.92 * wide)
        most = max(float(np.abs(values[rows]).max(initial=0)), 1e-12)
        shares = values[rows] / most
        bars(axes, shares.tolist(), () if number else names)
        axes.set_xlim(min(0.0, float(shares.min())) - 0.03, 1.05)
        axes.axvline(0, color="#333333", linewidth=0.6)
        unit = "" if method in ("attention", "rollout") else " nats"
        about = f"{METHODS[method]}\nup to {most:.2g}{unit}"
        axes.set_title(about, fontsize=8)
    difference = attribution.logprob - attribution.baseline_logprob
    completeness = (
        f"baseline: {MEAN_VECTOR}; integrated gradients sum to "
        f"{attribution.integrated_gradients.sum():.3f} of {difference:.3f} nats "
        f"(error {abs(attribution.error):.1e})"
    )
    sheet.write(completeness, 0, sheet.high + 0.22, 8, va="top")
    (option,), p = labels_of([attribution.token], 20), percent(math.exp(attribution.logprob))
    where = f"{view.seen.subject.model} {_place(view)}"
    about = f"what the prediction of {where} rests on: “{option}”, {p}"
    sheet.title(view.seen.subject.text, about, 0.54)
    return sheet


def contexts_picture(view: ContextsView) -> Sheet:
    """Left, the way of each vector through the layers; right, how alike they are after each."""
    contexts = view.contexts
    if len(contexts.uses) > len(COLOURS):
        raise UsageError(
            f'"{contexts.word}" stands in {len(contexts.uses)} places, and a picture shows at most '
            f"{len(COLOURS)}. Use fewer sentences, or write .json."
        )
    sheet = Sheet(9.5, 3.6)
    ways, alike = sheet.axes(wide=4.75), sheet.axes(5.7, 0, 3.8, 3.17)
    places, share = contexts.places
    for number, name in enumerate(contexts.names):
        x, y = places[:, number].T
        colour = COLOURS[number]
        ways.plot(x, y, "o-", color=colour, linewidth=1.5, markersize=3.5)
        ways.plot(x[-1:], y[-1:], "o", color=colour, markersize=8, label=shortened(name, 60))
    ways.set_xticks([])
    ways.set_yticks([])
    ways.spines[:].set(visible=True, color="#d0d7de")
    about = f"from the input to the last layer (large); {share:.0%} of all differences"
    ways.set_title(about, fontsize=8)
    below: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -0.03), "handletextpad": 0}
    ways.legend(frameon=False, fontsize=9, **below)
    steps = range(len(contexts.hidden))
    lines = [
        Curve(
            steps,
            contexts.cosine[:, a, b].tolist(),
            colour=COLOURS[a],
            style={"marker": "o", "markersize": 5, "mfc": COLOURS[b], "mec": COLOURS[b]},
        )
        for a, b in contexts.pairs
    ]
    names = layer_names(len(steps))
    if len(names) > 6:
        names[1:] = map(str, range(len(names) - 1))
    title = "cosine of each two of them: a line of one colour, dots of the other"
    curves(alike, lines, title, (steps, names))
    title = f"“{contexts.word}” in {len(contexts.uses)} places"
    sheet.title(title, f"its vectors in {contexts.model}, layer by layer", 0.32)
    return sheet


def _place(view: TextView) -> str:
    """Which prediction is drawn."""
    position = view.seen.focused.position
    if position is None:
        return "for the whole text"
    where = "after" if view.seen.subject.predicts == "next" else "at"
    return f"{where} “{shortened(visible(view.seen.tokens[position]), 20)}”"
