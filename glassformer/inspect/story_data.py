"""What a page shows of an image: the picture with its grid, and attention in windows of it."""

import base64
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import UsageError
from glassformer.inspect.attribution import METHODS, Attribution, attributions
from glassformer.inspect.capture import Array, WindowLayer, main_directions, map_of
from glassformer.inspect.heads import HeadEffects
from glassformer.inspect.inspection import Inspection, Stream, Subject
from glassformer.inspect.text_views import BASELINE
from glassformer.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions

# --- embeddings ---
# Where tokens lie before the first layer: their neighbours, a map of them, and their positions.

NEIGHBOURS = 8
MOST_POSITIONS = 64
MOST_NUMBERS = 1_000_000  # in the vectors of all neighbours; beyond, only those of the map
MOST_PLACES = 1024  # of an image, whose positions are compared with each other


@torch.inference_mode()
def embedding_facts(subject: Subject) -> dict[str, Any] | None:
    """Neighbours by cosine, and places on a map of two directions, for the tokens of the last
    stream, with the vectors of unit length behind both; the vectors of the positions, where
    they are added. None without a table of vectors."""
    table, stream = subject.embedding, subject.streams[-1]
    if table is None:
        return None
    ids = list(dict.fromkeys(stream.ids))
    unit = torch.nn.functional.normalize(table.float(), dim=-1)  # (V, D)
    similar = unit[ids] @ unit.T  # (tokens, V)
    similar[torch.arange(len(ids)), ids] = -2  # not itself
    best = similar.topk(min(NEIGHBOURS, len(unit) - 1))
    name_of = subject.name_of_token
    neighbours = [
        [[name_of(other), value, other] for other, value in zip(*row, strict=True)]
        for row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    shown = list(dict.fromkeys([*ids, *best.indices[:, :3].flatten().tolist()]))
    vectors = unit[shown].cpu().numpy()
    directions, share = main_directions(vectors)
    places = (vectors - vectors.mean(0)) @ directions.T
    carried = list(dict.fromkeys([*shown, *best.indices.flatten().tolist()]))
    if len(carried) * unit.size(-1) > MOST_NUMBERS:
        carried = shown
    return {
        "ids": ids,
        "neighbours": neighbours,
        "shown": shown,
        "names": [name_of(id) for id in shown],
        "is_in_text": [id in set(ids) for id in shown],
        "places": places.tolist(),
        "share": share,
        "carried": carried,
        "vectors": unit[carried].cpu().numpy(),
        "mean": vectors.mean(0),
        "directions": directions,
        "positions": _positions(subject),
    }


def _positions(subject: Subject) -> dict[str, Any] | None:
    """What is added at each position, and how alike these vectors are."""
    stack = subject.streams[-1].stack
    if stack is None:
        return None
    width = stack.attentions[0].query.in_features
    length = min(MOST_POSITIONS, len(subject.streams[-1].ids))
    device = next(stack.parameters()).device
    vectors = position_vectors(subject.positions, length, width, device)
    if vectors is None:
        return None
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    return {"vectors": vectors.cpu().tolist(), "similar": (unit @ unit.T).cpu().tolist()}


@torch.inference_mode()
def position_vectors(
    positions: nn.Module | None, length: int, width: int, device: torch.device
) -> Tensor | None:
    """(T, D) what is added at each position; None: nothing, as for rotary positions."""
    add = getattr(positions, "add", None)
    if add is None:
        return None
    places = torch.arange(length, device=device)
    vectors: Tensor = add(torch.zeros(length, width, device=device), places).float()
    return vectors if vectors.any() else None


def adds_vectors(positions: nn.Module | None) -> bool:
    """Whether the vector of a position is added to its token."""
    return isinstance(positions, LearnedPositions | SinusoidalPositions)


def is_rotary(model: nn.Module) -> bool:
    """Whether positions rotate queries and keys."""
    return any(isinstance(each, RotaryPositions) for each in model.modules())


@torch.inference_mode()
def place_facts(seen: Inspection, stream: Stream) -> dict[str, Any] | None:
    """The same for the places of an image: a map of their vectors before positions are added, and
    how alike the positions of any two places are, (N, N). None if neither is known."""
    picture = stream.picture
    if picture is None:
        return None
    found: dict[str, Any] = {"places": None, "share": None, "similar": None}
    added, first = picture.positions, picture.num_extra
    if picture.unit == "patch" and seen.has_capture(stream):
        vectors = seen.capture(stream).hidden[0].copy()  # (T, D)
        if added is not None:
            vectors -= added.cpu().numpy()
        places, found["share"] = map_of(vectors[first:])
        found["places"] = places.tolist()
    if added is not None and len(added) - first <= MOST_PLACES:
        unit = torch.nn.functional.normalize(added[first:].float(), dim=-1)
        found["similar"] = (unit @ unit.T).cpu().numpy()
    return None if found["places"] is None and found["similar"] is None else found


# --- packed arrays ---
# Arrays as a page carries them: binary, and as small as a picture allows.

MOST_EXACT = 2**16  # numbers, up to which an array is carried as float32


def packed(values: Array, dtype: Any = None) -> dict[str, Any]:
    """An array as the page reads it: float32, so that sums that are written out have the digits of
    the model. Large arrays are float16, which keeps three digits and suffices for a picture,
    unless they have extreme values."""
    if dtype is None:
        is_large = values.size > MOST_EXACT
        fits = np.abs(values).max(initial=0) <= np.finfo(np.float16).max
        dtype = np.float16 if is_large and fits else np.float32
    data = as_text(values.astype(dtype))
    return {"dtype": np.dtype(dtype).name, "shape": list(values.shape), "data": data}


def as_text(values: np.ndarray) -> str:
    """Every bit of some numbers, in the order of bytes that all browsers use."""
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()


# --- picture data ---


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


# --- attribution ---
# What predictions rest on, for the page of a story: as many of them as can be computed quickly.

MEAN_COLOUR = "the mean colour of the image"
MOST_WORK = 3e10  # weights × tokens × gradients: a few seconds
USUAL_STEPS = 32  # of an integral


def attribution_data(seen: Inspection) -> dict[str, Any] | None:
    """All predictions of a short text, else the one in focus; nothing is `explained` if that, too,
    takes long. None if the model reads neither vectors nor pixels,
    or predicts nothing."""
    if not seen.subject.answers_other_inputs:
        return None
    chosen = _affordable(seen)
    if chosen is None:
        return {"explained": None, "is_too_long": True}
    try:
        found = attributions(seen, chosen)
    except UsageError:
        return None
    return {
        "baseline": BASELINE if seen.subject.pixels is None else MEAN_COLOUR,
        "methods": [[name, METHODS[name]] for name in found[0].methods],
        "explained": {str(each.prediction): _explained(each) for each in found},
    }


def _affordable(seen: Inspection) -> list[int] | None:
    subject, count = seen.subject, len(seen.predictions)
    num_weights = _num_weights(subject)
    num_tokens = sum(len(stream.tokens) for stream in subject.streams)
    one_pass = num_weights * num_tokens
    if one_pass * (USUAL_STEPS * count + num_tokens) <= MOST_WORK:
        return list(range(count))
    is_affordable = one_pass * (USUAL_STEPS + num_tokens) <= MOST_WORK
    return [subject.focus % count] if is_affordable else None


def _num_weights(subject: Subject) -> int:
    if subject.pixels is not None:
        return subject.pixels.num_weights
    stacks = [stream.stack for stream in subject.streams]
    modules = stacks if subject.module is None else [subject.module]
    return sum(each.numel() for module in modules if module for each in module.parameters())


def _explained(found: Attribution) -> dict[str, Any]:
    return {
        "token": found.token,
        "logprob": found.logprob,
        "baseline_logprob": found.baseline_logprob,
        "error": found.error,
        "num_steps": found.num_steps,
        "values": {name: values.tolist() for name, values in found.methods.items()},
        "correlations": [[a, b, value] for (a, b), value in found.correlations.items()],
    }
