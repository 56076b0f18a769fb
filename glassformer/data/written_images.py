"""Images that are written to disk: arrays as PNG files, equal arrays as equal bytes."""

from pathlib import Path

from PIL import Image

from glassformer.data.images import Pixels


def write_png(path: Path, pixels: Pixels) -> None:
    """Pixels (H, W), (H, W, 1) or (H, W, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flat = pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    Image.fromarray(flat).save(path, "PNG")
