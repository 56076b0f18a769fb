"""What if a part of the model were missing: the page shows what torch computes with that change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium_pipe import Browser
from page_families import FAMILIES, SHAPE, labelled
from picture_models import shaken
from test_changed_models import changed
from test_live_labels import predictor as labeller
from test_pointer import live
from test_story_page import LIVE, needs_chromium, shown, story
from translators import pupil

from glassformer.inspect.capture import capturing, stacks_of
from glassformer.inspect.story import page, story_data
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import Classifier, ClassifierConfig
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

PARTS = {"scale": "unscaled", "positions": "unpositioned", "mask": "unmasked"}
BANNER = "document.querySelector('.changed').textContent"
DONE = "document.querySelector('.what-if').ariaBusy === 'false'"
KL = "document.querySelector('[data-of=divergence]')?.textContent"


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
@pytest.mark.usefixtures("exact")
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
      return [scene.compared.divergence, scene.entropies, location.hash];"""
    )
    divergence, (before, after), address = shown(page(seen), script, tmp_path)
    p, weights = in_torch(seen, "")
    q, other = in_torch(seen, without)
    expected = (np.exp(p[2]) * (p[2] - q[2])).sum()
    assert expected > 1e-5
    assert divergence == pytest.approx(expected, abs=1e-6, rel=1e-3)
    assert np.abs(np.array(before) - entropies(weights)).max() < 1e-4
    assert np.abs(np.array(after) - entropies(other)).max() < 1e-4
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
def test_a_mask_stays_where_it_is_when_words_of_other_lengths_are_exchanged(
    tmp_path: Path,
) -> None:
    text = "sun cat walking walked talking a b c day night mornings"
    tokenizer = train_tokenizer("wordpiece", [text] * 3, 60, list(BERT_TOKENS))
    config = BertConfig(**SHAPE, vocab_size=tokenizer.vocab_size)
    model = MaskedPredictor(shaken(Bert(config)), MaskedTextPreprocessing(tokenizer=tokenizer))
    seen = model.inspect("mornings cat [MASK] talking a")
    script = (
        LIVE
        % """const at = predictionAt(scene);
      return [at, ...[1, 2, 3, 4, 5, 6].map((seed) => shuffledOrder(scene, at, seed))];"""
    )
    at, *orders = shown(page(seen), script, tmp_path)
    tokens = seen.tokens
    assert tokens[at] == "[MASK]"
    assert at != len(tokens) - 1 - at  # words of different lengths on its sides
    for order in orders:
        assert sorted(order) == list(range(len(tokens)))
        assert [order[0], order[at], order[-1]] == [0, at, len(tokens) - 1]
        moved = [tokens[each] for each in order]
        for side in (slice(1, at), slice(at + 1, -1)):
            assert moved[side] != tokens[side]
            assert sorted(moved[side]) == sorted(tokens[side])
            assert not moved[side][0].startswith("##")


@needs_chromium
def test_what_is_left_out_is_struck_out_in_all_equations(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(story(positions="relative", qk_norm=True)), encoding="utf-8")
    browser.open(file.as_uri())
    browser.wait("document.querySelectorAll('.ask').length === 1")
    lines = "[...document.querySelectorAll('#what_if .switch .equation')].map((e) => e.textContent)"
    product = "norm(query) · norm(key)ᵀ / √d"
    assert browser.value(lines) == [
        f"softmax({product})",
        f"score = {product} + bias of the distance",
        f"softmax({product} + mask)",
    ]
    struck = "[...document.querySelectorAll('#what_if .struck')].map((e) => e.textContent.trim())"
    browser.click("#what_if .switch button", 0)
    assert browser.value(struck) == ["/ √d"] * 3
    browser.click("#what_if .switch button", 2)
    assert browser.value(struck) == [*["/ √d"] * 3, "+ mask"]
    for chapter in ("attention", "computation"):
        head = browser.value(f"document.querySelector('#{chapter} .equation').textContent")
        assert product in head


@needs_chromium
@pytest.mark.parametrize("pooling", ["first", "last"])
def test_a_label_that_is_read_from_one_token_changes_when_that_moves(
    pooling: str, browser: Browser, tmp_path: Path
) -> None:
    shape = SHAPE | {"pooling": "first"}
    predictor = {
        "first": lambda: labelled(ClassifyPredictor, Classifier, ClassifierConfig, shape),
        "last": lambda: labeller("gpt last"),
    }[pooling]()
    live(browser, predictor.inspect("one two three four five"), tmp_path)
    without = "positions,mask" if pooling == "last" else "positions"
    for seed in range(1, 9):
        browser.value(f"void (location.hash = '#chapter=what_if&without={without}&shuffle={seed}')")
        browser.wait(f"{BANNER}.includes('number {seed})') && {DONE}")
        said = browser.wait("document.querySelector('#what_if .honest')?.textContent")
        moved = browser.value(
            "[...document.querySelectorAll('#what_if .passage span')]"
            f".at({0 if pooling == 'first' else -1}).className === 'moved'"
        )
        assert (f"the label is read from the {pooling} token" in said) == moved
        between = float(said.split(": ")[-1].split()[0])
        assert (between < 1e-9) != moved
    if pooling == "last":
        everything = browser.value("document.querySelector('#what_if').textContent")
        assert "each token also reads those after it" in everything
        assert "reads the answer" not in everything


@needs_chromium
def test_a_kept_sum_is_let_go_when_what_it_shows_is_gone(browser: Browser, tmp_path: Path) -> None:
    live(browser, story(), tmp_path)
    browser.value("void (location.hash = '#chapter=what_if&without=scale&beams=2')")
    searched = '[data-of="searched/2"]'
    for selector, switch in (
        ("[data-of=divergence]", 1),
        ('[data-of^="beside/1"]', 2),
        (searched, 1),
        ("#what_if [data-region]", 2),
    ):
        browser.wait(f"{DONE} && document.querySelector('{searched}') !== null")
        before = browser.value("location.hash")
        browser.click(selector)
        browser.wait("document.querySelector('#sum').classList.contains('locked')")
        browser.click("#what_if .switch button", switch)
        browser.wait(f"location.hash !== {before!r}")
        assert browser.value("document.querySelector('#sum').hidden")


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
    tally = "document.querySelector('.draws + .said').textContent"
    assert browser.wait(tally).startswith("Nothing is drawn")
    browser.value("void (location.hash = '#draws=10000')")
    browser.wait(f"{tally}.endsWith('This page draws no more.')")
    disabled = "[...document.querySelectorAll('.draws button')].map((each) => each.disabled)"
    assert browser.value(disabled) == [True, True, True, False]


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
    ("name", "chapters", "reason"),
    [
        ("vit", "chapter “What if” is", "models of images do not run"),
        ("rnn-lm", "chapters “What if” and “The KV cache” are", "no keys and values to keep"),
        ("encoder", "chapter “What if” is", "there is no prediction to compare"),
        ("bag", "chapter “What if” is", "the model has no scores to divide by √d and no causal"),
    ],
)
def test_a_page_without_the_model_says_why(name: str, chapters: str, reason: str) -> None:
    assert f"The {chapters} absent: " in (absent := story_data(FAMILIES[name]())["absent"])
    assert reason in absent
