"""Every chapter follows the position that the reader chooses, and all open with the same one."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium_pipe import Browser
from page_families import FAMILIES, language, write_page
from test_story_page import needs_chromium

from glassformer.inspect.story import page, story_data

CHIPS = "[...document.querySelectorAll('#tokens .chips')].at(-1).querySelectorAll('.chip')"
CHOSEN = f"[...{CHIPS}].findIndex((chip) => chip.classList.contains('chosen'))"
PICKED = """[...document.querySelectorAll("section.chapter select.pick.of-query")]
  .map((each) => [each.closest("section").id, Number(each.value)])"""
BEST = "document.querySelector('#prediction .bars .value').textContent"
FOLLOWED = """[...document.querySelectorAll("#prediction .followed")]
  .map((each) => each.textContent)"""
EFFECTS = """[...document.querySelector("#layers .effects").querySelectorAll("tbody td")]
  .map((each) => Number(each.textContent))"""
SAYS = """[document.querySelector("#prediction .lead").textContent,
  [...document.querySelectorAll("#layers .hint")].map((each) => each.textContent).join()]"""


def opened(browser: Browser, path: Path) -> None:
    browser.open(path.as_uri())
    browser.wait("document.querySelectorAll('section.chapter').length > 0")


def plain(text: str) -> str:
    return re.sub("[\u2066-\u2069]", "", text)


@needs_chromium
@pytest.mark.parametrize("name", ["gpt", "bert", "translator", "rnn-translator", "captioner"])
def test_a_page_opens_with_one_position_and_all_chapters_follow_another(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    seen = FAMILIES[name]()
    opened(browser, write_page(name, tmp_path))
    first = browser.value(CHOSEN)
    for at in (first, 1):
        if at != first:
            browser.click("#tokens .chip[aria-selected]", at)
        assert {place for _, place in browser.value(PICKED)} == {at}
        assert browser.value(BEST) == f"{100 * seen.predictions[at].options[0].probability:.1f}%"
        known = seen.tokens[at] if name == "bert" else seen.predictions[at].actual
        assert browser.value(FOLLOWED) == ([known] if known else [])
        if seen.has_layers:
            expected = seen.effects(at).divergence
            assert np.allclose(browser.value(EFFECTS), expected.ravel(), atol=6e-4)
            lead, hints = map(plain, browser.value(SAYS))
            where, token = ("at" if name == "bert" else "after"), seen.tokens[at].strip()
            assert f"the prediction {where} “" in hints
            assert f"{token}” changes if one head contributes nothing" in hints
            about = {"bert": "the chosen token"}.get(name, f"after “{token}”")
            is_end = name == "gpt" and at == len(seen.tokens) - 1
            assert ("the token after the text" if is_end else about) in lead


@needs_chromium
def test_a_word_of_a_caption_is_the_position_of_the_other_chapters(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, write_page("captioner", tmp_path))
    pressed = """[...document.querySelectorAll("#words .word")]
      .findIndex((each) => each.ariaPressed === "true")"""
    assert browser.value(pressed) == browser.value(CHOSEN)
    browser.click("#words .word", 2)
    assert browser.value(CHOSEN) == browser.value(pressed) == 2
    browser.click("#tokens .chip[aria-selected]", 0)
    browser.leave()
    assert browser.value(pressed) == 0


@needs_chromium
def test_a_typed_text_has_the_effects_of_heads_for_each_position(
    browser: Browser, tmp_path: Path
) -> None:
    model = language()
    path = tmp_path / "page.html"
    path.write_text(page(model.inspect("a bad day")), encoding="utf-8")
    opened(browser, path)
    browser.click(".ask textarea")
    for letter in ", said":
        browser.key(letter)
    seen = model.inspect("a bad day, said")
    for at in (len(seen.tokens) - 1, 2):
        browser.click("#tokens .chip", at)
        browser.wait("document.querySelectorAll('#layers .effects tbody td').length === 8")
        expected = seen.effects(at).divergence.ravel()
        assert np.allclose(browser.value(EFFECTS), expected, rtol=0.05, atol=2e-3)
        best = 100 * seen.predictions[at].options[0].probability
        assert float(browser.value(BEST)[:-1]) == pytest.approx(best, abs=0.11)


@needs_chromium
def test_a_page_says_what_it_does_not_carry_for_every_position(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.inspect.story.MOST_LOGITS", 1)
    monkeypatch.setattr("glassformer.inspect.story.MOST_LIVE", 1)
    monkeypatch.setattr("glassformer.inspect.story_data.MOST_COMPARED", 1)
    seen = language("char").inspect("a bad day")
    opened(browser, write(page(seen), tmp_path))
    controls = "document.querySelector('#prediction .controls').checkVisibility()"
    assert browser.value(controls)
    browser.click("#tokens .chip", 2)
    assert not browser.value(controls)
    assert browser.value(BEST) == f"{100 * seen.predictions[2].options[0].probability:.1f}%"
    said = plain(browser.value("document.querySelector('#prediction .said').textContent"))
    assert said == "The page has the probabilities of all tokens, and the sliders, only after “y”."
    lead, hints = map(plain, browser.value(SAYS))
    assert lead == "What the model predicts for the token after “b”."
    assert "the prediction after “y” changes" in hints
    assert "this is the prediction at which the page opened" in hints
    assert np.allclose(browser.value(EFFECTS), seen.effects().divergence.ravel(), atol=6e-4)


def write(html: str, folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    return path


def test_the_data_have_every_prediction_without_each_head() -> None:
    seen = language("char").inspect("a bad")
    found: Any = story_data(seen)["effects"]
    assert list(found) == ["0", "1", "2", "3", "4"]
    for number, each in found.items():
        alone = seen.effects(int(number))
        assert alone.change is not None
        assert np.allclose(each["divergence"], alone.divergence, rtol=1e-5, atol=1e-9)
        assert np.allclose(each["change"], alone.change, rtol=1e-5, atol=1e-9)
