"""Small images that tests write."""

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from glassformer.data.images import Pixels


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Pixels:
    """Random pixels (H, W, C)."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def save(path: Path, pixels: Pixels) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(path)
    return path


def class_folders(folder: Path, number: int = 10, size: int = 8, channels: int = 3) -> Path:
    """A folder for each class: dark and bright images, all different."""
    for seed in range(number):
        for index, name in enumerate(("dark", "light")):
            pixels = noise(size, size, channels, 2 * seed + index) // 2 + 128 * index
            save(folder / name / f"{seed:02}.png", pixels.astype(np.uint8))
    return folder


def png_header(width: int, height: int) -> bytes:
    """A PNG that declares a size and contains almost nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    start = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", start)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )
