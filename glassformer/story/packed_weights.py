"""Weights as text in a page: numbers → planes of bytes → gzip → base64.

    float32   exact
    float16   half the size; logits of trained models change by 0.002 to 0.004
    int16     the same size; each row of a matrix has its own scale; 0.0002
    int8      a quarter of the size, in the same way; 0.04 to 0.08

A float16 has eleven significant bits, an int16 fifteen: with a scale for each row it is the better
use of two bytes. The bytes of a number are split into planes, all low bytes first: the high bytes
are alike and compress well. `static/live/weights.js` is the way back.
"""

import base64
import gzip
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

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
    return int(_LEAST[dtype] * sum(each.numel() for each in model.parameters()))


def packed_size(packed: Mapping[str, Any]) -> int:
    """Characters of text."""
    return sum(len(part["data"]) for part in packed["parts"])


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
