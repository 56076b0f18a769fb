"""Pictures of where words looked: bright in the right place, equal bytes, text that stays text."""

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspection.word_places import WordPlaces
from glassformer.story.page import assembled
from glassformer.story.spotlight import enlarged, spotlight
from glassformer.story.word_places import SCRIPTS, draw, page

HOSTILE = ["</script>", "<img src=x onerror=alert(1)>", "$x_1$", "/* data */", "\u202eabc", "🙂"]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


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


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
def test_the_same_result_is_drawn_in_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        draw(dog(), tmp_path / f"{name}.{ending}")
    first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
    assert first == second
    assert len(first) > 100


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 5), (1, 4)])
def test_the_light_is_where_the_word_looked(row: int, column: int) -> None:
    found = looked(["dog"], [(row, column)])
    assert found.pixels is not None
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
        draw(found, tmp_path / f"{number}.html")
        assert opened(tmp_path / f"{number}.png").width > 100


def test_without_an_image_there_is_nothing_to_draw_on(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match="no image"):
        draw(looked(["a"], [(0, 0)], pixels=None), tmp_path / "a.png")
    with pytest.raises(UsageError, match=r"\.html, \.png"):
        draw(dog(), tmp_path / "a.gif")


def test_no_word_becomes_markup_and_nothing_is_loaded() -> None:
    text = page(looked(HOSTILE, [(0, 0)] * len(HOSTILE)))
    body = text.split('id="data">')[1].split("</script>")[0]
    scene = json.loads(body)["scene"]
    assert scene["words"][0] == "</script>"
    assert "onerror" not in text.replace(body, "")
    assert not re.search(r"""(src|href)=["']?https?:""", text)
    assert "default-src 'none'" in text
    assert scene["image"].startswith("data:image/png;base64,")


@needs_node
def test_pointing_at_words_and_places_shows_the_other(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(page(dog()).split('id="data">')[1].split("</script>")[0])
    script = assembled("", "", [], SCRIPTS, {}).split('<script type="module">')[1]
    (tmp_path / "script.js").write_text(script.split("</script>")[0])
    steps = [["word", 1, "pointerenter"], ["place", 23, "pointerenter"], ["head", 1, "input"]]
    steps += [["word", 1, "click"]]
    done = subprocess.run(
        ["node", Path(__file__).with_name("word_places.mjs"), "script.js", "data.json"],
        cwd=tmp_path,
        input=json.dumps(steps),
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    word, place, _, swapped = json.loads(done.stdout)
    assert word["words"] == ["a", "dog"]
    assert word["chosen_word"] == 1
    assert word["chosen_place"] == 23  # the last of 4 × 6
    assert word["dark"][23] == 0
    assert word["dark"][0] > 0.8
    assert "dog" in word["said"]
    assert place["chosen_place"] == 23
    assert place["shares"][1] == pytest.approx(0.8)
    assert place["shares"][0] < 0.1
    assert swapped["chosen_place"] == 0  # the second head looks the other way round


def test_the_share_of_a_place_is_readable_on_a_white_image(tmp_path: Path) -> None:
    white = np.full((40, 60, 3), 255, np.uint8)
    draw(
        looked([""], [(0, 0)], weights=np.full((1, 4, 6), 1 / 24), pixels=white), tmp_path / "a.png"
    )
    shown = np.asarray(opened(tmp_path / "a.png").convert("L"))  # (H, W)
    height, width = shown.shape
    right = shown[height // 3 :, width * 8 // 10 :]  # without the frame and the line below
    assert right.min() < 100
