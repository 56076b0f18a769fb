"""The page under a real pointer: it moves, hovers, clicks and leaves, and the console is empty."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_story_page import needs_chromium, predictor, story

from glassformer.inspection.inspection import Inspection
from glassformer.nn.observe import without_heads
from glassformer.story.story import page

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))
from chromium_pipe import Browser

SUM = "document.getElementById('sum')"
SAID = "document.querySelector('.warning').textContent"
CELLS = "document.querySelectorAll('.effects tbody td').length"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        yield found
        assert found.problems == []


def opened(browser: Browser, seen: Inspection, folder: Path) -> None:
    file = folder / "page.html"
    file.write_text(page(seen), encoding="utf-8")
    browser.open(file.as_uri())
    browser.wait("document.querySelectorAll('section.chapter').length > 0")


def live(browser: Browser, seen: Inspection, folder: Path) -> None:
    opened(browser, seen, folder)
    browser.wait("document.querySelectorAll('.ask').length === 1")


@needs_chromium
@pytest.mark.parametrize("width", [1280, 400])
def test_a_head_is_switched_off_by_the_pointer_that_looked_at_it(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    browser.window(width)
    live(browser, story(), tmp_path)
    browser.hover(".effects tbody td")
    assert "without head 0 of layer 0" in browser.value(f"{SUM}.textContent")
    browser.click(".effects tbody td")
    assert browser.value(SAID) == "Switched off: head 0 of layer 0."
    browser.wait(f"{CELLS} === 8")
    model: Any = predictor("a bad day, said the cat.")
    with without_heads({model.model.blocks.attentions[0].tap: [0]}):
        expected = model.inspect("a bad day").predictions[-1].options[0].probability
    best = "document.querySelector('#prediction .bars .value').textContent"
    assert browser.value(best) == f"{100 * expected:.1f}%"
    browser.click(".effects tbody td")
    assert browser.value(SAID) == ""
    browser.leave()
    browser.wait(f"{SUM}.hidden")
