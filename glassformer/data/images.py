"""Images: decoded, turned upright and converted to 8 bits, in greyscale or colour; and written.

    photo.jpg  →  Decoded.pixels, uint8 (H, W, C); C is 1 (greyscale) or 3 (red, green, blue)

The size is checked before anything is decoded, because a file of a few kilobytes can declare any
number of pixels. Only formats of pixels are opened: some others, such as EPS, are programs.
"""

import base64
import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from glassformer.data.archives import DataPath
from glassformer.data.text_files import EmptyError, open_bytes, report
from glassformer.errors import GlassformerError
from glassformer.wording import first_line, readable_size

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]  # height, width

MOST_PIXELS = 10**8
MOST_BYTES = 2**29  # of a file
ENDINGS = (
    ".png", ".jpg", ".jpeg", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif", ".ppm",
    ".pgm", ".pbm", ".ico", ".jp2",
)  # fmt: skip
_FORMATS = (
    "PNG", "JPEG", "MPO", "GIF", "BMP", "DIB", "WEBP", "TIFF", "AVIF", "PPM", "ICO", "JPEG2000",
)  # fmt: skip
_ORIENTATION = 0x0112  # a tag of EXIF
_UPRIGHT = 1
_HEADER = threading.Lock()


class NotAnImageError(GlassformerError):
    """A file is not an image, or is damaged."""


class TooLargeImageError(NotAnImageError):
    """An image has too many pixels to decode it."""


@dataclass(frozen=True)
class Decoded:
    """The pixels of an image, and how they were converted."""

    pixels: Pixels
    """(H, W, C)"""
    conversions: tuple[str, ...] = ()
    """Each completes the sentence "3 images …": "converted from CMYK"."""

    @property
    def size(self) -> Size:
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def num_channels(self) -> int:
        return self.pixels.shape[2]


@dataclass(frozen=True)
class Header:
    """What is known of an image before it is decoded."""

    size: Size
    num_channels: int


def read_image(path: DataPath, channels: int | None = None) -> Decoded:
    """The image in a file, which may be in an archive. Conversions are reported."""
    image = decode_image(read_image_bytes(path), str(path), channels)
    report_conversions(str(path), image)
    return image


def report_conversions(name: str, image: Decoded) -> None:
    for how in image.conversions:
        report().converted(name, how)


def read_image_bytes(path: DataPath) -> bytes:
    try:
        with open_bytes(path) as raw:
            content = raw.read(MOST_BYTES + 1)
    except EmptyError:
        raise NotAnImageError(f"{path} is empty, not an image.") from None
    if len(content) > MOST_BYTES:
        raise NotAnImageError(
            f"{path} is larger than {readable_size(MOST_BYTES)}, too large for an image."
        )
    return content


def read_header(content: bytes, name: str) -> Header:
    """The size of an image, upright, and its number of channels, without decoding it."""
    with _opened(content, name) as image:
        width, height = image.size
        if _orientation(image) > 4:  # lying on its side
            width, height = height, width
        is_grey = image.mode in ("1", "L", "LA", "La", "I", "F") or image.mode.startswith("I;")
        return Header((height, width), 1 if is_grey else 3)


def decode_image(content: bytes, name: str, channels: int | None = None) -> Decoded:
    """The image in some bytes; `name` is for errors. Channels: 1, 3, or (None) those it has."""
    with _opened(content, name) as image:
        converted = list(_about_file(image))
        turned = ImageOps.exif_transpose(image) if _orientation(image) != _UPRIGHT else image
        pixels, how = _to_eight_bits(turned)
        converted += how
    result = with_channels(pixels, channels)
    return Decoded(result.pixels, (*converted, *result.conversions))


def with_channels(pixels: Pixels, channels: int | None) -> Decoded:
    """Pixels (H, W, C) in greyscale, in colour, or (None) as they are."""
    if channels == 3 and pixels.shape[2] == 1:
        return Decoded(np.repeat(pixels, 3, axis=2))  # (H, W, 3)
    if channels == 1 and pixels.shape[2] == 3:
        grey = np.asarray(Image.fromarray(pixels).convert("L"))[:, :, None]  # (H, W, 1)
        return Decoded(grey, ("converted to greyscale",))
    return Decoded(np.ascontiguousarray(pixels))


def resized(pixels: Pixels, size: Size) -> Pixels:
    """The whole image, (H, W, C), in another size: (height, width, C). Nothing is cut off, the
    aspect ratio is not kept, and each new pixel is a mean of all old ones that it covers."""
    height, width = size
    if pixels.shape[:2] == (height, width):
        return pixels
    image = _as_image(pixels).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(height, width, pixels.shape[2])


def at_most(pixels: Pixels, side: int) -> Pixels:
    """An image of at most so many pixels on its longer side, in its own aspect ratio."""
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:
        return pixels
    return resized(pixels, (max(1, round(height * scale)), max(1, round(width * scale))))


# --- opening ---


@contextmanager
def _opened(content: bytes, name: str) -> Iterator[Image.Image]:
    """The image, of which only the header has been read; what goes wrong later names the file."""
    try:
        # Pillow's own limit is a warning, and how warnings are treated is global: one at a time.
        with _HEADER, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content), formats=_formats())
        with image:
            if image.width * image.height > MOST_PIXELS:
                raise _too_large(name)
            yield image
    except Image.DecompressionBombError:
        raise _too_large(name) from None
    except UnidentifiedImageError:
        raise NotAnImageError(f"{name} is not an image.") from None
    except (GlassformerError, MemoryError):
        raise
    except Exception as error:  # damaged files make the decoders raise nearly anything
        raise NotAnImageError(f"{name} is a damaged image: {first_line(error)}") from None


@cache
def _formats() -> list[str]:
    Image.init()
    return [format for format in _FORMATS if format in Image.OPEN]


def _too_large(name: str) -> TooLargeImageError:
    return TooLargeImageError(
        f"{name} has more than {MOST_PIXELS // 10**6} megapixels, like a decompression bomb. "
        "Scale it down."
    )


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, _UPRIGHT))
    except Exception:  # damaged EXIF data says nothing about the pixels
        return _UPRIGHT


# --- converting ---


def _about_file(image: Image.Image) -> Iterator[str]:
    """Conversions that follow from the file."""
    if getattr(image, "is_animated", False):
        yield "with several frames, of which the first is used"
    if any(";16" in str(tile[3]) for tile in getattr(image, "tile", ())) and image.mode == "RGB":
        yield "converted from 16 to 8 bits"  # Pillow drops the lower bits while decoding
    if _orientation(image) != _UPRIGHT:
        yield "turned upright, as their EXIF data says"


def _to_eight_bits(image: Image.Image) -> tuple[Pixels, list[str]]:
    """Pixels (H, W, 1 or 3), and how they were converted."""
    match image.mode:
        case "L" | "RGB" if "transparency" not in image.info:
            return _array(image), []
        case "1":
            return _array(image.convert("L")), []
        case "P" | "PA" | "LA" | "RGBA" | "La" | "RGBa" | "L" | "RGB":
            return _without_alpha(image)
        case "I" | "F":
            return _scaled(np.asarray(image))
        case mode if mode.startswith("I;16"):
            values = np.asarray(image).astype(np.float64)
            return _rounded(values / 257), ["converted from 16 to 8 bits"]
        case mode:
            return _array(image.convert("RGB")), [f"converted from {mode}"]


def _array(image: Image.Image) -> Pixels:
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels  # (H, W, C)


def _without_alpha(image: Image.Image) -> tuple[Pixels, list[str]]:
    """Transparent pixels show the white behind them."""
    how = ["converted from a palette"] if image.mode.startswith("P") else []
    is_grey = image.mode in ("LA", "La", "L")
    has_alpha = "A" in image.mode.upper() or "transparency" in image.info
    if not has_alpha:
        return _array(image.convert("RGB")), how
    full = image.convert("RGBA")
    if full.getchannel("A").getextrema() != (255, 255):
        white = Image.new("RGBA", full.size, "white")
        full = Image.alpha_composite(white, full)
        how.append("with transparent pixels, composited on white")
    return _array(full.convert("L" if is_grey else "RGB")), how


def _scaled(values: npt.NDArray[Any]) -> tuple[Pixels, list[str]]:
    """Whole numbers of 8 or 16 bits, or numbers from 0 to 1; any others by their range."""
    numbers = np.nan_to_num(values.astype(np.float64))
    low, high = float(numbers.min()), float(numbers.max())
    is_whole = values.dtype.kind in "iu"
    if is_whole and low >= 0 and high <= 65535:
        return _rounded(numbers / 257), ["converted from 16 to 8 bits"]
    if not is_whole and low >= 0 and high <= 1:
        return _rounded(numbers * 255), ["converted from 32 to 8 bits"]
    span = (high - low) or 1.0
    how = "scaled from their darkest and brightest value to 8 bits"
    return _rounded((numbers - low) / span * 255), [how]


def _rounded(values: npt.NDArray[np.float64]) -> Pixels:
    return np.rint(values).astype(np.uint8)[:, :, None]  # (H, W, 1)


# --- writing ---


def data_uri(pixels: Pixels, longest: int | None = None) -> str:
    """An image (H, W, C) as PNG inside a page, so that nothing is loaded from elsewhere; made
    smaller if one of its sides is longer than `longest`."""
    image = _as_image(pixels)
    if longest is not None:
        image.thumbnail((longest, longest))
    written = io.BytesIO()
    image.save(written, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


def write_png(path: Path, pixels: Pixels) -> None:
    """Write pixels (H, W), (H, W, 1) or (H, W, 3): equal arrays as equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _as_image(pixels).save(path, "PNG")


def _as_image(pixels: Pixels) -> Image.Image:
    """Pillow's form of pixels (H, W), (H, W, 1) or (H, W, 3)."""
    is_grey = pixels.ndim == 3 and pixels.shape[2] == 1
    return Image.fromarray(pixels[:, :, 0] if is_grey else pixels)
