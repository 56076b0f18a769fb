"""How a model learned, on one page: the same input through the snapshots of its training.

`history_data` is what the chapter draws from, in the story and on a page of its own.
"""

from typing import Any

import numpy as np

from glassformer import __version__
from glassformer.errors import UsageError
from glassformer.inspection.capture import Array
from glassformer.inspection.over_time import OverTime
from glassformer.story.packed_arrays import packed
from glassformer.story.page import SHARED, assembled, part

STYLES = ("page.css", "report.css", "story/story.css", "story/history.css")
SCRIPTS = (
    *(*SHARED, "live/weights.js"),
    *("story/tokens.js", "story/embeddings.js", "story/time_charts.js", "story/past_heads.js"),
    *("story/history.js", "story/history_page.js"),
)
SHOWN_OPTIONS = 8  # of each prediction
MOST_PIXELS = 64  # of a side of a map: of a longer text, some tokens share one
MOST_BYTES = 40_000_000  # of the maps of a page


def page(found: OverTime) -> str:
    """One HTML page. Equal histories give equal bytes."""
    subject = found.subject
    data = {
        "model": subject.model,
        "version": __version__,
        "text": subject.text,
        "notes": list(found.notes),
        "predicts": subject.predicts,
        "separator": subject.separator,
        "streams": [
            {"name": each.name, "tokens": each.tokens, "ids": each.ids} for each in subject.streams
        ],
        "history": history_data(found),
    }
    body = part("story/history.html")
    return assembled("While it learned", body, STYLES, SCRIPTS, data)


def history_data(found: OverTime) -> dict[str, Any]:
    """What the chapter shows."""
    subject, moments = found.subject, found.moments
    source = next((each for each in subject.streams if each.name == _memory(found)), None)
    return {
        "text": subject.text,
        "tokens": found.tokens,
        "source": None if source is None else source.tokens,
        "predicts": subject.predicts,
        "separator": subject.separator,
        "focus": found.focus,
        "steps": found.steps,
        "options": [
            [
                [[one.token, one.probability] for one in each.options[:SHOWN_OPTIONS]]
                for each in moment.predictions
            ]
            for moment in moments
        ],
        "followed": {"names": found.followed, "shares": [each.followed for each in moments]},
        "actual": [each.actual for each in moments[-1].predictions] if moments else [],
        "logprobs": [[each.logprob for each in moment.predictions] for moment in moments],
        "written": [each.written for each in moments],
        "maps": _maps(found),
        "patterns": _patterns(found),
        "metrics": found.record.metrics,
        "samples": [[step, text] for step, text in found.record.samples],
    }


def _memory(found: OverTime) -> str | None:
    return found.subject.streams[-1].memory


def _maps(found: OverTime) -> dict[str, Any]:
    """The attention of every head at every step, by what is attended to: "own" tokens, or those
    of the "source"."""
    kinds = {
        "own": [each.attention for each in found.moments],
        "source": [each.cross_attention for each in found.moments],
    }
    maps = {}
    for name, weights in kinds.items():
        kept = [_pooled(each) for each in weights if each is not None]
        if kept:
            _check_size(kept)
            number = range(kept[0].shape[0]), range(kept[0].shape[1])
            maps[name] = {
                "layers": found.layers or list(number[0]),
                "heads": found.heads or list(number[1]),
                "opens": _most_changed(kept),
                # How many of them a causal mask concerns.
                "tokens": len(found.tokens) if name == "own" and found.is_causal else None,
                "weights": packed(np.stack(kept)),  # (S, L, H, T, T) or (S, L, H, T, source)
            }
    return maps


def _check_size(maps: list[Array]) -> None:
    size = sum(each.nbytes for each in maps) // 2  # as float16
    if size > MOST_BYTES:
        raise UsageError(
            f"the attention of all heads at all steps would take {size / 1e6:,.0f} MB of a page. "
            "Choose a layer with --layer 0."
        )


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


def _most_changed(maps: list[Array]) -> list[int]:
    """The places of the layer and the head that differ most between the first step and the last."""
    change = np.abs(maps[-1] - maps[0]).sum((-2, -1))  # (L, H)
    return [int(place) for place in np.unravel_index(int(change.argmax()), change.shape)]


def _patterns(found: OverTime) -> list[dict[str, Any]]:
    if not found.moments:
        return []
    return [
        {
            "name": pattern.name,
            "evenly": pattern.evenly,
            "shares": [moment.patterns[number].shares.tolist() for moment in found.moments],
        }
        for number, pattern in enumerate(found.moments[-1].patterns)
    ]
