"""Decoding: every kind of image becomes 8 bits in one or three channels, and says how."""

import io
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from drawn_images import noise, png_header, save
from PIL import Image

from glassformer.data.archives import local_path
from glassformer.data.images import (
    NotAnImageError,
    TooLargeImageError,
    decode_image,
    read_header,
    read_image,
    resized,
)
from glassformer.data.text_files import collecting


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_pixels_of_a_lossless_image_are_the_ones_that_were_saved(tmp_path: Path) -> None:
    for channels in (1, 3):
        pixels = noise(5, 7, channels)
        found = read_image(save(tmp_path / f"{channels}.png", pixels))
        assert np.array_equal(found.pixels, pixels)
        assert found.size == (5, 7)
        assert found.conversions == ()


def test_an_image_in_a_zip_is_read(tmp_path: Path) -> None:
    pixels = noise(4, 4)
    save(tmp_path / "a.png", pixels)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.png", "in/a.png")
    found = read_image(local_path(tmp_path / "a.zip/in/a.png"))
    assert np.array_equal(found.pixels, pixels)


def test_cmyk_is_converted_and_reported() -> None:
    image = Image.new("CMYK", (3, 2), (0, 255, 255, 0))
    found = decode_image(encoded(image, "TIFF"), "a.tif")
    assert found.pixels[0, 0].tolist() == [255, 0, 0]
    assert found.conversions == ("converted from CMYK",)


def test_sixteen_bits_become_eight_without_wrapping_around() -> None:
    values = np.array([[0, 257 * 100, 65535]], dtype=np.uint16)
    found = decode_image(encoded(Image.fromarray(values)), "a.png")
    assert found.pixels[0, :, 0].tolist() == [0, 100, 255]
    assert found.conversions == ("converted from 16 to 8 bits",)


def test_sixteen_bit_colour_is_reported() -> None:
    values = np.array([[65535, 0, 257 * 7]], dtype=">u2").tobytes()
    rows = b"".join((b"\0", values))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    found = decode_image(b"\x89PNG\r\n\x1a\n" + header + body, "a.png")
    assert found.pixels[0, 0].tolist() == [255, 0, 7]
    assert found.conversions == ("converted from 16 to 8 bits",)


def test_a_palette_becomes_colours() -> None:
    image = Image.fromarray(np.array([[[255, 0, 0], [0, 0, 255]]], dtype=np.uint8))
    found = decode_image(encoded(image.quantize(2)), "a.png")
    assert found.pixels[0].tolist() == [[255, 0, 0], [0, 0, 255]]
    assert found.conversions == ("converted from a palette",)


def test_the_first_frame_of_an_animation_is_used() -> None:
    frames = [Image.new("RGB", (2, 2), color) for color in ("red", "blue")]
    found = decode_image(
        encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), "a.gif"
    )
    assert found.pixels[0, 0].tolist() == [255, 0, 0]
    assert "with several frames, of which the first is used" in found.conversions


def test_transparent_pixels_show_white() -> None:
    image = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (255, 0, 0, 0))
    found = decode_image(encoded(image), "a.png")
    assert found.pixels[0].tolist() == [[255, 0, 0], [255, 255, 255]]
    assert found.conversions == ("with transparent pixels, composited on white",)
    opaque = decode_image(encoded(Image.new("RGBA", (2, 1), (1, 2, 3, 255))), "a.png")
    assert opaque.conversions == ()  # nothing was lost


def test_grey_with_alpha_stays_grey() -> None:
    found = decode_image(encoded(Image.new("LA", (2, 2), (100, 255))), "a.png")
    assert found.pixels.shape == (2, 2, 1)
    assert found.pixels[0, 0, 0] == 100


def test_a_photo_on_its_side_is_turned_upright() -> None:
    pixels = noise(4, 6)
    image = Image.fromarray(np.rot90(pixels).copy())  # as a camera held upright saves it
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(image, "PNG", exif=exif)
    found = decode_image(content, "a.png")
    assert np.array_equal(found.pixels, pixels)
    assert found.conversions == ("turned upright, as their EXIF data says",)
    assert read_header(content, "a.png").size == (4, 6)


def test_one_bit_and_one_pixel() -> None:
    found = decode_image(encoded(Image.new("1", (1, 1), 1)), "a.png")
    assert found.pixels.tolist() == [[[255]]]
    assert resized(found.pixels, (8, 8)).shape == (8, 8, 1)


def test_channels_are_converted_when_asked() -> None:
    colour = encoded(Image.new("RGB", (1, 1), (255, 0, 0)))
    grey = decode_image(colour, "a.png", channels=1)
    assert grey.pixels.tolist() == [[[76]]]
    assert grey.conversions == ("converted to greyscale",)
    both = decode_image(encoded(Image.new("L", (1, 1), 9)), "a.png", channels=3)
    assert both.pixels.tolist() == [[[9, 9, 9]]]


@pytest.mark.parametrize(("width", "height"), [(25_000, 20_000), (12_000, 10_000)])
def test_a_huge_image_is_refused_before_it_is_decoded(width: int, height: int) -> None:
    content = png_header(width, height)
    for read in (decode_image, read_header):
        with pytest.raises(TooLargeImageError, match=r"big.png has more than 100 megapixels"):
            read(content, "big.png")


@pytest.mark.parametrize("content", [b"hello world", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\x89PNG\r\n"])
def test_other_files_are_not_images(content: bytes) -> None:
    with pytest.raises(NotAnImageError, match=r"x\.png is"):
        decode_image(content, "x.png")


def test_a_truncated_image_is_damaged(tmp_path: Path) -> None:
    content = save(tmp_path / "a.png", noise(64, 64)).read_bytes()
    with pytest.raises(NotAnImageError, match=r"a\.png is a damaged image"):
        decode_image(content[: len(content) // 2], "a.png")


def test_an_empty_file_is_not_an_image(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    with pytest.raises(NotAnImageError, match="is empty, not an image"):
        read_image(tmp_path / "a.png")


def test_conversions_are_counted_by_kind(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Image.new("CMYK", (2, 2)).save(tmp_path / f"{name}.tif")
    with collecting() as report:
        for name in ("a", "b"):
            read_image(tmp_path / f"{name}.tif")
    assert report.notes() == [f"2 images converted from CMYK (first: {tmp_path / 'a.tif'})"]


def test_resizing_shows_the_whole_image_and_averages() -> None:
    pixels = np.zeros((4, 8, 1), np.uint8)
    pixels[:, 4:] = 200
    small = resized(pixels, (2, 2))
    assert small.shape == (2, 2, 1)
    assert small[0, 0, 0] < 50 < 150 < small[0, 1, 0]
    stripes = np.tile(np.array([0, 255], np.uint8), 50).reshape(1, 100, 1).repeat(4, axis=0)
    assert abs(int(resized(stripes, (2, 2)).mean()) - 127) < 10  # antialiased
    assert resized(pixels, (4, 8)) is pixels
