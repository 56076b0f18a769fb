"""The picture of the whole model: true for every family, and the way to its chapters; chapters that
fold, and one chapter at a time for a room of people."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium_pipe import Browser
from page_families import FAMILIES, LABELS, SHAPE, labelled, write_page
from test_story_page import needs_chromium, predictor, story

from glassformer.inspect.inspection import Inspection
from glassformer.inspect.story import page
from glassformer.inspect.story_data import parts_of
from glassformer.models.classifier import Classifier, ClassifierConfig
from glassformer.tasks.classify.task import ClassifyPredictor

READER = "embedding layers"
KINDS = {
    "gpt": [f"{READER} norm head"],
    "gpt-history": [f"{READER} norm head"],
    "rnn-lm": ["embedding recurrence head"],
    "bert": ["embedding norm layers linear norm head"],
    "encoder": ["embedding norm layers pooling"],
    "translator": [f"{READER} norm", f"{READER} norm head"],
    "rnn-translator": [
        "embedding recurrence linear",
        "embedding attention recurrence linear head",
    ],
    "classifier": ["embedding norm layers pooling head"],
    "rnn-classifier": ["embedding recurrence pooling head"],
    "bag": ["bag head"],
    "tagger": ["embedding norm layers head"],
    "vit": ["patches layers norm pooling head"],
    "multiscale-vit": ["patches norm layers merging layers norm pooling head"],
    "image-gpt": [f"{READER} norm head"],
    "captioner": ["patches layers norm", f"{READER} norm head"],
    "show-attend-tell": [
        "patches convolution convolution norm linear",
        "embedding attention linear recurrence linear linear head",
    ],
}
PARTS = """[...document.querySelectorAll("#whole .whole-row")].map((row) =>
  [...row.querySelectorAll(".part-name, .part-size")].map((e) => e.textContent))"""
CHAPTERS = '[...document.querySelectorAll("section.chapter")].map(({ id }) => id)'
ADDRESS = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
MARKED = """[...document.querySelectorAll("#whole [aria-current]")].map((e) => e.dataset.part)"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        found.window(1280, 720)
        yield found
        assert found.problems == []


def with_bag() -> Inspection:
    shape = SHAPE | {"bag": True, "pooling": "idf"}
    found: Inspection = labelled(ClassifyPredictor, Classifier, ClassifierConfig, shape).inspect(
        "one two three"
    )
    return found


def parts(seen: Inspection) -> Any:
    found = parts_of(seen.subject)
    assert found is not None
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_of_every_family_are_those_that_compute_in_their_order(family: str) -> None:
    found = parts(FAMILIES[family]())
    assert [" ".join(part["kind"] for part in stream) for stream in found] == KINDS[family]


def test_parts_have_the_sizes_of_the_model() -> None:
    (gpt,) = parts(FAMILIES["gpt"]())
    assert gpt[0] == {"kind": "embedding", "vocabulary": 279, "width": 16, "adds_positions": True}
    layers = {"kind": "layers", "count": 2, "width": 16, "heads": 4, "hidden": 64}
    assert gpt[1] == layers | {"has_cross": False}
    assert gpt[3] == {"kind": "head", "from": 16, "to": 279}
    source, target = parts(FAMILIES["translator"]())
    assert [stream[1]["has_cross"] for stream in (source, target)] == [False, True]
    stages = [part for part in parts(FAMILIES["multiscale-vit"]())[0] if part["kind"] == "layers"]
    assert [(stage["width"], stage["heads"]) for stage in stages] == [(8, 2), (16, 4)]
    (bag,) = [part for part in parts(with_bag())[0] if part["kind"] == "bag"]
    assert bag["shares"] == [1, 1]
    assert len(LABELS["labels"]) == parts(with_bag())[0][-2]["to"]


@needs_chromium
def test_every_family_has_a_whole_picture_without_gaps(browser: Browser, tmp_path: Path) -> None:
    for family in FAMILIES:
        browser.open(write_page(family, tmp_path).as_uri())
        browser.wait(f"{CHAPTERS}.length > 0")
        rows = browser.value(PARTS)
        assert len(rows) == len(KINDS[family])
        texts = " ".join(text for row in rows for text in row)
        assert not any(fault in texts for fault in ("undefined", "NaN", "null", "[object"))
        room = "document.querySelector('#whole .whole')"
        assert browser.value(f"{room}.scrollWidth <= {room}.clientWidth"), family


@needs_chromium
def test_a_part_leads_to_its_chapter_with_its_layer_and_its_look(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(write_page("translator", tmp_path).as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    browser.click("[data-part='cross 1']")
    browser.wait(f"{ADDRESS}.chapter === 'attention'")
    at = browser.value(ADDRESS)
    assert (at["layer"], at["look"]) == ("1", "2")
    assert browser.value(MARKED) == ["cross 1"]
    pressed = "document.querySelector('#attention .looks [aria-pressed=true]').textContent"
    assert browser.value(pressed) == "the target at the source"
    browser.value("document.querySelector('.nav-layers button').click()")  # chosen elsewhere
    assert browser.value(MARKED) == ["cross 0"]
    browser.value("document.querySelector('#whole [tabindex=\"0\"]').focus()")
    part = "document.activeElement.dataset.part"
    browser.key("End")
    assert browser.value(part) == "prediction"
    browser.key("Home")
    assert browser.value(part) == "source"
    browser.value("[...document.querySelectorAll('[data-part=\"attention 0\"]')].at(-1).focus()")
    for key, name in (("Right", "attention 1"), ("Down", "cross 1"), ("Left", "cross 0")):
        browser.key(f"Arrow{key}")
        assert browser.value(part) == name
    browser.key("End")
    browser.key("Enter")
    browser.wait(f"{ADDRESS}.chapter === 'prediction'")
    assert browser.value(MARKED)[-1] == "prediction"


@needs_chromium
def test_a_folded_chapter_stays_folded_in_a_link_and_opens_when_it_is_gone_to(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(story()), encoding="utf-8")
    browser.open(file.as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    browser.click("#embeddings h2 button")
    browser.wait(f"{ADDRESS}.folded === 'embeddings'")
    opened = "document.querySelector('#embeddings h2 button').ariaExpanded"
    assert browser.value(opened) == "false"
    browser.open(f"{file.as_uri()}#folded=embeddings,attention,nowhere")
    browser.wait("document.querySelectorAll('.ask').length === 1")
    drawn = "document.querySelectorAll('#embeddings svg, #attention canvas').length"
    assert browser.value(drawn) == 0
    browser.click("nav a", 1)
    assert browser.value(opened) == "true"
    assert browser.value(drawn) > 0
    assert browser.value("document.querySelectorAll('#attention canvas').length") == 0


@needs_chromium
def test_one_chapter_at_a_time_by_the_keys_of_a_remote_control(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(story()), encoding="utf-8")
    browser.open(f"{file.as_uri()}?present")
    browser.wait("document.querySelectorAll('.ask').length === 1")
    shown = "[...document.querySelectorAll('section.chapter')].filter((e) => e.offsetHeight)"
    names = f"{shown}.map(({{ id }}) => id)"
    counter = "document.querySelector('#present output').textContent"
    steps = 1 + len(browser.value(CHAPTERS))
    assert browser.value(names) == []
    assert browser.value("document.getElementById('whole').offsetHeight") > 100
    assert browser.value(counter) == f"1 / {steps}"
    browser.key("PageDown")
    assert browser.value(names) == ["tokens"]
    browser.key("ArrowRight")
    assert browser.value(names) == ["embeddings"]
    assert browser.value(counter) == f"3 / {steps}"
    browser.key("ArrowLeft")
    for _ in range(100):  # a tall chapter is scrolled first
        browser.key(" ")
    assert browser.value(names) == browser.value(CHAPTERS)[-1:]
    browser.key("PageUp")
    browser.click("#present button", 0)
    browser.key("Escape")
    assert browser.value(f"{shown}.length") == steps - 1
    assert browser.value("location.search") == ""
    browser.open(f"{file.as_uri()}?present#chapter=attention&layer=1")
    browser.wait(f"{names}.join() === 'attention'")
    browser.value("document.querySelector('#attention select').focus()")
    browser.key("ArrowRight")  # which the list takes
    assert browser.value(names) == ["attention"]
    for _ in range(9):  # a tall chapter is scrolled first
        browser.key("PageDown")
    assert browser.value(names) != ["attention"]
    browser.open(f"{file.as_uri()}?present#chapter=kv_cache")
    browser.wait(f"{names}.join() === 'kv_cache'")
    browser.wait("document.querySelector('#kv_cache input') !== null")
    slider = "document.querySelector('#kv_cache input')"
    browser.value(f"{slider}.focus()")
    for _ in range(3):
        browser.key("PageUp")
    browser.wait(f"{names}.join() !== 'kv_cache'")
    browser.open(f"{file.as_uri()}?present#chapter=attention&layer=1")
    browser.wait(f"{names}.join() === 'attention'")
    browser.key("Escape")
    browser.value("document.querySelector('.present').click()")
    browser.wait(f"{names}.join() === 'attention'")


@needs_chromium
def test_the_first_screen_has_the_text_the_whole_model_and_the_first_chapter(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(predictor("a bad day, said the cat.").inspect("a bad day")))
    browser.open(file.as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    bottom = "document.querySelector('#tokens h2').getBoundingClientRect().bottom"
    assert 300 < browser.value(bottom) < 720


@needs_chromium
def test_the_middle_of_a_part_is_its_own_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    browser.window(375, 812)
    browser.open(write_page("gpt", tmp_path).as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    names = browser.value(
        "[...document.querySelectorAll('#whole button.whole-part')].map((e) => e.dataset.part)"
    )
    for number, name in enumerate(names):
        x, y = browser.spot("#whole button.whole-part", number)
        under = f"document.elementFromPoint({x}, {y}).closest('button')?.dataset.part"
        assert browser.value(under) == name
    browser.click("#whole button.whole-part", 1)
    browser.wait(f"{ADDRESS}.chapter === 'embeddings'")
