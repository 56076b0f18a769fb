"""What if a part of the model were missing: the page shows what torch computes with that change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium_pipe import Browser
from page_families import FAMILIES
from test_changed_models import changed
from test_live_labels import predictor as labeller
from test_pointer import live
from test_story_page import LIVE, needs_chromium, shown, story
from translators import pupil

from glassformer.inspect.capture import capturing, stacks_of
from glassformer.inspect.story import page, story_data

PARTS = {"scale": "unscaled", "positions": "unpositioned", "mask": "unmasked"}
BANNER = "document.querySelector('.changed').textContent"
DONE = "document.querySelector('.what-if').ariaBusy === 'false'"
KL = "document.querySelector('[data-of=divergence]')?.textContent"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        yield found
        assert found.problems == []


def in_torch(seen: Any, without: str) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of the last stream, and weights of its heads."""
    rows = [torch.tensor([stream.ids]) for stream in seen.subject.streams]
    changes = tuple(PARTS[each] for each in without.split(",") if each)
    with changed(seen.subject.module, changes) as model, torch.inference_mode():
        (stack,) = list(stacks_of(model).values())[-1:]
        with capturing(stack) as capture:
            shares = model(*rows)[0].double().log_softmax(-1).numpy()
        return shares, capture.attention


def entropies(weights: np.ndarray) -> np.ndarray:
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return -(weights * logs).sum(-1).mean(-1)  # (N, H)


@needs_chromium
@pytest.mark.parametrize("without", ["scale", "positions", "mask", "scale,mask"])
@pytest.mark.parametrize("kind", ["learned", "rotary", "relative", "translator"])
def test_divergence_and_entropies_are_those_of_torch(
    kind: str, without: str, tmp_path: Path
) -> None:
    seen = pupil().inspect("one two three four") if kind == "translator" else story(positions=kind)
    script = (
        LIVE
        % f"""choose({{ without: "{without}", token: 2 }});
      while (waiting.length) waiting.shift()();
      const {{ divergence, terms }} = scene.compared;
      return [divergence, scene.entropies, terms.reduce((a, b) => a + b, 0), location.hash];"""
    )
    divergence, (before, after), total, address = shown(page(seen), script, tmp_path)
    p, weights = in_torch(seen, "")
    q, other = in_torch(seen, without)
    expected = (np.exp(p[2]) * (p[2] - q[2])).sum()
    assert divergence == pytest.approx(expected, abs=2e-3, rel=5e-3)
    assert total == pytest.approx(divergence)
    assert np.abs(np.array(before) - entropies(weights)).max() < 2e-3
    assert np.abs(np.array(after) - entropies(other)).max() < 2e-3
    assert "without=" in address


@needs_chromium
def test_words_are_shuffled_again_and_again_and_a_bag_does_not_notice(
    browser: Browser, tmp_path: Path
) -> None:
    live(browser, labeller("mean").inspect("one two three four five"), tmp_path)
    text = "document.querySelector('#what_if .passage').textContent"
    orders = set()
    for _ in range(4):
        browser.click("#what_if .switch button", 2)
        browser.wait(DONE)
        orders.add(browser.wait(text))
    assert len(orders) > 1
    assert {tuple(sorted(order.split())) for order in orders} == {
        ("five", "four", "one", "three", "two")
    }
    assert not browser.wait(KL).startswith("0 ")
    browser.click("#what_if .switch button", 1)
    browser.wait(
        f"{BANNER}.includes('no positions') && document.querySelector('#what_if .honest') !== null"
    )
    said = browser.wait("document.querySelector('#what_if .honest').textContent")
    between = float(said.split(": ")[-1].split()[0])
    assert between < 1e-9
    assert "There is no causal mask" in browser.value(
        "document.querySelector('#what_if').textContent"
    )
    browser.click("#what_if .switch button", 3)
    assert browser.value(BANNER) == ""
    browser.wait("!location.hash.includes('without') && !location.hash.includes('shuffle')")


@needs_chromium
def test_words_stay_whole_and_the_predicted_place_stays(tmp_path: Path) -> None:
    seen = story("a bad day, said the cat.")  # of characters
    script = (
        LIVE
        % """const at = predictionAt(scene);
      const shuffled = (seed) => shuffledOrder(scene, at, seed).map((n) => tokens()[n]);
      return [1, 2, 3].map((seed) => shuffled(seed).join(""));"""
    )
    for text in shown(page(seen), script, tmp_path):
        assert text != "a bad day, said the cat."
        assert sorted(text.split()) == sorted(["a", "bad", "day,", "said", "the", "cat."])
        assert text.endswith(" cat.")


@needs_chromium
def test_the_searches_find_what_python_finds(tmp_path: Path) -> None:
    seen = pupil().inspect("one two three four")
    script = (
        LIVE
        % """choose({ beams: 8 });
      while (waiting.length) waiting.shift()();
      return Object.entries(scene.foundByBeams)
        .map(([n, { tokens, score }]) => [Number(n), tokens, score]);"""
    )
    found = {n: (tokens, score) for n, tokens, score in shown(page(seen), script, tmp_path)}
    assert list(found) == [1, 2, 4, 8]
    expected = story_data(seen)["beams"]
    assert found[4][0] == expected["best"]
    assert found[4][1] == pytest.approx(expected["score"], abs=2e-3)
    assert found[1][0] == expected["greedy"]
    assert found[1][1] == pytest.approx(expected["greedy_score"], abs=2e-3)


@needs_chromium
def test_draws_are_counted_and_come_close_to_the_probabilities(
    browser: Browser, tmp_path: Path
) -> None:
    live(browser, story(), tmp_path)
    for which in (0, 1, 2, 2):
        browser.click(".draws button", which)
    browser.wait("location.hash.includes('draws=211')")
    script = """[...document.querySelectorAll('.tally tbody tr')].map((row) =>
      [...row.querySelectorAll('.value')].map((each) => parseFloat(each.textContent)))"""
    rows = browser.value(script)
    assert 150 < sum(drawn for _, drawn in rows) <= 211
    for p, drawn in rows:
        share = p / 100
        assert abs(drawn - 211 * share) < 4 * (211 * share * (1 - share)) ** 0.5 + 1
    browser.value("document.querySelectorAll('.draws button')[3].focus()")
    browser.key("Enter")
    assert browser.wait("document.querySelector('.draws + .said').textContent").startswith(
        "Nothing is drawn"
    )


@needs_chromium
def test_the_cache_is_followed_by_keys_and_its_counts_add_up(
    browser: Browser, tmp_path: Path
) -> None:
    live(browser, story(positions="rotary", num_kv_heads=2), tmp_path)
    browser.wait("document.querySelector('.costs') !== null")
    browser.value("document.querySelector('.steps').focus()")
    for _ in range(3):
        browser.key("ArrowLeft")
    browser.wait("location.hash.includes('cached=5')")
    script = """[...document.querySelectorAll('.costs tbody tr')]
      .map((row) => [...row.querySelectorAll('td')])
      .map((cells) => cells.map((each) => Number(each.textContent.replaceAll(',', ''))))"""
    *parts, step, total = browser.value(script)
    assert np.array(parts).sum(0).tolist() == step
    assert parts[1] == [2 * 4 * 6 * 4, 2 * 4 * 21 * 4]  # layers · heads · pairs · width
    assert total[0] < total[1]
    said = browser.value("document.querySelector('#kv_cache').textContent")
    assert "2 · 2 layers · 2 heads of keys · 4 numbers · 6 tokens = 192 numbers" in said
    assert "2 times smaller" in said
    outlined = (
        "[...document.querySelectorAll('.fresh')].map((each) => parseFloat(each.style.height))"
    )
    heights = browser.value(outlined)
    assert np.allclose(heights, [100 / 9] * 4 + [600 / 9] * 4, atol=0.01)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vit", "models of images"),
        ("rnn-lm", "no scores to divide"),
        ("bag", "no scores to divide"),
    ],
)
def test_a_page_without_the_model_says_why(name: str, reason: str) -> None:
    absent = story_data(FAMILIES[name]())["absent"]
    assert "“What if” and “The KV cache” are absent: " in absent
    assert reason in absent
