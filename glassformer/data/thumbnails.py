"""Images inside a page: PNG as a data URI, so that nothing is loaded from elsewhere."""

import base64
import io

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


def data_uri(pixels: Pixels, longest: int | None = None) -> str:
    """An image (H, W, C), made smaller if one of its sides is longer than `longest`."""
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    if longest is not None:
        image.thumbnail((longest, longest))
    written = io.BytesIO()
    image.save(written, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
