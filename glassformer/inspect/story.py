"""The story of a text or an image inside a model, as one page that works offline.

    Inspection → story_data → page

The page draws from plain data: tokens, and for every layer the queries, keys and values, from which
it computes the attention of a head when the reader looks at it. Large arrays are binary. A chapter
is one script in `static/story/`, and a key of `story_data`.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import nn

from glassformer import __version__
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect import Array
from glassformer.inspect.capture import Capture, WindowLayer, map_of
from glassformer.inspect.history import history_data
from glassformer.inspect.inspection import Inspection, Stream
from glassformer.inspect.live import LIVE_SCRIPTS, live_or_error
from glassformer.inspect.page import SHARED, assembled, part
from glassformer.inspect.residual import residual_data
from glassformer.inspect.story_data import (
    attribution_data,
    contributions_of,
    effects_of,
    embeddings_of,
    layer_in_windows,
    packed,
    palette_of,
    parts_of,
    picture_of,
    spelling,
)
from glassformer.inspect.words import Contexts
from glassformer.nn.blocks import Block
from glassformer.wording import an

STYLES = (
    "page.css",
    "report.css",
    "story/story.css",
    "story/opinions.css",
    "story/whole.css",
    "story/history.css",
)
# Each script adds an entry to `chapters`: `id`, `title`, `note`, `equation`, `isShown(scene)` and
# `draw(place, scene)`. Scripts of a page form one module, so top-level names are unique, and a
# chapter uses what the shared scripts have: `follow` and `choose` (state.js); `declare`, `means`,
# `ref` and `term` (sources.js); `addFigure`, `setCaption` and `describe` (figures.js);
# `writeProse`, `layerPick`, `headPick` and `tokenPick` (prose.js); `drawMatrix` (matrix.js);
# `drawBars` (embeddings.js); `rove` and `pressable` (keyboard.js). An element says which number it
# shows (`means(element, "weight", stream, layer, head, query, key)`) and needs no code to light
# its sources: operations.js declares once what each number came from.
CHAPTERS = (
    "tokens",
    "embeddings",
    "attention",
    "computation",
    "feedforward",
    "residual",
    "layers",
    "prediction",
    "attribution",
    "beams",
    "kv_cache",
    "alignment",
    "what_if",
    "history",
)
PICTURES = (
    "picture",
    "patches",
    "picture_words",
    "picture_embeddings",
    "picture_attention",
    "picture_windows",
    "picture_palette",
)
SCRIPTS = (
    *SHARED,
    "random.js",
    "heat_colours.js",
    *(f"story/{name}.js" for name in PICTURES),
    "story/contexts.js",
    *(f"story/{name}.js" for name in CHAPTERS),
    "story/picture_layers.js",
    "story/labels.js",
    "story/what_if_decoding.js",
    "story/time_charts.js",  # this and the next: parts of the last chapter
    "story/past_heads.js",
    *LIVE_SCRIPTS,
    "story/live_scene.js",
    "story/operations.js",
    "story/whole.js",
    "story/present.js",
    "story/story.js",
)
ABOUT = "This page shows, step by step, what a model computes for one input."
MOST_BYTES = 40_000_000  # of the arrays of a page
MOST_LIVE = 16_000_000  # bytes of the weights that a page carries
MOST_SWITCHED = 600  # heads, up to which each is switched off once
MOST_LOGITS = 500_000  # of all predictions, up to which a page carries them
NAMED = 20  # of the tokens of each prediction


def page(
    seen: Inspection, chapter: str | None = None, layer: int | None = None, head: int | None = None
) -> str:
    """One HTML page, which opens at its beginning or at a chapter, and at a layer and a head. Equal
    inspections give equal bytes."""
    title = f"The story of {an(seen.subject.input_name)}"
    data = story_data(seen)
    if chapter is not None:
        address = {"chapter": chapter, "layer": layer, "head": head}
        data["address"] = {name: value for name, value in address.items() if value is not None}
    return assembled(title, part("story/story.html"), STYLES, SCRIPTS, data, ABOUT)


# --- what takes long ---


def beams_of(seen: Inspection) -> dict[str, Any]:
    return {"beams": None if seen.subject.search is None else seen.subject.search()}


def effects_of_heads(seen: Inspection) -> dict[str, Any]:
    """What the predictions lose without each head; nothing of a model with very many."""
    effects: dict[str, Any] = {"effects": None, "more_effects": None}
    groups = seen.head_groups
    in_windows = sum(len(layer.heads) for layer in seen.windows())
    num_heads = sum(layer.num_heads for group in groups.values() for layer in group) or in_windows
    if num_heads > MOST_SWITCHED:
        return effects
    if seen.has_layers:
        others = [name for name in groups if name != seen.stream.name]
        effects["more_effects"] = {name: effects_of(seen, num_heads, name) for name in others}
    if seen.has_layers or in_windows:
        effects["effects"] = effects_of(seen, num_heads)
    return effects


def history_of(seen: Inspection) -> dict[str, Any]:
    history = seen.subject.history
    return {"history": None if history is None else history_data(history())}


SLOW: dict[str, Callable[[Inspection], dict[str, Any]]] = {
    "beams": beams_of,
    "effects": effects_of_heads,
    "attribution": lambda seen: {"attribution": attribution_data(seen)},
    "history": history_of,
}
"""Parts of a story for which the model runs many times, or the models of its snapshots."""


# --- the data of the page ---


def story_data(seen: Inspection, without: Collection[str] = ()) -> dict[str, Any]:
    """What the page shows; `without` names slow parts, and "live", the model itself."""
    subject = seen.subject
    data: dict[str, Any] = {
        "model": subject.model,
        "version": __version__,
        "text": subject.title or subject.text,
        "notes": list(seen.notes),
        "absent": absent(seen),
        "predicts": subject.predicts,
        "separator": subject.separator,
        "streams": [_stream(seen, stream) for stream in subject.streams],
        "parts": parts_of(subject),
        "predictions": [asdict(prediction) for prediction in seen.predictions],
        "distributions": _distributions(seen),
        "totals": _totals(seen),
        "palette": palette_of(seen),
        "embeddings": embeddings_of(subject),
        "focus": subject.focus % max(1, len(seen.predictions)),
        "first_token": subject.first_token,
        "labels": list(subject.labels),
        "contributions": contributions_of(seen),
        "members": [
            {"weight": member.weight, "logits": member.logits.tolist()}
            for member in subject.members
        ],
        "rollout": None if subject.rollout is None else subject.rollout().tolist(),
        "lens": None,
        "path": None,
        "live": None,
        "contexts": None if seen.contexts is None else _contexts(seen.contexts),
    }
    why_not_live = "the page does not contain the model."
    if subject.module is not None and subject.is_carried and "live" not in without:
        try:
            data["live"] = live_or_error(subject.module, subject.preprocessing, MOST_LIVE)
        except GlassformerError as error:
            why_not_live = str(error)
    if data["live"] is None:
        data["absent"] = f"{data['absent']} {_absent_changes(seen, why_not_live)}".lstrip()
    data["residual"] = residual_data(seen, is_live=data["live"] is not None)
    if seen.has_layers:
        data["path"] = _path(seen.hidden)
        if subject.read_out is not None:
            data |= {"lens": _lens(seen), "lens_totals": seen.lens_totals.tolist()}
    slow = dict.fromkeys(("beams", "effects", "more_effects", "attribution", "history"))
    why = subject.no_history
    for name in [name for name in SLOW if name not in without]:
        try:
            slow |= SLOW[name](seen)
        except GlassformerError as error:  # of a history that is too large for a page
            if name != "history":
                raise
            why = str(error).removesuffix(".")
    if why:
        data["notes"].append(f"the chapter “While it learned” is left out: {why}")
    return data | slow


def _lens(seen: Inspection) -> list[list[list[list[Any]]]]:
    options = len(seen.predictions[0].options) if seen.subject.predicts == "whole" else 5
    return [
        [[[likely.token, likely.probability] for likely in row[:options]] for row in layer]
        for layer in seen.lens
    ]


def _stream(seen: Inspection, stream: Stream) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": stream.name,
        "tokens": stream.tokens,
        "ids": stream.ids,
        "memory": stream.memory,
        "memory_score": stream.memory_score,
        "causal": stream.is_causal,
        "picture": picture_of(seen, stream),
        "layers": None,
        "wiring": _wiring(stream),
        "cross": None,
        "spelling": None if stream.tokenizer is None else spelling(stream.tokenizer, stream.ids),
    }
    if seen.has_capture(stream):
        capture = seen.capture(stream)
        _check_size(capture)
        data["layers"] = _layers(capture.queries, capture.keys, capture.values)
        if (bias := capture.bias) is not None:
            data["bias"] = packed(bias)
        weights, looks_at_picture = capture.cross_attention, seen.subject.input_name == "image"
        if weights is not None and looks_at_picture:
            data["cross"] = [{"weights": packed(layer)} for layer in weights]
        elif (cross := capture.cross) is not None:
            data["cross"] = _layers(*cross)
    elif windows := seen.windows(stream):
        _check_size(*windows)
        data["layers"] = [layer_in_windows(layer) for layer in windows]
    elif stream is seen.stream and (weights := seen.cross_attention) is not None:
        data["cross"] = [{"weights": packed(layer)} for layer in weights]
    return data


def _wiring(stream: Stream) -> dict[str, Any] | None:
    """What equations say of its blocks, which are all alike; None: it has none."""
    blocks = [block for block in stream.stack or stream.blocks if isinstance(block, Block)]
    if not blocks:
        return None
    attention = blocks[0].attention
    return {
        "pre_norm": blocks[0].pre_norm,
        "has_bias": attention.query.bias is not None,
        "qk_norm": not isinstance(attention.query_norm, nn.Identity),
        "is_rotary": stream.is_rotary,
    }


def _layers(queries: Array, keys: Array, values: Array) -> list[dict[str, Any]]:
    return [
        {"query": packed(query), "key": packed(key), "value": packed(value)}
        for query, key, value in zip(queries, keys, values, strict=True)
    ]


def absent(seen: Inspection) -> str:
    """Why chapters are missing that other models have, if any are."""
    layers, past = _absent_layers(seen), ""
    if seen.subject.input_name == "image":
        past = "The chapter “While it learned” is there for models of text only."
    return " ".join(filter(None, (layers, past)))


def _absent_layers(seen: Inspection) -> str:
    if seen.vector is not None:
        return (
            "This model has no output layer: it turns a text into one vector and predicts nothing, "
            "so the chapters on predictions are absent. The effect of a head is how far this "
            "vector turns without it."
        )
    if seen.has_layers:
        return ""
    if windows := seen.windows():
        if len({layer.grid for layer in windows}) == 1:
            return (
                "The layers of this model attend in windows: there is no lens for them, and there "
                "are no chapters on the feed-forward layers and the residual stream."
            )
        return (
            "The stages of this model have different widths, so its layers cannot be read one by "
            "one: there is no lens, no chapter on the feed-forward layers, and no residual stream "
            "that all of them add to."
        )
    if seen.cross_attention is not None:
        return (
            "This model is recurrent: it has no layers of self-attention, and no residual "
            "stream, so the chapters on them are absent. What it attends to in its source is shown."
        )
    return (
        "This model has no layers of self-attention and no residual stream, so the chapters on "
        "them are absent."
    )


def _absent_changes(seen: Inspection, why: str) -> str:
    """Why the page does not run the model with parts changed."""
    writes = seen.subject.predicts == "next"
    if seen.vector is not None:
        why = "there is no prediction to compare with that of a changed model."
    elif seen.subject.input_name == "image":
        why = "models of images do not run in the page."
    elif not seen.has_layers:
        why = "the model has no scores to divide by √d and no causal mask"
        why += ", and no keys and values to keep." if writes else "."
    chapters = "chapters “What if” and “The KV cache” are" if writes else "chapter “What if” is"
    return f"The {chapters} absent: {why}"


def _check_size(*captures: Capture | WindowLayer) -> None:
    arrays = (x for capture in captures for x in (capture.queries, capture.keys, capture.values))
    size = sum(x.nbytes for x in arrays)
    if size > 2 * MOST_BYTES:  # as float16
        raise UsageError(
            f"a page of {size / 2e6:,.0f} MB would be too large. Use a shorter text, or look at "
            "one layer with --view heads --layer 0."
        )


def _distributions(seen: Inspection) -> dict[str, Any]:
    """All logits of each prediction of a next token, by its number: the highest first, with the
    names of the first ones. Of a long text or a large vocabulary, only those in focus."""
    if seen.subject.predicts != "next" or seen.stream.picture is not None:
        return {}
    numbers = range(len(seen.logits))
    if seen.logits.size > MOST_LOGITS:
        numbers = numbers[seen.subject.focus :][:1]
    return {str(number): _distribution(seen, seen.logits[number]) for number in numbers}


def _distribution(seen: Inspection, logits: Array) -> dict[str, Any]:
    order = np.argsort(-logits, kind="stable")
    names = [seen.subject.name_of(int(id)) for id in order[:NAMED]]
    return {"names": names, "logits": packed(logits[order], np.float32)}


def _totals(seen: Inspection) -> list[float] | None:
    """log Σ e^logit of each prediction: a probability is e^(logit - it). None: each label has a
    probability of its own, or nothing is predicted."""
    if seen.subject.has_several_labels or not len(seen.logits):
        return None
    most = seen.logits.max(-1).astype(np.float64)  # (P,)
    return list(most + np.log(np.exp(seen.logits - most[:, None]).sum(-1)))


def _path(hidden: Array) -> dict[str, Any]:
    """How the vector of each token moves from layer to layer, and how long it is."""
    norms = np.linalg.norm(hidden, axis=-1)  # (N + 1, T)
    unit = hidden / np.maximum(norms, 1e-9)[..., None]
    similar = (unit[1:] * unit[:-1]).sum(-1)  # (N, T) cosine to the layer before
    places, share = map_of(unit)  # (N + 1, T, 2)
    return {
        "places": places.tolist(),
        "share": share,
        "norms": norms.tolist(),
        "similar": similar.tolist(),
    }


def _contexts(contexts: Contexts) -> dict[str, Any]:
    places, share = contexts.places
    return {
        "word": contexts.word,
        "names": contexts.names,
        "cosine": contexts.cosine.tolist(),
        "map": places.tolist(),
        "map_share": share,
    }
