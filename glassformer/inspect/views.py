"""The pictures of what `inspect` and painters show, and a row for each kind of result.

    result → picture for a slide or a paper (.png, .svg), page (.html) or numbers (.json)

A page has all views: the row of a result names the chapter at which it opens. Neither the results
nor what draws them knows a task.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from glassformer.errors import GlassformerError, UsageError
from glassformer.files import check_ending, write_file, write_json_line
from glassformer.inspect import Doubles, Pixels, history, story, text_views
from glassformer.inspect.alignment import Alignment, ImageAttention, WordPlaces
from glassformer.inspect.attribution import MEAN_VECTOR, METHODS
from glassformer.inspect.capture import layer_names
from glassformer.inspect.figures import (
    COLOURS,
    INK,
    ORANGE,
    Curve,
    Sheet,
    bars,
    coloured,
    curves,
    draw_picture,
    glowing,
    heat_map,
    image_strip,
    label_of,
    name_image,
)
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.over_time import OverTime
from glassformer.inspect.places import Paintings
from glassformer.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# --- texts ---

FEW_MAPS = 16  # up to which each map has the names of the tokens at its sides; else the outer ones
MOST_CELLS = 60  # columns of a lens


def labels_of(tokens: Sequence[str], limit: int = 14) -> list[str]:
    return [label_of(token, limit) for token in tokens]


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


def heads_picture(view: text_views.HeadsView) -> Sheet:
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


def lens_picture(view: text_views.LensView) -> Sheet:
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


def ablation_picture(view: text_views.AblationView) -> Sheet:
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


def prediction_picture(view: text_views.PredictionView) -> Sheet:
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


def attribution_picture(view: text_views.AttributionView) -> Sheet:
    """A row for each token, a column of bars for each method."""
    attribution = view.attribution
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


def contexts_picture(view: text_views.ContextsView) -> Sheet:
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
        ways.plot(x[-1:], y[-1:], "o", color=colour, markersize=8, label=label_of(name, 60))
    ways.set_xticks([])
    ways.set_yticks([])
    ways.spines[:].set(visible=True, color="#d0d7de")
    about = f"from the input to the last layer (large); {share:.0%} of the variance"
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
    title = "cosine of each pair: a line of one colour, dots of the other"
    curves(alike, lines, title, (steps, names))
    title = f"“{contexts.word}” in {len(contexts.uses)} places"
    sheet.title(title, f"its vectors in {contexts.model}, layer by layer", 0.32)
    return sheet


def _place(view: text_views.TextView) -> str:
    """Which prediction is drawn."""
    position = view.seen.focused.position
    if position is None:
        return "for the whole text"
    where = "after" if view.seen.subject.predicts == "next" else "at"
    return f"{where} “{label_of(view.seen.tokens[position], 20)}”"


# --- images ---

PER_ROW = 6  # words
LEAST_PIXELS = 256  # of the longer side of an image with a spotlight, which is smooth
DARKEST = 0.15  # brightness of a place without attention
CELL, LEAST, WIDEST = 1.1, 0.35, 14.0  # inches: of a painted image, at least, and of all of them
LINE = "#d62728"  # where painting began


def attention_picture(looking: ImageAttention) -> Sheet:
    """The image, and beside it the image with the weights."""
    # In grey, and dim where it was not looked at.
    dim = np.repeat(coloured(looking.pixels).mean(axis=2, keepdims=True) * 0.51, 3, axis=2)
    sheet, (left, right) = image_strip([looking.pixels, dim.astype(np.uint8)], 2, 3.6, (0.2, 0))
    name_image(left, PurePath(looking.image).name, 11)
    name_image(right, f"{looking.label} {percent(looking.score, 0)}", 11)
    highest, (height, width) = float(looking.weights.max()), looking.size
    style: dict[str, Any] = {"vmin": 0, "vmax": highest, "interpolation": "nearest"}
    extent = (0, width, height, 0)
    heat = right.imshow(looking.weights, glowing(), extent=extent, aspect="auto", **style)
    _frame(right, looking.size, looking.weights.shape, looking.peak, "white")
    # As many digits as tell the marks of the scale apart, a fifth of it or less from each other.
    digits = max(1, math.ceil(-math.log10(max(highest, 1e-7) / 5)) - 2)
    scale = sheet.scale(heat, "attention weight", sheet.high, digits)
    scale.set_facecolor("#3a3a3a")  # as the image below the weights
    sheet.write(looking.about(), 0, sheet.high + 0.1, va="top")
    return sheet


def words_picture(looking: WordPlaces) -> Sheet:
    """The image, and for each word the image with a light where the word looked."""
    from matplotlib.patheffects import withStroke

    picture = looking.pixels
    # A tiny image is enlarged, each of its pixels to a square.
    if (factor := -(-LEAST_PIXELS // max(picture.shape[:2]))) > 1:
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    lit = [spotlight(picture, weights) for weights in looking.weights]
    sheet, (_, *lit_axes) = image_strip([picture, *lit], PER_ROW, 1.9, (0.1, 0.34))
    for axes, word, weights, peak in zip(
        lit_axes, looking.words, looking.weights, looking.peaks(), strict=True
    ):
        name_image(axes, word, 11, 16)
        _frame(axes, picture.shape[:2], looking.grid, peak, ORANGE)
        style: dict[str, Any] = {"fontsize": 7, "color": "white", "va": "bottom", "ha": "right"}
        outline = [withStroke(linewidth=1.5, foreground=INK)]  # readable on any image
        share = f"{weights[peak]:.0%}"
        axes.text(0.98, 0.02, share, transform=axes.transAxes, path_effects=outline, **style)
    sheet.write(label_of(looking.caption, 90) if looking.caption else "(empty)", 0, -0.35, 12)
    sheet.write(looking.about(), 0, sheet.high + 0.1, 8, va="top")
    return sheet


def paintings_picture(paintings: Paintings) -> Sheet:
    """New images in a square; or a row for each completed one: the original, what was given, and
    the paintings."""
    if not paintings.completed:
        columns = math.ceil(math.sqrt(len(paintings.images)))
        return image_strip(paintings.images, columns, _cell(columns))[0]
    columns = len(paintings.rows[0][1])
    images = [image for _, row in paintings.rows for image in row]
    sheet, all_axes = image_strip(images, columns, _cell(columns))
    for number, axes in enumerate(all_axes):
        row, column = divmod(number, columns)
        completed = paintings.completed[row]
        if column > 1:
            edge = completed.num_rows
            width = completed.original.shape[1]
            axes.plot([0, width], [edge, edge], color=LINE, linewidth=0.8)
        if row == 0:
            name_image(axes, {0: "original", 1: "given"}.get(column, f"painted {column - 1}"), 8)
        if column == 0 and len(paintings.rows) > 1:
            axes.set_ylabel(label_of(PurePath(completed.name).name, 18), fontsize=7)
    return sheet


def _cell(columns: int) -> float:
    return max(LEAST, min(CELL, WIDEST / columns))


def _frame(
    axes: "Axes", size: tuple[int, ...], grid: tuple[int, ...], cell: tuple[int, int], colour: str
) -> None:
    """A frame around a cell of the grid that covers an image of this size."""
    from matplotlib.patches import Rectangle

    high, wide = (side / count for side, count in zip(size, grid, strict=True))
    corner = (cell[1] * wide, cell[0] * high)
    axes.add_patch(Rectangle(corner, wide, high, fill=False, color=colour, linewidth=1.2))


def enlarged(weights: Doubles, height: int, width: int) -> Doubles:
    """A grid (rows, columns) as smooth values from 0 to 1, (height, width); the largest is 1."""
    grid = Image.fromarray((weights / max(float(weights.max()), 1e-12)).astype(np.float32))
    smooth = np.asarray(grid.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)
    return np.clip(smooth / max(float(smooth.max()), 1e-12), 0, 1)


def spotlight(pixels: Pixels, weights: Doubles) -> Pixels:
    """The image (H, W, 3), lit by its weights (rows, columns)."""
    image = coloured(pixels).astype(np.float64)
    light = DARKEST + (1 - DARKEST) * enlarged(weights, *image.shape[:2])
    return np.rint(image * light[:, :, None]).astype(np.uint8)


# --- a row for each kind of result ---

PAINTINGS = (".png", ".svg", ".json")
DRAWN: dict[type[Any], tuple[Callable[[Any], Sheet], str]] = {
    Alignment: (alignment_picture, "alignment"),
    ImageAttention: (attention_picture, "attention"),
    WordPlaces: (words_picture, "words"),
    text_views.HeadsView: (heads_picture, "attention"),
    text_views.LensView: (lens_picture, "layers"),
    text_views.AblationView: (ablation_picture, "layers"),
    text_views.PredictionView: (prediction_picture, "prediction"),
    text_views.AttributionView: (attribution_picture, "attribution"),
    text_views.ContextsView: (contexts_picture, "layers"),
    OverTime: (history.history_picture, "history"),
    Paintings: (paintings_picture, ""),
}
"""The picture of each kind of result, and the chapter at which the page of the story opens for it;
that page has all views."""


def draw(view: Any, path: Path) -> None:
    """Write a result to `path`, whole or not at all; the ending chooses its format. Equal results
    give equal bytes."""
    ending = check_ending(path, PAINTINGS) if isinstance(view, Paintings) else check_ending(path)
    if ending == ".json":
        write_json_line(path, view.as_json())
    elif ending == ".html":
        write_file(path, _page(view))
    elif isinstance(view, Inspection):
        raise UsageError(
            f"{path}: the story is a page. Let the name end in .html, or choose a picture with "
            "--view."
        )
    elif isinstance(view, Alignment) and not view.target_tokens:
        raise GlassformerError(f"{path} was not drawn: the output is empty.")
    else:
        picture, _ = DRAWN[type(view)]
        draw_picture(lambda: picture(view), path)


def _page(view: Any) -> str:
    if isinstance(view, OverTime):
        return history.page(view)
    if isinstance(view, Inspection):
        return story.page(view)
    _, chapter = DRAWN[type(view)]
    return story.page(view.seen, chapter, *getattr(view, "chosen", (None, None)))
