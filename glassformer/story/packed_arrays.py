"""Arrays as a page carries them: binary, and as small as a picture allows."""

import base64
from typing import Any

import numpy as np

from glassformer.inspection.capture import Array

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
