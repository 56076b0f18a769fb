"""The pages of `explore` in a real browser: typing, switching heads off, models side by side."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from chromium_pipe import CHROMIUM, Browser

from glassformer.inspect.playground import playground
from glassformer.serve.explore import compare_page, story_page
from glassformer.tasks.language.predictor import LanguagePredictor

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")

TOKENS = """[...document.querySelectorAll("#tokens .piece")].map((each) => each.textContent)"""
CHARS = f"""{TOKENS}.join("").replaceAll("␣", " ")"""
BEST = """document.querySelector("#prediction .bars .value").textContent"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        yield found
        assert found.problems == []


def typing(text: str, place: str = "document") -> str:
    return f"""(() => {{
      const box = {place}.querySelector(".ask-text textarea");
      box.value = {text!r};
      box.dispatchEvent(new Event("input"));
      return true;
    }})()"""


def link(address: str, path: str, *values: tuple[str, str]) -> str:
    return f"{address}{path}#{urlencode(values)}"


def percent(probability: float) -> str:
    return f"{100 * probability:.1f}%"


def best_of(model: LanguagePredictor, text: str) -> str:
    return percent(model.inspect(text).predictions[-1].options[0].probability)


@needs_chromium
def test_typing_shows_what_the_model_computes(
    browser: Browser, address: str, predictors: dict[str, LanguagePredictor]
) -> None:
    browser.open(address)
    browser.wait(f"{CHARS} === 'a bad day'")
    assert browser.value(BEST) == best_of(predictors["before"], "a bad day")
    browser.value(typing("said the cat"))
    browser.wait(f"{CHARS} === 'said the cat'")
    assert browser.value(BEST) == best_of(predictors["before"], "said the cat")
    browser.wait("location.hash.includes('text=said+the+cat')")
    browser.value(typing("  "))
    browser.wait("document.getElementById('served').textContent === 'Type a word.'")


@needs_chromium
def test_another_model_can_be_picked(
    browser: Browser, address: str, predictors: dict[str, LanguagePredictor]
) -> None:
    browser.open(link(address, "/", ("text", "the cat")))
    browser.wait(f"{CHARS} === 'the cat'")
    browser.value(
        """(() => {
      const pick = document.querySelector(".served select");
      pick.value = "after";
      pick.dispatchEvent(new Event("input"));
    })()"""
    )
    browser.wait("document.getElementById('about').textContent.includes('3 layers')")
    assert browser.value(BEST) == best_of(predictors["after"], "the cat")
    browser.wait("location.hash.includes('model=after')")


@needs_chromium
def test_a_link_opens_the_page_as_it_was(browser: Browser, address: str) -> None:
    values = {"model": "after", "text": "a day", "layer": "2", "head": "3", "token": "1"}
    browser.open(link(address, "/", *values.items(), ("off", "1.2")))
    browser.wait(f"{CHARS} === 'a day'")
    assert browser.value("document.querySelector('.served select').value") == "after"
    assert browser.value("document.querySelector('.thumb.chosen').ariaLabel") == "layer 2, head 3"
    assert browser.value("document.querySelectorAll('.chip')[1].ariaSelected") == "true"
    assert "head 2 of layer 1" in browser.value("document.getElementById('served').textContent")
    found = browser.value("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
    assert found.items() >= (values | {"off": "1.2"}).items()


@needs_chromium
def test_slow_parts_come_when_they_are_looked_at_and_heads_can_be_switched_off(
    browser: Browser, address: str, predictors: dict[str, LanguagePredictor]
) -> None:
    browser.open(address)
    browser.wait(f"{CHARS} === 'a bad day'")
    assert browser.value("document.querySelector('.effects') === null")
    browser.value("document.getElementById('layers').scrollIntoView({ block: 'end' })")
    browser.wait("document.querySelectorAll('.effects tbody td').length === 8")
    seen = predictors["before"].inspect("a bad day")
    first = float(browser.value("document.querySelector('.effects tbody td').textContent"))
    assert first == pytest.approx(float(seen.effects().divergence[0, 0]), abs=1e-3)
    browser.value("document.getElementById('prediction').scrollIntoView()")
    browser.wait("document.querySelectorAll('.candidate').length > 3")
    before = browser.value(BEST)
    browser.value("document.querySelector('.effects tbody td').click()")
    browser.wait(f"{BEST} !== {before!r}")
    browser.wait("location.hash.includes('off=0.0')")
    browser.value("document.getElementById('layers').scrollIntoView({ block: 'end' })")
    browser.wait("document.querySelector('.effects tbody td.off').click() === undefined")
    browser.wait(f"{BEST} === {before!r}")


@needs_chromium
def test_two_models_side_by_side_share_the_text_and_what_the_reader_chooses(
    browser: Browser, address: str, predictors: dict[str, LanguagePredictor]
) -> None:
    frames = "[...document.querySelectorAll('iframe')].map((each) => each.contentDocument)"
    chars = f"{frames}.map((document) => {CHARS})"
    browser.open(link(address, "/compare", ("model", "before"), ("model", "after")))
    browser.wait(f"{chars}.join() === 'a bad day,a bad day'")
    browser.value(typing("the cat"))
    browser.wait(f"{chars}.join() === 'the cat,the cat'")
    shown = browser.value(f"{frames}.map((document) => {BEST})")
    assert shown == [best_of(predictors[name], "the cat") for name in ("before", "after")]
    chosen = "document.querySelector('.thumb.chosen').ariaLabel"
    browser.value(f"{frames}[0].querySelectorAll('.thumb')[5].click()")
    browser.wait(f"{frames}.every((document) => {chosen} === 'layer 1, head 1')")
    browser.value(f"{frames}[1].querySelectorAll('.thumb')[8].click()")  # only there: layer 2
    browser.wait(
        f"{frames}.map((document) => {chosen}).join() === 'layer 1, head 0,layer 2, head 0'"
    )
    address = browser.value("location.hash")
    assert re.search(r"model=before&off=&model=after&off=&text=the\+cat.*layer=2", address)


@needs_chromium
def test_columns_scroll_to_the_same_chapter(browser: Browser, address: str) -> None:
    frames = "[...document.querySelectorAll('iframe')].map((each) => each.contentDocument)"
    browser.open(link(address, "/compare", ("model", "before"), ("model", "after")))
    browser.wait(
        f"{frames}.filter((document) => document.getElementById('prediction')).length === 2"
    )
    browser.value(f"{frames}[0].getElementById('prediction').scrollIntoView()")
    top = "document.getElementById('prediction').getBoundingClientRect().top"
    browser.wait(f"{frames}.every((document) => Math.abs({top}) < 120)")


@needs_chromium
def test_a_page_says_when_the_model_of_a_link_is_not_there(browser: Browser, address: str) -> None:
    browser.open(link(address, "/", ("model", "<img src=x onerror=alert(1)>")))
    browser.wait(f"{CHARS} === 'a bad day'")
    browser.open(link(address, "/compare", ("model", "gone")))
    browser.wait("document.getElementById('said').textContent === 'There is no model “gone” here.'")
    browser.wait("document.querySelectorAll('iframe').length === 2")


SERVER: Any = {"models": [], "text": ""}
PAGES = {
    "story": story_page(SERVER).html,
    "compare": compare_page(SERVER).html,
    "playground": playground(),
}


@pytest.mark.parametrize("name", PAGES)
def test_no_name_is_defined_twice_in_the_scripts_of_a_page(name: str) -> None:
    script = PAGES[name].rsplit('<script type="module">', 1)[1]
    names = re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)) > 20


def test_a_name_of_a_model_is_not_markup() -> None:
    page = story_page({"models": [{"name": "</script><script>alert(1)"}], "text": ""})
    assert "alert(1)" in page.html
    assert page.html.count("<script") == 2
