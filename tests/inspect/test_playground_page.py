"""The page in which a model learns, used in a real browser: pointer, keys, phone, every reader."""

import json
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium_pipe import Browser
from live_models import needs_chromium
from test_playground import folder_of

from glassformer.inspect.playground import playground

pytestmark = needs_chromium

AXE = Path(__file__).with_name("axe") / "axe.min.js"  # axe-core 4.14.0, MPL-2.0
STEP = "Number(document.querySelector('.beside').textContent.match(/Step ([\\d,]+)/)?.[1] ?? 0)"
TRAIN, ONE_STEP, ANEW = ".buttons button.main", ".buttons button", ".buttons button"
PLACE = re.compile(r"at position (\d+) of sequence (\d+): ")
TEXT = "the cat sat on the mat and the dog sat on the cat. " * 5


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.call("Network.enable")
        yield browser


@pytest.fixture
def browser(window: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The page, just opened; whatever a test does leaves no problem on the console."""
    file = tmp_path / "play.html"
    file.write_text(playground(), encoding="utf-8")
    window.window(1280, 900)
    window.open(file.as_uri())
    window.wait("document.querySelector('.folder .hint') !== null")
    yield window
    assert window.problems == []
    window.problems.clear()
    requests = window.value("performance.getEntriesByType('resource').map((each) => each.name)")
    assert [name for name in requests if not name.startswith(("data:", "blob:"))] == []


def said(browser: Browser, selector: str) -> str:
    return str(browser.value(f"document.querySelector({json.dumps(selector)}).textContent"))


def write_text(browser: Browser, text: str) -> None:
    browser.value(
        "(() => { const box = document.querySelector('textarea'); box.focus(); box.select(); })()"
    )
    browser.call("Input.insertText", text=text)


def train_to(browser: Browser, step: int) -> None:
    browser.click(TRAIN)
    browser.wait(f"{STEP} >= {step}")
    browser.click(TRAIN)


def test_it_learns_by_pointer_and_a_step_is_written_out(browser: Browser) -> None:
    assert said(browser, ".beside") == "Press Train."
    browser.click(TRAIN)
    assert said(browser, TRAIN) == "Pause"
    browser.wait(f"{STEP} >= 3")
    browser.click(".switches input")  # while it trains
    browser.wait("document.querySelector('svg .change') !== null")
    assert "no causal mask" in said(browser, "section[aria-label=Loss]")
    browser.click(TRAIN)
    paused = browser.value(STEP)
    time.sleep(0.3)
    assert (browser.value(STEP), said(browser, TRAIN)) == (paused, "Train")
    browser.click(ONE_STEP, 1)
    assert browser.value(STEP) == paused + 1
    names = browser.value(
        "[...document.querySelectorAll('.written dt')].map((one) => one.textContent)"
    )
    assert names == ["forward", "loss", "gradient", "AdamW"]
    step = said(browser, ".steps")
    assert "Tried out" in step
    assert "; the product is added to number" in step
    places = [tuple(map(int, each)) for each in PLACE.findall(step)]
    assert places
    assert all(position < 64 and number in (1, 2) for position, number in places)
    widths = "['.steps', '.number'].map((each) => document.querySelector(each).clientWidth)"
    narrow, wide = browser.value(widths)
    assert narrow > wide / 3  # no style of another page


def test_a_held_out_loss_is_that_of_the_text(browser: Browser) -> None:
    write_text(browser, TEXT)
    count = len({*TEXT})
    assert f"ln {count + 1} ({count} characters and the end of the text)" in said(
        browser, "[aria-label=Loss] .hint"
    )
    browser.click(ONE_STEP, 1)
    assert re.search(r"held out \d", said(browser, ".beside"))
    write_text(browser, TEXT[::-1])
    assert said(browser, ".beside").endswith("held out not measured yet")
    browser.click(ONE_STEP, 1)
    assert re.search(r"held out \d", said(browser, ".beside"))


def test_a_step_and_its_number_are_seen_together(browser: Browser) -> None:
    browser.window(1280, 720)
    browser.click(ONE_STEP, 1)
    browser.value("scrollTo(0, 0)")
    places = "[...document.querySelectorAll('.buttons, .written')].map((each) => each.offsetTop)"
    assert max(browser.value(places)[:5]) < 680


def test_what_the_mask_hides_is_grey_as_long_as_there_is_one(browser: Browser) -> None:
    corner = """(() => { const canvas = document.querySelector('.one-head canvas');
      return [...canvas.getContext('2d').getImageData(canvas.width - 1, 0, 1, 1).data]; })()"""
    legend = "document.querySelector('.masked-key').hidden"
    assert browser.value(corner)[:3] == [128] * 3
    assert not browser.value(legend)
    browser.click(".switches input")
    assert browser.value(corner)[:3] != [128] * 3
    assert browser.value(legend)


def test_a_number_is_chosen_by_pointer_and_by_arrow_keys(browser: Browser) -> None:
    x, y = browser.spot(".weights canvas")
    browser.press(x + 2, y + 2)  # the middle lies between two cells
    browser.release(x + 2, y + 2)
    chosen = said(browser, ".steps")
    assert chosen.startswith("Row 96, column 24: ")
    # The matrix lies on its side: to the right is the next row.
    for key, place in (("ArrowRight", (97, 24)), ("ArrowDown", (97, 25)), ("ArrowLeft", (96, 25))):
        browser.key(key)
        row, column = place
        assert said(browser, ".steps").startswith(f"Row {row}, column {column}: ")
        assert browser.value("document.activeElement.tagName") == "CANVAS"
    for _ in range(30):
        browser.key("ArrowDown")
    assert said(browser, ".steps").startswith("Row 96, column 47: ")
    browser.click(ONE_STEP, 1)
    assert "added to number 96" in said(browser, ".steps")


def test_the_text_can_change_while_it_trains(browser: Browser) -> None:
    browser.click(TRAIN)
    browser.wait(f"{STEP} >= 2")
    write_text(browser, f"{TEXT}ÄÖ€")
    assert said(browser, TRAIN) == "Pause"
    about = said(browser, ".hint")
    assert "3 characters are left out, since the model does not know “Ä” “Ö” “€”" in about
    step = browser.value(STEP)
    browser.wait(f"{STEP} > {step}")
    count, different = len(TEXT) + 3, len({*TEXT, *"ÄÖ€"})
    assert about.startswith(f"{count} characters, {different} different ones.")
    browser.value("const box = document.querySelector('.asking input'); box.focus(); box.select();")
    browser.call("Input.insertText", text="the Ä")
    begins = "Each character is drawn at temperature 0.7."
    asked = said(browser, ".asking + .hint")
    assert asked == f"{begins} 1 character is left out, since the model does not know “Ä”."
    write_text(browser, "the cat")
    assert said(browser, ".hint") == (
        "The text has 7 characters. To learn from it, it needs at least 200."
    )
    assert said(browser, TRAIN) == "Train"
    disabled = "[...document.querySelectorAll('.buttons button')].map((one) => one.disabled)"
    assert browser.value(disabled)[:2] == [True, True]
    write_text(browser, f"{TEXT}ÄÖ€")
    browser.click(ANEW, 2)
    assert said(browser, ".hint").startswith(f"{len(TEXT) + 3} characters, ")
    assert "left out" not in said(browser, ".hint")
    assert said(browser, ".asking + .hint") == begins
    assert said(browser, ".beside") == "Press Train."
    train_to(browser, 1)


@pytest.mark.parametrize(
    ("text", "learns"),
    [
        ("a" * 199, False),
        ("a" * 200, True),
        ("", False),
        ("\ud800\udc00\ud800 \udfff" * 60, True),
        ("e\u0301👍🏽\u202e שלום\r\n" * 30, True),
        ("".join(chr(0x4E00 + n) for n in range(1500)), True),
    ],
    ids=["199", "200", "nothing", "surrogates", "marks", "Chinese"],
)
def test_every_text_is_learned_or_gets_a_sentence(
    browser: Browser, text: str, learns: bool
) -> None:
    change = "box.value = TEXT; box.dispatchEvent(new Event('input'));"
    browser.value(
        "(() => { const box = document.querySelector('textarea');"
        f"{change.replace('TEXT', json.dumps(text))} }})()"
    )
    enabled = browser.value(f"!document.querySelector('{TRAIN}').disabled")
    assert enabled is learns
    if learns:
        browser.click(ONE_STEP, 1)
        assert browser.value(STEP) == 1
        browser.click(".asking button")
        browser.wait("document.querySelector('.samples li').textContent.length > 80")
    else:
        assert "needs at least 200" in said(browser, ".hint")
    assert "NaN" not in browser.value("document.body.innerText")


def test_everything_can_be_done_with_the_keyboard(browser: Browser) -> None:
    def focus_next(selector: str) -> None:
        for _ in range(30):
            browser.key("Tab")
            if browser.value(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    focus_next("textarea")
    focus_next(TRAIN)
    browser.key("Enter")
    browser.wait(f"{STEP} >= 2")
    browser.key(" ")
    assert said(browser, TRAIN) == "Train"
    focus_next(".buttons button:nth-child(2)")
    browser.key("Enter")
    assert browser.value("document.querySelectorAll('.written').length") == 4
    focus_next(".settings select")
    browser.key("ArrowDown")
    focus_next(".switches input")
    browser.key(" ")
    assert not browser.value("document.querySelector('.switches input').checked")
    focus_next(".asking button")
    browser.key("Enter")
    browser.wait("document.querySelector('.samples li').textContent.length > 80")
    for _ in range(2):
        focus_next(".thumb:not(.chosen)")
    browser.key("Enter")  # the next Tab goes on from here
    assert browser.value("document.activeElement.ariaLabel") == "layer 0, head 2"
    assert "Layer 0, head 2" in said(browser, ".one-head")
    focus_next(".number select")
    browser.key("ArrowDown")
    focus_next(".weights canvas")
    browser.key("ArrowRight")
    assert said(browser, ".steps").startswith("Row 0, column 1: ")
    focus_next(".folder button")
    focus_next("input[type=file]")


def test_a_model_is_saved_and_loaded(browser: Browser, tmp_path: Path) -> None:
    behavior = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.call("Browser.setDownloadBehavior", **behavior)
    browser.click(".switches input")
    browser.click(".folder button")
    assert "Switch the mask on to save it." in said(browser, ".folder .said")
    browser.click(".switches input")
    browser.click(".switches input", 1)
    browser.click(ONE_STEP, 1)
    browser.click(".thumb", 8)
    browser.click(".folder button")
    assert said(browser, ".folder .said") == "Saved gpt-playground.zip, after 1 step."
    archive, until = tmp_path / "gpt-playground.zip", time.monotonic() + 20
    while not archive.exists() and time.monotonic() < until:
        time.sleep(0.05)
    with zipfile.ZipFile(archive) as zipped:
        zipped.extractall(tmp_path)
    browser.click(".switches input", 1)
    browser.call("DOM.enable")
    browser.pick_file("input[type=file]", tmp_path / "gpt-playground")
    browser.wait("document.querySelector('.folder .said').textContent.startsWith('Loaded')")
    checked = "[...document.querySelectorAll('.switches input')].map((one) => one.checked)"
    assert browser.value(checked) == [True, False, True, True]
    (tmp_path / "small").mkdir()
    small = folder_of(tmp_path / "small", num_layers=1, num_heads=1, context_length=16)
    browser.pick_file("input[type=file]", small)  # without the head that is chosen
    browser.wait("document.querySelectorAll('.thumb').length === 1")
    assert "left out" in said(browser, ".hint")
    (small / "model.safetensors").write_bytes(b"")
    browser.pick_file("input[type=file]", small)
    browser.wait("document.querySelector('.folder .said').textContent.includes('cannot be')")
    assert said(browser, ".folder .said") == (
        "This folder cannot be loaded: its model.safetensors is damaged: it ends within its header."
    )


@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_phone_need_not_scroll_sideways(browser: Browser, width: int) -> None:
    browser.window(width, 700)
    browser.click(ONE_STEP, 1)
    size = "[document.documentElement.scrollWidth, innerWidth]"
    assert browser.value(size) == [width, width]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_axe_finds_no_serious_fault(browser: Browser, scheme: str, width: int) -> None:
    browser.window(width, 900, scheme)
    train_to(browser, 2)
    browser.click(".asking button")
    browser.value(f"{AXE.read_text(encoding='utf-8')}; 0")
    found: list[Any] = browser.value("""(async () => {
        const { violations } = await axe.run(document, { resultTypes: ["violations"] });
        return violations.map(({ id, impact, nodes }) => [impact, id, nodes[0].html]);
    })()""")
    assert [each for each in found if each[0] in ("serious", "critical")] == []


def test_without_scripts_the_page_says_what_it_needs(browser: Browser) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.reload")
        time.sleep(0.5)
        root = browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        found = browser.call("DOM.querySelector", nodeId=root, selector="noscript")["nodeId"]
        html = browser.call("DOM.getOuterHTML", nodeId=found)["outerHTML"]
        assert "a small GPT learns" in html
        assert "It needs JavaScript, and sends nothing anywhere." in html
        box = browser.call("DOM.getBoxModel", nodeId=found)["model"]  # an error, if it is not drawn
        assert box["width"] > 100
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
