"""Weights as text in a page: numbers → planes of bytes → gzip → base64.

    float32   exact
    float16   half the size; logits change by about 0.001
    int8      a quarter; each row of a matrix has its own scale; logits change by about 0.05

The bytes of a number are split into planes, all low bytes first: the high bytes, which hold sign
and exponent, are alike and compress well. `static/live/weights.js` is the way back.
"""

import base64
import gzip
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

PackedType = Literal["float32", "float16", "int8"]

LARGEST_HALF = float(np.finfo(np.float16).max)
# Characters per number; trained weights take about 4.9, 2.4 and 1.2.
_LEAST = {"float32": 4.0, "float16": 2.0, "int8": 1.0}
_SCALE = "/scale"  # after the name of a tensor: its scales

Arrays = dict[str, np.ndarray]


def packed_weights(
    model: nn.Module, dtype: PackedType, exact: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """The parameters of a model, those with several names once, and `exact` tensors, which are
    always float32. Equal weights give equal text."""
    names: dict[int, str] = {}
    aliases: dict[str, str] = {}
    parts: dict[str, Arrays] = {"int8": {}, "float16": {}, "float32": {}}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if names.setdefault(id(parameter), name) != name:
            aliases[name] = names[id(parameter)]
            continue
        values = parameter.detach().float().cpu().numpy()
        if dtype == "int8" and values.ndim == 2:
            parts["int8"][name], parts["float32"][name + _SCALE] = _rounded_rows(values)
        else:  # biases and norms are few, so int8 would save nothing
            parts["float16" if dtype == "int8" else dtype][name] = values
    for name, tensor in (exact or {}).items():
        parts["float32"][name] = tensor.cpu().numpy()
    packed = [_packed(kind, arrays) for kind, arrays in parts.items() if arrays]
    return {"dtype": dtype, "parts": packed, "aliases": aliases}


def least_size(model: nn.Module, dtype: PackedType) -> int:
    """Characters of text that trained weights take at the very least."""
    return int(_LEAST[dtype] * sum(each.numel() for each in model.parameters()))


def packed_size(packed: Mapping[str, Any]) -> int:
    """Characters of text."""
    return sum(len(part["data"]) for part in packed["parts"])


def as_text(values: np.ndarray) -> str:
    """A few numbers, every bit of them, in the order of bytes that all browsers use."""
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()


def _rounded_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from -127 to 127, and the factor of each row: (n, m) → (n, m), (n,)."""
    scale = np.abs(values).max(axis=1) / 127
    scale[scale == 0] = 1
    return np.rint(values / scale[:, None]), scale


def _packed(kind: str, arrays: Arrays) -> dict[str, Any]:
    flat = np.concatenate([values.ravel() for values in arrays.values()])
    numbers = flat.astype(np.dtype(kind).newbyteorder("<"))
    planes = numbers.view(np.uint8).reshape(len(numbers), -1).T  # (bytes of a number, numbers)
    data = gzip.compress(planes.tobytes(), 9, mtime=0)  # no date: equal weights, equal bytes
    return {
        "dtype": kind,
        "tensors": [[name, list(values.shape)] for name, values in arrays.items()],
        "data": base64.b64encode(data).decode(),
    }
