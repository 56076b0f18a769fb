"""Grids of painted images: they exist, are not blank, and show what they should."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.errors import UsageError
from glassformer.inspect.places import Completed, Paintings
from glassformer.inspect.views import draw


def flat(value: int, channels: int = 1) -> np.ndarray:
    return np.full((8, 8, channels), value, np.uint8)


def samples() -> Paintings:
    return Paintings([flat(value) for value in (0, 80, 160, 255)], [])


def completed() -> Paintings:
    red, blue = flat(0, 3), flat(0, 3)
    red[..., 0] = blue[..., 2] = 255
    half = red.copy()
    half[4:] = blue[4:]
    rows = [Completed(f"{name}.png", red, 4, [half, half, red]) for name in ("a", "b")]
    return Paintings([], rows)


def drawn(found: Paintings, path: Path) -> np.ndarray:
    draw(found, path)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_samples_are_in_a_square_from_left_to_right(tmp_path: Path) -> None:
    picture = drawn(samples(), tmp_path / "a.png")
    height, width = picture.shape[:2]
    assert 0.8 < height / width < 1.25
    places = [(1, 1), (1, 3), (3, 1), (3, 3)]
    middles = [picture[row * height // 4, column * width // 4, 0] for row, column in places]
    assert middles == [0, 80, 160, 255]


def test_a_row_shows_the_original_what_was_given_and_the_paintings(tmp_path: Path) -> None:
    picture = drawn(completed(), tmp_path / "a.png")
    red = (picture == (255, 0, 0)).all(-1)
    blue = (picture == (0, 0, 255)).all(-1)
    grey = (picture == (128, 128, 128)).all(-1)
    assert red.mean() > blue.mean() > grey.mean() > 0.02
    first_blue, first_grey = blue.any(0).argmax(), (grey.mean(0) > 0.2).argmax()
    assert red.any(0).argmax() < first_grey < first_blue  # original, given, painted
    line = (np.abs(picture.astype(int) - (0xD6, 0x27, 0x28)) < 12).all(-1)
    assert line.any(0).argmax() >= first_blue - 3  # where painting began is marked


@pytest.mark.parametrize("ending", ["png", "svg", "json"])
def test_equal_paintings_give_equal_bytes(tmp_path: Path, ending: str) -> None:
    for found in (samples(), completed()):
        paths = [tmp_path / f"{name}.{ending}" for name in ("a", "b")]
        for path in paths:
            draw(found, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert len(paths[0].read_bytes()) > 500


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in \.png, \.svg or \.json"):
        draw(samples(), tmp_path / "a.gif")
