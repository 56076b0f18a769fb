"""What the chapters of a story are drawn from: plain data, as small as a page needs it.

    tokens         bytes and merges of a text, or the image whose places they are
    embeddings     neighbours of each token, a map of them, their positions
    layers         attention in windows of an image, the effect of each head
    prediction     what each token contributes, and what predictions rest on
    the whole      the parts of the model

What takes long is limited: long texts and large models get less of it, or nothing.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.errors import UsageError
from glassformer.inspect import Floats
from glassformer.inspect.attribution import (
    MEAN_COLOUR,
    MEAN_VECTOR,
    METHODS,
    Attribution,
    attributions,
)
from glassformer.inspect.capture import WindowLayer, main_directions, map_of
from glassformer.inspect.heads import HeadEffects
from glassformer.inspect.inspection import (
    Inspection,
    Stream,
    Subject,
    adds_vectors,
    position_vectors,
)
from glassformer.inspect.places import Picture
from glassformer.models.bag import Bag
from glassformer.models.ensemble import Ensemble
from glassformer.nn.attention import PlaceAttention
from glassformer.nn.blocks import Block
from glassformer.nn.patches import ConvolutionalBlock, ConvolutionalEmbedding, PatchEmbedding
from glassformer.nn.pooling import IdfPooling, SequencePooling
from glassformer.nn.positions import Positions
from glassformer.nn.recurrent import Recurrence
from glassformer.nn.windows import PatchMerging
from glassformer.text.portable import does_merge, merges_of, num_merges
from glassformer.text.tokenizers import Tokenizer, bytes_of, readable_bytes

# --- arrays as a page carries them ---
# A page rounds JSON numbers to six digits. So what needs all its digits, or is large, is bytes in
# base64.

MOST_EXACT = 2**16  # numbers, up to which an array is carried as float32


def packed(values: Floats, dtype: Any = None) -> dict[str, Any]:
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


# --- tokens: their bytes, and the merges that made each word ---

LONGEST_WORD = 48  # bytes: a longer one has more steps than a reader follows
MOST_WORDS = 400  # different words whose merges are kept


def spelling(tokenizer: Tokenizer, ids: Sequence[int]) -> dict[str, Any] | None:
    """The bytes of each token of a byte-level vocabulary; if it merges bytes, also the words,
    each with the index of its first token, and the merges of every different word. None for
    other vocabularies."""
    if not tokenizer.is_byte_level:
        return None
    raw = [tokenizer.token_bytes(id) for id in ids]
    merges = does_merge(tokenizer)
    return {
        "bytes": [list(token) for token in raw],
        "words": _words(tokenizer, ids, raw) if merges else [],
        "num_merges": num_merges(tokenizer) if merges else 0,
    }


def _words(tokenizer: Tokenizer, ids: Sequence[int], raw: Sequence[bytes]) -> list[dict[str, Any]]:
    """Words whose merges end with the tokens that are there: those of a word that was cut off where
    the text was cut do not."""
    token_at, offset = {}, 0  # the token that begins at each byte of the text
    for number, token_bytes in enumerate(raw):
        if token_bytes:
            token_at[offset] = number
            offset += len(token_bytes)
    merges: dict[str, list[dict[str, Any]]] = {}
    words, offset = [], 0
    for word in tokenizer.parts(b"".join(raw).decode(errors="replace")):
        first, offset = token_at.get(offset), offset + len(word)
        if first is None or len(word) > LONGEST_WORD:
            continue
        if word not in merges and len(merges) < MOST_WORDS:
            merges[word] = [asdict(merge) for merge in merges_of(tokenizer, word)]
        steps = merges.get(word)
        if steps is None:
            continue
        pieces = steps[-1]["pieces"] if steps else [tokenizer.token(ids[first])]
        tokens = [tokenizer.token(id) for id in ids[first : first + len(pieces)]]
        if pieces == tokens:
            before = [readable_bytes(bytes_of(character)) for character in word]  # any merge
            words.append({"first": first, "bytes": before, "steps": steps})
    return words


# --- embeddings: where tokens lie before the first layer ---

NEIGHBOURS = 8
MOST_POSITIONS = 64
MOST_NUMBERS = 1_000_000  # in the vectors of all neighbours; beyond, only those of the map


@torch.inference_mode()
def embeddings_of(subject: Subject) -> dict[str, Any] | None:
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
    mean = vectors.mean(0)
    carried = list(dict.fromkeys([*shown, *best.indices.flatten().tolist()]))
    if len(carried) * unit.size(-1) > MOST_NUMBERS:
        carried = shown
    return {
        "ids": ids,
        "neighbours": neighbours,
        "shown": shown,
        "names": [name_of(id) for id in shown],
        "is_in_text": [id in set(ids) for id in shown],
        "places": ((vectors - mean) @ directions.T).tolist(),
        "share": share,
        "carried": carried,
        "vectors": packed(unit[carried].cpu().numpy()),
        "mean": packed(mean),
        "directions": packed(directions),
        "positions": _positions(subject),
        "entry": asdict(subject.entry),
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


# --- the image whose places are tokens ---

MOST_PLACES = 1024  # of an image, whose positions are compared with each other


def picture_of(seen: Inspection, stream: Stream) -> dict[str, Any] | None:
    """The picture whose places are the tokens of a stream, if they are."""
    picture = stream.picture
    if picture is None:
        return None
    shown = {field.name: getattr(picture, field.name) for field in fields(picture)}
    shown |= {name: list(shown[name]) for name in ("size", "seen_size", "grid")}
    shown["adds_positions"] = shown.pop("positions") is not None
    return shown | {"places": _places(seen, stream, picture)}


@torch.inference_mode()
def _places(seen: Inspection, stream: Stream, picture: Picture) -> dict[str, Any] | None:
    """A map of the vectors of all places before positions are added, and how alike the positions of
    any two places are, (places, places). None if neither is known."""
    facts: dict[str, Any] = {"places": None, "share": None, "similar": None}
    added, first = picture.positions, picture.num_extra
    if picture.unit == "patch" and seen.has_capture(stream):
        vectors = seen.capture(stream).hidden[0].copy()  # (T, D)
        if added is not None:
            vectors -= added.cpu().numpy()
        places, facts["share"] = map_of(vectors[first:])
        facts["places"] = places.tolist()
    if added is not None and len(added) - first <= MOST_PLACES:
        unit = torch.nn.functional.normalize(added[first:].float(), dim=-1)
        facts["similar"] = packed((unit @ unit.T).cpu().numpy())
    return None if facts["places"] is None and facts["similar"] is None else facts


MOST_CHANCES = 2**20  # log-probabilities of colours, up to which a page carries them


def palette_of(seen: Inspection) -> dict[str, Any] | None:
    """The palette of a painter and, unless they are too many, the log-probabilities of all colours
    at each pixel. None of other models."""
    if (picture := seen.stream.picture) is None or picture.unit != "pixel":
        return None
    logprobs = seen.logprobs.numpy()  # (P, K)
    return {
        "colours": [seen.subject.name_of(id) for id in range(logprobs.shape[-1])],
        "logprobs": packed(logprobs) if logprobs.size <= MOST_CHANCES else None,
        "actual": list(seen.subject.actual),
    }


def layer_in_windows(layer: WindowLayer) -> dict[str, Any]:
    """A layer as the page computes with it; the places are those of the layer's own grid."""
    return {
        "query": packed(layer.queries),
        "key": packed(layer.keys),
        "value": packed(layer.values),
        "bias": packed(layer.bias),
        "grid": list(layer.grid),
        "padded": list(layer.padded),
        "window": list(layer.window),
        "shift": list(layer.shift),
        "windows": layer.places.tolist(),
        "regions": layer.regions.tolist(),
    }


# --- the effect of each head, and of each token ---

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
    return [[None if np.isnan(value) else float(value) for value in row] for row in values]


# --- what predictions rest on: as many of them as can be computed quickly ---

MOST_WORK = 3e10  # weights × tokens × gradients: a few seconds
USUAL_STEPS = 32  # of an integral


def attribution_data(seen: Inspection) -> dict[str, Any] | None:
    """All predictions of a short text, else the one in focus; nothing is `explained` if that, too,
    takes long. None if the model reads neither vectors nor pixels, or predicts nothing."""
    if not seen.subject.answers_other_inputs:
        return None
    predictions = _affordable(seen)
    if predictions is None:
        return {"explained": None, "is_too_long": True}
    try:
        explained = attributions(seen, predictions)
    except UsageError:
        return None
    return {
        "baseline": MEAN_VECTOR if seen.subject.pixels is None else MEAN_COLOUR,
        "methods": [[name, METHODS[name]] for name in explained[0].methods],
        "explained": {str(each.prediction): _explained(each) for each in explained},
    }


def _affordable(seen: Inspection) -> list[int] | None:
    subject, count = seen.subject, len(seen.predictions)
    if subject.pixels is not None:
        num_weights = subject.pixels.num_weights
    else:
        stacks = [stream.stack for stream in subject.streams]
        modules = [subject.module] if subject.is_carried else stacks
        num_weights = sum(p.numel() for module in modules if module for p in module.parameters())
    num_tokens = sum(len(stream.tokens) for stream in subject.streams)
    one_pass = num_weights * num_tokens
    if one_pass * (USUAL_STEPS * count + num_tokens) <= MOST_WORK:
        return list(range(count))
    is_affordable = one_pass * (USUAL_STEPS + num_tokens) <= MOST_WORK
    return [subject.focus % count] if is_affordable else None


def _explained(attribution: Attribution) -> dict[str, Any]:
    return {
        "token": attribution.token,
        "logprob": attribution.logprob,
        "baseline_logprob": attribution.baseline_logprob,
        "error": attribution.error,
        "num_steps": attribution.num_steps,
        "values": {name: values.tolist() for name, values in attribution.methods.items()},
        "correlations": [[a, b, value] for (a, b), value in attribution.correlations.items()],
    }


# --- the parts of the model, in the order of their computation, for the picture of the whole ---
#
#     one pass through the model → the modules that it calls → for each its kind and its sizes

Part = dict[str, Any]

ENTRIES, BODIES = ("embedding", "patches"), ("layers", "recurrence")  # kinds of parts


@torch.inference_mode()
def parts_of(subject: Subject) -> list[list[Part]] | None:
    """The parts that read each stream. None: the model is not known."""
    model = subject.module
    if model is None:
        return None
    called: list[nn.Module] = []
    observed = [model, model.head] if isinstance(model, Bag) else _observed(model)
    hooks = [
        module.register_forward_pre_hook(lambda module, _: called.append(module))
        for module in observed
    ]
    try:
        subject.run()
    finally:
        for hook in hooks:
            hook.remove()
    parts = [_parts(model, modules) for modules in _split(called, len(subject.streams))]
    has_positions = any(adds_vectors(module) for module in model.modules())
    for own, stream in zip(parts, subject.streams, strict=True):
        is_read_at_once = stream.picture is not None or any(
            part["kind"] == "layers" for part in own
        )
        own[0]["adds_positions"] = has_positions and is_read_at_once
    if subject.streams[-1].memory_taps:  # a recurrent decoder looks before it reads a token
        parts[-1].insert(1, {"kind": "attention", "score": subject.streams[-1].memory_score})
    if subject.predicts in ("whole", "vector"):
        _add_pooling(parts[-1], getattr(model, "config", None))
    return parts


def _observed(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules that are a part of the picture."""
    for child in module.children():
        if _part(child):
            yield child
        elif not isinstance(child, Positions | PlaceAttention):  # which are described otherwise
            yield from _observed(child)


def _part(module: nn.Module) -> Part:
    """Its kind and its sizes; nothing of a module that is no part of the picture."""
    match module:
        case Bag():
            return _part(module.embedding) | {"kind": "bag"}
        case nn.Embedding():
            rows, width = module.num_embeddings, module.embedding_dim
            return {"kind": "embedding", "vocabulary": rows, "width": width}
        case PatchEmbedding() | ConvolutionalEmbedding():
            return {"kind": "patches", "is_convolution": isinstance(module, ConvolutionalEmbedding)}
        case nn.ModuleList() if len(module) and isinstance(block := module[0], Block):
            return {
                "kind": "layers",
                "count": len(module),
                "width": block.attention.query.in_features,
                "heads": block.attention.num_heads,
                "hidden": block.feedforward.up.out_features,
                "has_cross": block.cross_attention is not None,
            }
        case Recurrence(cells=cells):
            return {
                "kind": "recurrence",
                "cell": cells.mode.split("_")[0],
                "count": cells.num_layers,
                "width": cells.hidden_size,
                "is_both_ways": cells.bidirectional,
            }
        case ConvolutionalBlock():
            return {"kind": "convolution"}
        case PatchMerging():
            return {"kind": "merging"}
        case nn.LayerNorm() | nn.RMSNorm():
            return {"kind": "norm"}
        case SequencePooling():
            return {"kind": "pooling", "how": "learned"}
        case IdfPooling():
            return {"kind": "pooling", "how": "idf"}
        case nn.Linear():
            return {"kind": "linear", "from": module.in_features, "to": module.out_features}
    return {}


def _split(called: list[nn.Module], num_streams: int) -> list[list[nn.Module]]:
    """The modules of each stream, each once: the second stream begins at its embedding. A recurrent
    decoder calls its modules for every token."""
    streams: list[list[nn.Module]] = [[]]
    for module in called:
        if _part(module)["kind"] in ENTRIES and streams[-1] and len(streams) < num_streams:
            streams.append([])
        if module not in streams[-1]:
            streams[-1].append(module)
    return streams


def _parts(model: nn.Module, modules: list[nn.Module]) -> list[Part]:
    parts: list[Part] = []
    for module in modules:
        part = _part(module)
        if module is getattr(model, "head", None):
            part["kind"] = "head"
        if part["kind"] == "embedding" and parts and parts[-1]["kind"] == "embedding":
            parts[-1]["has_segments"] = True
            continue
        if part["kind"] == "bag" and isinstance(model, Ensemble):
            part["shares"] = model.shares.tolist()  # of the layers, and of the bag
        parts.append(part)
    return parts


def _add_pooling(parts: list[Part], config: Any) -> None:
    """A function makes one vector of those of all places, unless a module has done it."""
    kinds = [part["kind"] for part in parts]
    if "pooling" not in kinds and set(kinds) & set(BODIES):
        last = max(n for n, kind in enumerate(kinds) if kind in (*BODIES, "norm"))
        parts.insert(last + 1, {"kind": "pooling", "how": getattr(config, "pooling", "mean")})
