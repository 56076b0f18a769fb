"""Names and scales of pictures of texts can be read, on the page, on paper and in files."""

import re
from pathlib import Path
from typing import Any

import pytest
from test_picture_maps import overlap
from test_story_page import needs_chromium, predictor, shown, story

from glassformer.inspect.story import page, story_data
from glassformer.inspect.views import draw

ALPHABET = "abcdefghijklmnopqrstuvwxyz ,."


def long_story(length: int, **more: Any) -> Any:
    text = (ALPHABET * (length // len(ALPHABET) + 1))[:length]
    return predictor(ALPHABET, context_length=160, **more).inspect(text)


@needs_chromium
@pytest.mark.parametrize("length", [9, 27, 34, 130])
def test_names_beside_a_map_are_there_and_never_collide(length: int, tmp_path: Path) -> None:
    script = """[".row-names", ".column-names"].map((side) => {
      const names = [...document.querySelectorAll(`#attention .matrix ${side} > span > span`)];
      return names.map((each) => {
        const { left, top, right, bottom } = each.getBoundingClientRect();
        return [left, top, right, bottom];
      });
    })"""
    rows, columns = shown(page(long_story(length)), script, tmp_path)
    for boxes in (rows, columns):
        assert length / 8 <= len(boxes) <= length
        assert not overlap(boxes, 1)
    if length == 9:
        assert len(rows) == len(columns) == 9


@needs_chromium
def test_a_map_of_a_head_has_its_scale(tmp_path: Path) -> None:
    seen = story()
    script = """(choose({ layer: 1, head: 2 }), [
      ...document.querySelectorAll("#attention .heat-scale span"),
    ].map((each) => each.textContent))"""
    found = shown(page(seen), script, tmp_path)
    assert found == ["0", f"{100 * seen.attention[1, 2].max():.1f}%"]


@needs_chromium
def test_what_is_scrolled_on_the_screen_fits_on_paper(tmp_path: Path) -> None:
    script = """(globalThis.dispatchEvent(new Event("beforeprint")), {
      bare: document.querySelectorAll("figure svg[width][height]:not([viewBox])").length,
      wide: [...document.querySelectorAll(".scroll")].map((box) => (
        box.scrollWidth * Number(box.style.getPropertyValue("--fit")))),
    })"""
    found = shown(page(long_story(60)), script, tmp_path)
    assert found["bare"] == 0
    assert len(found["wide"]) > 3
    assert max(found["wide"]) <= 681


def test_the_page_carries_only_what_it_draws_of_a_word_in_several_sentences() -> None:
    seen = predictor("a bad day, said the cat.").inspect("a bad day", compare=["the bad cat"])
    found = story_data(seen)["contexts"]
    assert set(found) == {"word", "names", "cosine", "map", "map_share"}


@pytest.mark.parametrize(("length", "heads"), [(9, 4), (34, 4), (34, 12)])
def test_a_picture_of_heads_has_names_and_a_scale(length: int, heads: int, tmp_path: Path) -> None:
    model = predictor(ALPHABET, context_length=64, num_heads=heads, d_model=24)
    draw(model.heads((ALPHABET * 2)[:length]), tmp_path / "heads.svg")
    texts = re.findall(r">([^<>]+)</text>", (tmp_path / "heads.svg").read_text())
    assert "attention weight" in texts
    assert "0%" in texts
    assert sum(text == "a" for text in texts) >= 2  # the first token, at both sides
    if heads == 4:
        assert sum(text == "a" for text in texts) >= 2 * 2 * 4  # at all maps


def test_a_lens_has_a_scale(tmp_path: Path) -> None:
    draw(predictor(ALPHABET).lens("abc"), tmp_path / "lens.svg")
    texts = re.findall(r">([^<>]+)</text>", (tmp_path / "lens.svg").read_text())
    assert "probability" in texts
    assert "100%" in texts
