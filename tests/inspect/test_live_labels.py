"""Classifiers and taggers that a page carries predict what Python predicts."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_models import NO_LIMIT, in_page, needs_chromium, needs_node, randomized
from test_story_page import LIVE, shown

from glassformer.inspect.capture import stacks_of
from glassformer.inspect.live import live_or_error
from glassformer.inspect.story import page, story_data
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
    GPTTagger,
    GPTTaggerConfig,
    Tagger,
    TaggerConfig,
)
from glassformer.nn.observe import without_heads
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer

TINY: dict[str, Any] = {"num_layers": 2, "d_model": 16, "num_heads": 4, "context_length": 12}
TEXT = "one two three four five six"
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "mean": (Classifier, ClassifierConfig, {}),
    "idf": (Classifier, ClassifierConfig, {"pooling": "idf", "final_norm": True}),
    "first and pooler": (Classifier, ClassifierConfig, {"pooling": "first", "pooler": True}),
    "max": (Classifier, ClassifierConfig, {"pooling": "max", "pre_norm": True}),
    "several": (Classifier, ClassifierConfig, {"multi_label": True}),
    "tagger": (Tagger, TaggerConfig, {"num_segments": 2}),
    "gpt last": (GPTClassifier, GPTClassifierConfig, {}),
    "gpt mean": (GPTClassifier, GPTClassifierConfig, {"pooling": "mean", "positions": "rotary"}),
    "gpt tagger": (GPTTagger, GPTTaggerConfig, {"d_embedding": 9, "tie_weights": False}),
}


@cache
def predictor(name: str) -> Any:
    kind, config, more = MODELS[name]
    tokenizer = train_tokenizer("word", [TEXT] * 3)
    torch.manual_seed(1)
    sizes = TINY | {"vocab_size": tokenizer.vocab_size, "labels": ("good", "bad", "so-so")}
    model = randomized(kind(config(**sizes | more)))
    model.temperature.fill_(1.7)
    if (pooling := getattr(model, "idf_pooling", None)) is not None:
        pooling.idf.uniform_(1, 3)
    is_tagger = kind in (Tagger, GPTTagger)
    preprocessing = TextPreprocessing(tokenizer=tokenizer, is_causal=model.is_causal)
    return (TagPredictor if is_tagger else ClassifyPredictor)(model, preprocessing)


def packed(name: str, dtype: Any = "float32") -> Any:
    found = predictor(name)
    return live_or_error(found.model, found.preprocessing, NO_LIMIT, dtype)


@needs_node
def test_the_page_computes_the_logits_of_every_kind_of_labels() -> None:
    ids = [3, 1, 4, 1, 5]
    stacks = {name: next(iter(stacks_of(predictor(name).model))) for name in MODELS}
    jobs = [
        ("logits", {"live": packed(name), "calls": [[ids], [ids, [[stacks[name], 1, 2]]]]})
        for name in MODELS
    ]
    for name, (whole, without) in zip(MODELS, in_page(*jobs), strict=True):
        model = predictor(name).model
        (stack,) = stacks_of(model).values()
        row = torch.tensor([ids])
        with torch.inference_mode():
            expected = model(row).reshape(-1, 3).numpy()
            with without_heads({stack.attentions[1].tap: [2]}):
                off = model(row).reshape(-1, 3).numpy()
        assert np.abs(np.array(whole) - expected).max() < 1e-5, name
        assert np.abs(np.array(without) - off).max() < 1e-5, name
        assert np.abs(off - expected).max() > 1e-4, name


@needs_node
def test_the_stamp_of_labels_is_close_with_packed_weights() -> None:
    lives = [packed(name, "int16") for name in MODELS]
    (found,) = in_page(("agreements", {"lives": lives}))
    assert all(1e-7 < each["difference"] < 1e-3 for each in found)


@needs_chromium
@pytest.mark.parametrize("name", ["idf", "several", "tagger", "gpt last"])
@pytest.mark.parametrize("text", ["six five four", f"{TEXT} {TEXT} {TEXT}"])
def test_a_typed_text_gets_the_labels_of_python(name: str, text: str, tmp_path: Path) -> None:
    own = predictor(name)
    script = f"""await (async () => {{
      const model = await makeLive(data.live);
      const scene = liveScene(model, data.live, {json.dumps(text)}, [], written);
      const effects = await new Promise((done) => effectsOfHeads(scene, done));
      return [scene.main.tokens, scene.predictions, scene.focus, scene.notes, effects];
    }})()"""
    html = page(own.inspect("one two"))
    tokens, predictions, focus, notes, effects = shown(html, script, tmp_path)
    seen = own.inspect(text)
    expected = story_data(seen)
    assert tokens == seen.tokens
    assert notes == list(seen.notes)
    assert focus == expected["focus"]
    assert [each["position"] for each in predictions] == [
        each["position"] for each in expected["predictions"]
    ]
    for ours, theirs in zip(predictions, expected["predictions"], strict=True):
        for one, other in zip(ours["options"], theirs["options"], strict=True):
            assert one["token"] == other["token"]
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-3)
    for key in ("divergence", "change"):
        assert np.allclose(effects[key], expected["effects"][str(focus)][key], atol=2e-3)


@needs_chromium
@pytest.mark.parametrize("name", ["mean", "idf"])
def test_what_each_token_adds_follows_the_keyboard(name: str, tmp_path: Path) -> None:
    own = predictor(name)
    script = (
        LIVE
        % """type("six five six");
      while (waiting.length) waiting.shift()();
      return [scene.contributions, document.querySelector("#prediction .step").textContent];"""
    )
    found, step = shown(page(own.inspect("one two")), script, tmp_path)
    expected = story_data(own.inspect("six five six"))["contributions"]
    assert np.allclose(found["values"], expected["values"], atol=1e-3)
    assert np.allclose(found["logits"], expected["logits"], atol=1e-3)
    assert step.startswith(f"all {len(found['values'][0])} tokens ")


@needs_chromium
def test_the_bars_of_the_labels_follow_the_keyboard(tmp_path: Path) -> None:
    own = predictor("mean")
    script = (
        LIVE
        % """type("six five");
      while (waiting.length) waiting.shift()();
      return [...document.querySelector("#prediction .bars").querySelectorAll("tbody tr")].map(
        (row) => [row.querySelector("th").textContent, row.querySelector(".value").textContent]);"""
    )
    found = dict(shown(page(own.inspect("one two three")), script, tmp_path))
    scores = own.classify("six five").scores
    assert found == {label: f"{100 * p:.1f}%" for label, p in scores.items()}
