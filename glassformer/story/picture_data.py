"""What a page shows of an image: the picture with its grid, and attention in windows of it."""

from dataclasses import fields
from typing import Any

import numpy as np

from glassformer.inspection.ablation import HeadEffects
from glassformer.inspection.embeddings import place_facts
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.subject import Stream
from glassformer.inspection.window_capture import WindowLayer
from glassformer.story.packed_arrays import packed


def picture_of(seen: Inspection, stream: Stream) -> dict[str, Any] | None:
    """The picture whose places are the tokens of a stream, if they are."""
    picture = stream.picture
    if picture is None:
        return None
    places = place_facts(seen, stream)
    if places is not None and places["similar"] is not None:
        places["similar"] = packed(places["similar"])
    shown = {each.name: getattr(picture, each.name) for each in fields(picture)}
    shown |= {name: list(shown[name]) for name in ("size", "seen_size", "grid")}
    shown["adds_positions"] = shown.pop("positions") is not None
    return shown | {"places": places}


def layer_in_windows(layer: WindowLayer) -> dict[str, Any]:
    """A layer as the page computes with it; the places are those of the layer's own grid."""
    return {
        "query": packed(layer.queries),
        "key": packed(layer.keys),
        "value": packed(layer.values),
        "bias": packed(layer.bias),
        "grid": list(layer.grid),
        "windows": layer.places.tolist(),
        "regions": layer.regions.tolist(),
    }


MOST_COMPARED = 20_000_000  # logits of all predictions, once for each head


def effects_of(seen: Inspection, num_heads: int, group: str | None = None) -> dict[str, Any]:
    """What each prediction loses without each head, by its number; null where a layer has fewer
    heads. Of very many large predictions, only the one in focus. `group`: the heads of another
    stream, or those that look at it."""
    if seen.vector is not None:
        return {"0": _effects(seen.effects(of=group))}
    numbers = range(len(seen.logits))
    if seen.logits.size * num_heads > MOST_COMPARED:
        numbers = numbers[seen.subject.focus :][:1]
    effects = seen.effects(slice(numbers.start, numbers.stop), of=group)
    if effects.change is None:
        raise TypeError("the effects on predictions have changes")
    pairs = zip(effects.divergence, effects.change, strict=True)
    return {
        str(number): _effects(HeadEffects(*pair))
        for number, pair in zip(numbers, pairs, strict=True)
    }


def _effects(effects: HeadEffects) -> dict[str, Any]:
    change = None if effects.change is None else _nested(effects.change)
    return {"divergence": _nested(effects.divergence), "change": change}


def contributions_of(seen: Inspection) -> dict[str, Any] | None:
    """How much each token adds to the logit of each label, the label itself, and their sums."""
    subject = seen.subject
    if subject.contributions is None:
        return None
    values = subject.contributions  # (T, C)
    bias = np.zeros(values.shape[1]) if subject.bias is None else subject.bias
    return {
        "values": values.T.tolist(),
        "bias": bias.tolist(),
        "logits": seen.logits[0].tolist(),
        "is_alone": subject.reads_words_alone,
        "longest_ngram": subject.longest_ngram,
        "reads_letters": subject.reads_letters,
    }


def _nested(values: Any) -> list[list[float | None]]:
    return [[None if np.isnan(each) else float(each) for each in row] for row in values]
