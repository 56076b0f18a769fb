"""The story of a text inside a model, as one page that works offline.

The page draws from plain data: tokens, and for every layer the queries, keys and values, from which
it computes the attention of a head when the reader looks at it. Large arrays are binary.
"""

import base64
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.atomic_files import write_file, write_json_line
from glassformer.errors import UsageError
from glassformer.inspection.capture import Array, Capture
from glassformer.inspection.embeddings import embedding_facts
from glassformer.inspection.inspection import Inspection, Stream
from glassformer.story.live import LIVE_SCRIPTS, live
from glassformer.story.page import assembled, part

STYLES = ("page.css", "report.css", "story/story.css")
CHAPTERS = (
    "tokens",
    "embeddings",
    "attention",
    "computation",
    "layers",
    "prediction",
    "beams",
    "alignment",
)
SCRIPTS = (
    *("elements.js", "scales.js", "heat_map.js", "story/arrays.js", "story/state.js"),
    *(f"story/{name}.js" for name in CHAPTERS),
    *LIVE_SCRIPTS,
    *("story/live_scene.js", "story/story.js"),
)
MOST_BYTES = 40_000_000  # of the arrays of a page
MOST_LIVE = 16_000_000  # bytes of the weights that a page carries
MOST_SWITCHED = 600  # heads, up to which each is switched off once


def draw(seen: Inspection, path: Path) -> None:
    """Write the story to `path`, whole or not at all."""
    ending = path.suffix.lower()
    if ending == ".json":
        write_json_line(path, seen.as_json())
    elif ending == ".html":
        write_file(path, page(seen))
    else:
        raise UsageError(
            f"{path}: the story is a page. Let the name end in .html, or choose a picture with "
            "--view."
        )


def page(seen: Inspection) -> str:
    """One HTML page. Equal inspections give equal bytes."""
    return assembled(
        "The story of a text", part("story/story.html"), STYLES, SCRIPTS, story_data(seen)
    )


def story_data(seen: Inspection, without: Collection[str] = ()) -> dict[str, Any]:
    """What the page shows; `without` names keys whose values would take long: live, effects."""
    subject = seen.subject
    found: dict[str, Any] = {
        "model": subject.model,
        "text": subject.text,
        "notes": list(seen.notes),
        "predicts": subject.predicts,
        "separator": subject.separator,
        "streams": [_stream(seen, stream) for stream in subject.streams],
        "predictions": [asdict(each) for each in seen.predictions],
        "distribution": _distribution(seen),
        "embeddings": embedding_facts(subject),
        "beams": None if subject.search is None else subject.search(),
        "focus": subject.focus % len(seen.predictions),
        "lens": None,
        "effects": None,
        "path": None,
        "live": None,
    }
    if len(subject.streams) == 1 and subject.module is not None and "live" not in without:
        found["live"] = live(subject.module, subject.preprocessing, MOST_LIVE)
    if seen.has_layers:
        found["path"] = _path(seen.hidden)
        if subject.read_out is not None:
            found["lens"] = [
                [[[each.token, each.probability] for each in place[:5]] for place in layer]
                for layer in seen.lens
            ]
        capture = seen.capture()
        if len(capture.layers) * len(capture.heads) <= MOST_SWITCHED and "effects" not in without:
            effects = seen.effects()
            found["effects"] = {
                "divergence": effects.divergence.tolist(),
                "change": effects.change.tolist(),
            }
    elif (cross := seen.cross_attention) is not None:
        found["streams"][-1]["cross"] = [{"weights": packed(each)} for each in cross]
    return found


def _stream(seen: Inspection, stream: Stream) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": stream.name,
        "tokens": stream.tokens,
        "ids": stream.ids,
        "memory": stream.memory,
        "layers": None,
        "cross": None,
    }
    if seen.has_capture(stream):
        capture = seen.capture(stream)
        _check_size(capture)
        found["causal"] = _is_causal(capture)
        found["layers"] = [
            {"query": packed(query), "key": packed(key), "value": packed(value)}
            for query, key, value in zip(capture.queries, capture.keys, capture.values, strict=True)
        ]
        if (bias := capture.bias) is not None:
            found["bias"] = packed(bias)
        if (cross := capture.cross_attention) is not None:
            found["cross"] = [{"weights": packed(each)} for each in cross]
    return found


def _check_size(capture: Capture) -> None:
    size = capture.queries.nbytes + capture.keys.nbytes + capture.values.nbytes
    if size > 2 * MOST_BYTES:  # as float16
        raise UsageError(
            f"a page of {size / 2e6:,.0f} MB would be too large. Use a shorter text, or look at "
            "one layer with --view heads --layer 0."
        )


def _is_causal(capture: Capture) -> bool:
    """Whether no position attends to a later one. A model that reads both ways always does."""
    weights = capture.attention
    return bool(weights.shape[-1] > 1 and not np.triu(weights, 1).any())


def _distribution(seen: Inspection) -> dict[str, Any] | None:
    """All logits of the last prediction, the highest first, and the names of the first ones."""
    logits = seen.logits[-1]
    order = np.argsort(-logits, kind="stable")
    names = [seen.subject.name_of(int(id)) for id in order[:200]]
    return {"names": names, "logits": packed(logits[order], np.float32)}


def _path(hidden: Array) -> dict[str, Any]:
    """How the vector of each token moves from layer to layer, and how long it is."""
    norms = np.linalg.norm(hidden, axis=-1)  # (N + 1, T)
    unit = hidden / np.maximum(norms, 1e-9)[..., None]
    similar = (unit[1:] * unit[:-1]).sum(-1)  # (N, T) cosine to the layer before
    flat = unit.reshape(-1, hidden.shape[-1]).astype(np.float64)
    flat -= flat.mean(0)
    _, scales, directions = np.linalg.svd(flat, full_matrices=False)
    places = (flat @ directions[:2].T).reshape(*norms.shape, -1)  # (N + 1, T, 2)
    share = float((scales[:2] ** 2).sum() / max((scales**2).sum(), 1e-12))
    return {
        "places": np.pad(places, [(0, 0), (0, 0), (0, 2 - places.shape[-1])]).tolist(),
        "share": share,
        "norms": norms.tolist(),
        "similar": similar.tolist(),
    }


def packed(values: Array, dtype: Any = np.float16) -> dict[str, Any]:
    """An array as the page reads it. float16 keeps three digits, which is more than a picture
    shows; its range suffices for all but extreme values, which are then float32."""
    if dtype == np.float16 and np.abs(values).max(initial=0) > np.finfo(np.float16).max:
        dtype = np.float32
    data = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return {
        "dtype": np.dtype(dtype).name,
        "shape": list(values.shape),
        "data": base64.b64encode(data.tobytes()).decode(),
    }
