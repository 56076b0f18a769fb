"""Arrays as a page carries them: binary, in text."""

import base64
from typing import Any

import numpy as np

from glassformer.inspection.capture import Array


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
