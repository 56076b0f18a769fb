"""The page under a real pointer: it moves, hovers, clicks and leaves, and the console is empty."""

from pathlib import Path
from typing import Any

import pytest
from chromium_pipe import Browser
from page_families import captioner, picture, translator, vit, write_page
from test_story_page import needs_chromium, predictor, story

from glassformer.inspect.inspection import Inspection
from glassformer.inspect.story import page
from glassformer.inspect.views import draw
from glassformer.nn.observe import without_heads

SUM = "document.getElementById('sum')"
SAID = "document.querySelector('.warning').textContent"
CELLS = "document.querySelectorAll('.effects tbody td').length"


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


def sum_of(browser: Browser) -> str:
    """What the page writes out of the number that is looked at."""
    found: str = browser.value(f"{SUM}.hidden ? '' : {SUM}.textContent")
    return found


@needs_chromium
@pytest.mark.parametrize("width", [1280, 400])
def test_every_control_answers_the_pointer(browser: Browser, width: int, tmp_path: Path) -> None:
    browser.window(width)
    browser.open(write_page("gpt-history", tmp_path).as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    browser.call("Page.setDownloadBehavior", behavior="deny")
    said = "document.querySelector('#attention .one-head .said').textContent"

    browser.click("#tokens .chip", 4)
    assert browser.value("document.querySelectorAll('.chip.chosen').length") == 1
    browser.click("#attention .thumb", 6)
    chosen = browser.value(said)
    assert browser.value("document.querySelector('.thumb.chosen').ariaLabel") == "layer 1, head 2"
    browser.hover("#attention .side-token", 1)  # for as long as the pointer is there
    assert browser.value(said) == chosen
    browser.click("#attention .side-key", 0)
    assert "weight of" in sum_of(browser)
    browser.hover("#attention canvas[data-region]")
    assert "weight of" in sum_of(browser)
    browser.click("#attention canvas[data-region]")
    browser.click("#layers .lens tbody td", 3)
    chip = "[...document.querySelectorAll('.chip')].findIndex((e) => e.ariaSelected === 'true')"
    assert browser.value(chip) == 3

    browser.click("#computation tr[data-of]")  # kept until Escape
    kept = sum_of(browser)
    assert kept
    browser.hover("#layers .path", 1)
    assert sum_of(browser) == kept
    browser.click("#sum .term:is(button)")
    assert sum_of(browser) != kept
    browser.click("#sum button.quiet")  # back
    assert sum_of(browser) == kept
    browser.key("Escape")
    browser.wait(f"{SUM}.hidden")

    x, y = browser.spot("#prediction input[type=range]")
    browser.move(x, y)
    browser.press(x, y)
    browser.move(x - 30, y, "left")
    browser.release(x - 30, y)
    temperature = "Number(document.querySelector('#prediction output').textContent)"
    assert 0.05 <= browser.value(temperature) < 1
    step = "document.querySelector('.timeline .said').textContent"
    browser.click(".timeline [aria-label='one snapshot back']")
    assert browser.value(step).startswith("step 5 of 20")
    browser.click(".past-frame", 0)
    assert browser.value(step).startswith("step 0 of 20")
    browser.click(".save")
    before = browser.value("document.documentElement.style.colorScheme")
    browser.click(".theme")
    assert browser.value("document.documentElement.style.colorScheme") != before
    browser.leave()
    browser.wait(f"{SUM}.hidden")


@needs_chromium
@pytest.mark.parametrize(
    ("view", "title", "picked"),
    [
        (lambda: translator().align("one two", "two", 1, 0), "Looking at the source", ["1", "0"]),
        (lambda: vit().attention(picture(), 1, 1), "Attention", ["1", "1"]),
        (lambda: captioner().look(picture(), "a red"), "Words and the picture", ["0", "0"]),
    ],
)
def test_a_view_is_the_story_opened_at_its_chapter(
    browser: Browser, view: Any, title: str, picked: list[str], tmp_path: Path
) -> None:
    draw(view(), tmp_path / "page.html")
    browser.open((tmp_path / "page.html").as_uri())
    current = "document.querySelector('nav [aria-current]')?.textContent"
    browser.wait(f"{current} === {title!r}")
    address = "new URLSearchParams(location.hash.slice(1))"
    chosen = [f"{address}.get('{name}') ?? '0'" for name in ("layer", "head")]
    assert [browser.value(each) for each in chosen] == picked
    (tmp_path / "other.html").write_text((tmp_path / "page.html").read_text())
    browser.open((tmp_path / "other.html").as_uri() + "#chapter=prediction")
    browser.wait(f"{current} === 'Prediction'")


@needs_chromium
def test_a_refused_text_leaves_the_last_one_as_it_was(browser: Browser, tmp_path: Path) -> None:
    live(browser, predictor("a bad day, said the cat.").inspect("a bad day"), tmp_path)
    browser.click(".ask textarea")
    browser.key("Q")
    assert "the tokenizer has no token" in browser.value(SAID)
    assert browser.value("document.getElementById('title').textContent") == "a bad day"
    chosen = "document.querySelectorAll('.chip.chosen').length"
    assert browser.value(chosen) == 1
    for control in ("#attention .thumb", ".save", "#layers .lens tbody td"):
        browser.click(control, 2)
    assert browser.value(chosen) == 1


@needs_chromium
def test_a_number_of_a_longer_text_is_let_go(browser: Browser, tmp_path: Path) -> None:
    live(browser, story(), tmp_path)
    browser.hover("#tokens .chip", 8)
    assert "at position 8" in sum_of(browser)
    browser.value("document.querySelector('.ask textarea').select()")
    browser.value("document.querySelector('.ask textarea').focus({ preventScroll: true })")
    browser.call("Input.insertText", text="cat")
    browser.wait("document.querySelectorAll('#tokens .chip').length === 3")
    assert "at position 8" not in sum_of(browser)
