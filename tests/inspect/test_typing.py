"""A text is typed: what is in view follows every letter, the other chapters come afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium_pipe import Browser
from page_families import write_page
from test_story_page import needs_chromium

pytestmark = needs_chromium

BUSY = "[...document.querySelectorAll('.chapter-body[aria-busy=true]')]"
TYPE = """(() => {
  const box = document.querySelector(".ask textarea");
  const bodies = () => [...document.querySelectorAll(".chapter-body")];
  const heights = bodies().map((body) => body.offsetHeight);
  for (const letter of %s) {
    box.value += letter;
    box.dispatchEvent(new Event("input"));
  }
  const busy = [...document.querySelectorAll(".chapter-body[aria-busy=true]")];
  return {
    text: document.getElementById("title").textContent,
    first: document.querySelectorAll("#tokens .chip").length,
    busy: busy.map((body) => body.closest("section").id),
    drawn: busy.map((body) => body.childNodes.length),
    changed: bodies().filter((body, n) => body.ariaBusy && body.offsetHeight !== heights[n]).length,
    top: scrollY,
  };
})()"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        found.window(1280, 720)
        found.open(write_page("gpt", tmp_path).as_uri())
        found.wait("document.querySelectorAll('.ask').length === 1")
        yield found
        assert found.problems == []


def test_chapters_out_of_view_keep_their_height_and_are_drawn_afterwards(browser: Browser) -> None:
    before = browser.value("document.querySelectorAll('#tokens .chip').length")
    assert browser.value(f"{BUSY}.length") == 0
    found = browser.value(TYPE % '["s"]')
    assert found["first"] == before + 1  # it is in view
    assert {"attention", "layers", "prediction"} <= set(found["busy"])
    assert not any(found["drawn"])
    assert found["changed"] == 0
    browser.wait(f"{BUSY}.length === 0")
    names = "document.querySelectorAll('#attention .row-names > span').length"
    assert browser.value(names) == before + 1
    heights = "[...document.querySelectorAll('.chapter-body')].map((each) => each.style.minHeight)"
    assert not any(browser.value(heights))


def test_the_next_letter_abandons_what_is_not_drawn(browser: Browser) -> None:
    browser.value("document.getElementById('layers').scrollIntoView()")
    top = browser.value("scrollY")
    found = browser.value(TYPE % '["s", "l", "o"]')
    assert found["text"].endswith("slo")
    assert "layers" not in found["busy"]
    assert found["top"] == pytest.approx(top, abs=1)
    browser.wait(f"{BUSY}.length === 0")
    chips = browser.value("document.querySelectorAll('#tokens .chip').length")
    assert (
        browser.value("document.querySelectorAll('#attention .row-names > span').length") == chips
    )


def test_a_number_that_is_kept_in_a_chapter_out_of_view_stays(browser: Browser) -> None:
    browser.click("#computation tr[data-of]")
    kept = "!document.getElementById('sum').hidden"
    assert browser.value(kept)
    browser.value("scrollTo(0, 0)")
    assert "computation" in browser.value(TYPE % '["s"]')["busy"]
    browser.wait(f"{BUSY}.length === 0")
    assert browser.value(kept)


@pytest.mark.parametrize(
    ("family", "text", "said", "chips"),
    [
        ("gpt", "\n", "", 1),
        ("gpt", "", "type a word", None),
        ("translator", "\n", "type a word", None),
        ("gpt-history", "a\u200db", "the tokenizer has no token for U+200D", None),
        ("gpt-history", "a\u00e9", 'the tokenizer has no token for "\u00e9"', None),
    ],
)
def test_a_line_break_may_be_a_text_and_a_refusal_says_what_is_shown(
    browser: Browser, tmp_path: Path, family: str, text: str, said: str, chips: int | None
) -> None:
    browser.open(write_page(family, tmp_path).as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    shown = "document.querySelectorAll('#tokens .chip').length"
    before = browser.value(shown)
    browser.value(f"""(() => {{
      const box = document.querySelector(".ask textarea");
      box.value = {json.dumps(text)};
      box.dispatchEvent(new Event("input"));
    }})()""")
    rest = ". The page shows the last text that could be read."
    expected = f"This text cannot be shown: {said}{rest}" if said else ""
    assert browser.value("document.querySelector('.warning').textContent") == expected
    assert browser.value(shown) == (chips or before)
