"""A server of models of texts and of images: no page shows the story of another model or input."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium_pipe import CHROMIUM, Browser
from picture_models import picture, vit
from PIL import Image
from served_models import small_gpt, story_model

from glassformer.serve.explore import StoryModel

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")

CHAPTERS = "[...document.querySelectorAll('section.chapter')].map((each) => each.id).join()"
TITLE = "document.getElementById('title').textContent"
SAID = "document.getElementById('served').textContent"
EMPTY = f"{CHAPTERS} === '' && document.getElementById('nav').textContent === ''"
NEEDS_IMAGE = "vit reads images. Choose an image file."


@pytest.fixture
def models() -> list[StoryModel]:
    return [story_model("gpt", small_gpt(2)), story_model("vit", vit())]


@pytest.fixture
def browser(tmp_path: Path, address: str) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        found.open(address)
        found.wait(f"{TITLE} === 'a bad day'")
        yield found
        refusals = [each for each in found.problems if "400 (Bad Request)" in each]
        assert found.problems == refusals


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "cat.png"
    Image.fromarray(picture()).save(path)
    return path


def pick(browser: Browser, model: str) -> None:
    browser.value(f"""(() => {{
      const pick = document.querySelector(".served select");
      pick.value = {model!r};
      pick.dispatchEvent(new Event("input"));
    }})()""")


def test_a_model_of_images_shows_no_story_of_a_text(browser: Browser, image: Path) -> None:
    pick(browser, "vit")
    browser.wait(f"{SAID} === '{NEEDS_IMAGE}' && {EMPTY}")
    assert browser.value(TITLE) == "vit"
    browser.pick_file("input[type=file]", image)
    browser.wait(f"{TITLE} === 'cat.png' && {CHAPTERS}.startsWith('patches')")
    pick(browser, "gpt")
    browser.wait(f"{TITLE} === 'a bad day' && {CHAPTERS}.startsWith('tokens')")
    pick(browser, "vit")
    browser.wait(f"{TITLE} === 'cat.png' && {CHAPTERS}.startsWith('patches')")


def test_a_story_that_comes_late_is_not_shown_under_a_model_of_images(browser: Browser) -> None:
    browser.value("""(() => {
      const [box, pick] = ["textarea", ".served select"]
        .map((each) => document.querySelector(each));
      const really = fetch;
      globalThis.late = 0;
      globalThis.fetch = async (...all) => {
        const answer = await really(...all);
        await new Promise((done) => setTimeout(done, 300));
        globalThis.late += 1;
        return answer;
      };
      box.value = "the cat";
      box.dispatchEvent(new Event("input"));
      setTimeout(() => {
        pick.value = "vit";
        pick.dispatchEvent(new Event("input"));
      }, 200); // after the pause of the box
      return 0;
    })()""")
    browser.wait("late === 1")
    browser.wait(f"{SAID} === '{NEEDS_IMAGE}' && {EMPTY}")
    assert browser.value(TITLE) == "vit"


def test_a_refused_image_leaves_no_picture_of_another(
    browser: Browser, image: Path, tmp_path: Path
) -> None:
    pick(browser, "vit")
    browser.pick_file("input[type=file]", image)
    browser.wait(f"{TITLE} === 'cat.png'")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    browser.pick_file("input[type=file]", broken)
    browser.wait(f"{TITLE} === 'broken.png' && {EMPTY}")
    assert "broken.png" in browser.value(SAID)
    browser.pick_file("input[type=file]", image)
    browser.wait(f"{TITLE} === 'cat.png' && {CHAPTERS}.startsWith('patches')")
    huge = tmp_path / "huge.png"
    huge.write_bytes(b" " * 10_000_001)
    browser.pick_file("input[type=file]", huge)
    browser.wait(f"{SAID} === 'huge.png is larger than 10 MB.'")
    assert browser.value("document.querySelector('input[type=file]').files.length") == 0
    assert browser.value(TITLE) == "cat.png"


def test_a_refused_text_leaves_no_story_of_another(browser: Browser) -> None:
    browser.click("textarea")
    browser.call("Input.insertText", text=" the cat" * 3000)
    browser.wait(f"{SAID}.startsWith('the text has') && {EMPTY}")
    browser.value("document.querySelector('textarea').select()")
    browser.call("Input.insertText", text="the cat")
    browser.wait(f"{TITLE} === 'the cat' && {CHAPTERS}.startsWith('tokens')")
    browser.value("document.querySelector('textarea').select()")
    browser.key("Delete")
    browser.wait(f"{SAID} === 'Type a word.' && {EMPTY}")


def test_side_by_side_a_column_of_images_shows_no_story_of_a_text(
    browser: Browser, address: str, image: Path
) -> None:
    browser.open(f"{address}/compare#model=gpt&model=gpt")
    frames = "[...document.querySelectorAll('iframe')]"
    titles = f"{frames}.map(({{ contentDocument: document }}) => {TITLE}).join()"
    browser.wait(f"{titles} === 'a bad day,a bad day'")
    browser.value("""(() => {
      const pick = document.querySelectorAll(".column-head select")[1];
      pick.value = "vit";
      pick.dispatchEvent(new Event("input"));
    })()""")
    shown = f"{frames}.map((each) => each.checkVisibility()).join()"
    browser.wait(f"{shown} === 'true,false'")
    browser.pick_file("input[type=file]", image)
    browser.wait(f"{shown} === 'true,true' && {titles} === 'a bad day,cat.png'")
