"""Pictures of where words looked: bright in the right place, equal bytes, text that stays text."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from glassformer.errors import UsageError
from glassformer.inspect.alignment import WordPlaces
from glassformer.inspect.views import draw, enlarged, spotlight


def looked(words: list[str], peaks: list[tuple[int, int]], **more: Any) -> WordPlaces:
    """Each word looks at one place of a grid of 4 × 6, and a little everywhere."""
    weights = np.full((len(words), 4, 6), 0.01)
    for number, (row, column) in enumerate(peaks):
        weights[number, row, column] = 1 - 0.01 * 23
    pixels = np.full((40, 60, 3), 200, np.uint8)
    values: dict[str, Any] = {"image": "dog.jpg", "caption": " ".join(words), "pixels": pixels}
    return WordPlaces(**(values | {"words": words, "weights": weights} | more))


def dog() -> WordPlaces:
    found = looked(["a", "dog"], [(0, 0), (3, 5)], score=-0.5, model="captioner")
    both = np.stack([found.weights, found.weights[::-1]])[None]  # (1 layer, 2 heads, …)
    return looked(["a", "dog"], [(0, 0), (3, 5)], score=-0.5, model="captioner", heads=both)


def opened(path: Path) -> Image.Image:
    return Image.open(io.BytesIO(path.read_bytes()))


@pytest.mark.parametrize("ending", ["png", "svg", "json"])
def test_the_same_result_is_drawn_in_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        draw(dog(), tmp_path / f"{name}.{ending}")
    first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
    assert first == second
    assert len(first) > 100


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 5), (1, 4)])
def test_the_light_is_where_the_word_looked(row: int, column: int) -> None:
    found = looked(["dog"], [(row, column)])
    lit = spotlight(found.pixels, found.weights[0]).astype(float).mean(axis=2)  # (40, 60)
    cells = lit.reshape(4, 10, 6, 10).mean(axis=(1, 3))
    assert np.unravel_index(cells.argmax(), cells.shape) == (row, column)
    assert lit.max() > 190  # as bright as the image
    assert cells.min() < 60


def test_weights_are_enlarged_over_the_whole_image() -> None:
    grid = np.array([[0.0, 1.0], [0.0, 0.0]])
    found = enlarged(grid, 50, 80)
    assert found.shape == (50, 80)
    assert (found.min(), found.max()) == (0, 1)
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert row < 25
    assert column >= 40


def test_there_is_a_panel_for_each_word(tmp_path: Path) -> None:
    """The panel of a word is bright only at its place; the first is the image itself."""
    draw(dog(), tmp_path / "dog.png")
    pixels = np.asarray(opened(tmp_path / "dog.png").convert("L"))
    assert pixels.std() > 20  # not blank
    few, many = tmp_path / "few.png", tmp_path / "many.png"
    draw(looked(["a"], [(0, 0)]), few)
    draw(looked(["a"] * 13, [(0, 0)] * 13), many)
    assert opened(many).height > 2 * opened(few).height


def test_a_grey_image_and_a_tiny_one_are_drawn(tmp_path: Path) -> None:
    for number, shape in enumerate([(8, 8, 1), (1, 1, 3), (300, 20, 1)]):
        found = looked(["a"], [(0, 0)], pixels=np.full(shape, 90, np.uint8))
        draw(found, tmp_path / f"{number}.png")
        assert opened(tmp_path / f"{number}.png").width > 100


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.png"):
        draw(dog(), tmp_path / "a.gif")


def test_the_share_of_a_place_is_readable_on_a_white_image(tmp_path: Path) -> None:
    white = np.full((40, 60, 3), 255, np.uint8)
    draw(
        looked([""], [(0, 0)], weights=np.full((1, 4, 6), 1 / 24), pixels=white), tmp_path / "a.png"
    )
    shown = np.asarray(opened(tmp_path / "a.png").convert("L"))  # (H, W)
    height, width = shown.shape
    right = shown[height // 3 :, width * 8 // 10 :]  # without the frame and the line below
    assert right.min() < 100
