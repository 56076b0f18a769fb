"""A model that a page can carry and run: its weights, its tokenizers, and how it is connected.

    numbers → planes of bytes → gzip → base64           weights as text in the page

    float32   exact
    float16   half the size; logits of trained models change by 0.002 to 0.004
    int16     the same size; each row of a matrix has its own scale; 0.0002
    int8      a quarter of the size, in the same way; 0.04 to 0.08

`static/live/` reads this and knows no kind of model: a model describes how its parts are connected
(`wiring`), a preprocessing how a text becomes ids (`text_inputs`). A few of Python's own logits go
with it, so that the page can check, when it is opened, how far its numbers are from these.
"""

import base64
import gzip
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.inspect.story_data import as_text
from glassformer.models import name_of
from glassformer.models.heads import Labeller
from glassformer.models.stack import StackConfig, Wiring
from glassformer.nn.int8 import is_quantized
from glassformer.nn.positions import Positions
from glassformer.preprocessing import Preprocessing, TextInput
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.portable import portable
from glassformer.wording import an, readable_size

# --- weights as text ---
# A float16 has eleven significant bits, an int16 fifteen: with a scale for each row, it is the
# better use of two bytes. The bytes of a number are split into planes, all low bytes first: the
# high bytes are alike and compress well. `static/live/weights.js` is the way back.

PackedType = Literal["float32", "float16", "int16", "int8"]

LARGEST = {"int16": 32767, "int8": 127}
# Characters per number; trained weights take about 4.5, 2.3, 2.5 and 1.2.
_LEAST = {"float32": 4.0, "float16": 2.0, "int16": 2.0, "int8": 1.0}
_SCALE = "/scale"  # after the name of a tensor: its scales

Arrays = dict[str, np.ndarray]


def packed_weights(
    model: nn.Module, dtype: PackedType, exact: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """The parameters of a model, those with several names once, and `exact` tensors, which are
    always float32. Equal weights give equal text."""
    names: dict[int, str] = {}
    aliases: dict[str, str] = {}
    parts: dict[str, Arrays] = {str(dtype): {}, "float32": {}}  # one of them if dtype is float32
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if names.setdefault(id(parameter), name) != name:
            aliases[name] = names[id(parameter)]
            continue
        values = parameter.detach().float().cpu().numpy()
        if dtype not in LARGEST:
            parts[dtype][name] = values
        elif values.ndim < 2:  # biases and norms are few
            parts["float32"][name] = values
        else:
            rows, scales = _rounded_rows(values, LARGEST[dtype])
            parts[dtype][name], parts["float32"][name + _SCALE] = rows, scales
    for name, tensor in (exact or {}).items():
        parts["float32"][name] = tensor.cpu().numpy()
    packed = [_packed(kind, arrays) for kind, arrays in parts.items() if arrays]
    return {"dtype": dtype, "parts": packed, "aliases": aliases}


def least_size(model: nn.Module, dtype: PackedType) -> int:
    """Characters of text that trained weights take at the very least."""
    return int(_LEAST[dtype] * sum(parameter.numel() for parameter in model.parameters()))


def _rounded_rows(values: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers of at most this size, and the factor of each row: (n, m) → (n, m), (n,)."""
    scale = np.abs(values).max(axis=1) / largest
    scale[scale == 0] = 1
    return np.rint(values / scale[:, None]), scale


def _packed(kind: str, arrays: Arrays) -> dict[str, Any]:
    flat = np.concatenate([values.ravel() for values in arrays.values()])
    numbers = flat.astype(np.dtype(kind).newbyteorder("<"))
    planes = numbers.view(np.uint8).reshape(len(numbers), -1).T  # (bytes of a number, numbers)
    data = gzip.compress(planes.tobytes(), 6, mtime=0)  # no date: equal weights, equal bytes
    return {
        "dtype": kind,
        "tensors": [[name, list(values.shape)] for name, values in arrays.items()],
        "data": base64.b64encode(data).decode(),
    }


# --- the model for a page ---

LIVE_SCRIPTS = (
    "live/tensors.js",
    "live/attention.js",
    "live/block.js",
    "live/model.js",
    "live/residual.js",
    "live/weights.js",
    "live/tokenizer.js",
    "live/stamp.js",
    "live/decoding.js",
)
CHECKED_TOKENS, CHECKED_LOGITS = 12, 20_000  # of the check; at least one position


def live_or_error(
    model: nn.Module,
    preprocessing: Preprocessing,
    limit_bytes: int,
    dtype: PackedType | None = None,
) -> dict[str, Any]:
    """The model for a page, with weights of at most `limit_bytes`: int16 if that is small enough,
    else int8, unless `dtype` says which. An error says why it cannot run in a page."""
    wired = getattr(model, "wiring", None)
    if wired is None:
        raise GlassformerError(f"{an(name_of(model))} cannot run in a page.")
    wiring: Wiring = wired()
    config = cast(StackConfig, model.config)
    weights = _fitting_weights(model, wiring, limit_bytes, dtype)
    return {
        "config": config.explicit()
        | {"head_dim": config.width_of_head, "num_kv_heads": config.kv_heads},
        "streams": [
            asdict(stream)
            | {
                "num_layers": len(cast(nn.ModuleList, model.get_submodule(stream.stack))),
                "input": asdict(reads),
            }
            for stream, reads in zip(wiring.streams, _inputs(model, preprocessing), strict=True)
        ],
        "read_out": _read_out(model, wiring),
        "pooling": wiring.pooling,
        "labels": _labels(model),
        "tokenizers": {
            name: portable(tokenizer) for name, tokenizer in preprocessing.tokenizers.items()
        },
        "weights": weights,
        "check": _check(model, wiring),
        "longest_target": _longest_target(model, preprocessing),
    }


def _fitting_weights(
    model: nn.Module, wiring: Wiring, limit: int, dtype: PackedType | None
) -> dict[str, Any]:
    if is_quantized(model):
        raise GlassformerError(
            "the model cannot run in a page: it has 8-bit weights. Use the original model."
        )
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise GlassformerError("the model cannot run in a page: a weight is not a finite number.")
    exact = _frequencies(model, wiring)
    idf = f"{wiring.pooling}.idf"
    exact |= {name: buffer for name, buffer in model.named_buffers() if name == idf}
    kinds: tuple[PackedType, ...] = ("int16", "int8") if dtype is None else (dtype,)
    size = 0
    for kind in kinds:
        size = least_size(model, kind)
        if size <= limit:  # otherwise it need not be tried, which takes long for a large model
            weights = packed_weights(model, kind, exact)
            size = sum(len(part["data"]) for part in weights["parts"])  # characters
            if size <= limit:
                return weights
    raise GlassformerError(
        f"the model is too large for a page: its weights take {readable_size(size)} or more as "
        f"{kinds[-1]}, and the limit is {readable_size(limit)}."
    )


def _frequencies(model: nn.Module, wiring: Wiring) -> dict[str, Tensor]:
    """Angles per position, which are computed from the config, as Python computes them."""
    angles = {}
    width = cast(StackConfig, model.config).d_model
    for stream in wiring.streams:
        positions = cast(Positions, model.get_submodule(stream.positions))
        frequencies = positions.frequencies(width)
        if frequencies is not None:
            angles[f"{stream.positions}.frequencies"] = frequencies
    return angles


# --- how it is connected ---


def _read_out(model: nn.Module, wiring: Wiring) -> list[tuple[str, str]]:
    """The kind and name of each module; those that do nothing are left out."""
    kinds = {nn.Linear: "linear", nn.LayerNorm: "norm", nn.RMSNorm: "norm", nn.GELU: "gelu"}
    steps = []
    for name in wiring.read_out:
        if name.startswith(":"):
            steps.append((name[1:], name))
        elif not isinstance(module := model.get_submodule(name), nn.Identity):
            kind = next(kind for type_, kind in kinds.items() if isinstance(module, type_))
            steps.append((kind, name))
    return steps


def _labels(model: nn.Module) -> dict[str, Any] | None:
    """The labels that are predicted instead of tokens, and how their probabilities are computed."""
    if not isinstance(model, Labeller):
        return None
    return {
        "names": list(model.labels),
        "temperature": float(model.temperature),
        "are_several": model.config.multi_label,
    }


def _inputs(model: nn.Module, preprocessing: Preprocessing) -> tuple[TextInput, ...]:
    """How a text becomes what each stream reads, as the verbs of its task do it."""
    if isinstance(model, Labeller) and isinstance(preprocessing, TextPreprocessing):
        return (preprocessing.labelled_input,)
    if not preprocessing.text_inputs:
        raise GlassformerError(f"an input of kind {preprocessing.kind} cannot be read in a page.")
    return preprocessing.text_inputs


def _longest_target(model: nn.Module, preprocessing: Preprocessing) -> list[int] | None:
    """The most tokens of a translation, with its end, by the number of tokens of its source."""
    if not isinstance(preprocessing, PairPreprocessing):
        return None
    context = cast(int, model.context_length)
    return [preprocessing.longest_target(length, context) for length in range(context + 1)]


# --- the check ---


@torch.inference_mode()
def _check(model: nn.Module, wiring: Wiring) -> dict[str, Any]:
    """Tokens from all over the vocabularies, and the logits of the last positions."""
    length = min(CHECKED_TOKENS, cast(int, model.context_length))
    inputs = []
    for stream in wiring.streams:
        table = cast(nn.Embedding, model.get_submodule(stream.embedding))
        edges = [number * table.num_embeddings // length for number in range(length + 1)]
        inputs.append([(first + last) // 2 for first, last in pairwise(edges)])
    device = next(model.parameters()).device
    was_training = model.training
    try:
        rows = [torch.tensor([ids], device=device) for ids in inputs]
        logits = model.eval()(*rows)[0].float().cpu().numpy()  # (T, V), or (C,) for the whole text
    finally:
        model.train(was_training)
    logits = logits.reshape(-1, logits.shape[-1])
    count = max(1, min(len(logits), CHECKED_LOGITS // logits.shape[1]))
    return {
        "inputs": inputs,
        "positions": list(range(len(logits) - count, len(logits))),
        "logits": as_text(np.ascontiguousarray(logits[-count:], dtype=np.float32)),
    }
