"""The page shows the attributions of Python, and a word in several sentences."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_models import needs_chromium
from test_story_page import LIVE, masked_predictor, predictor, shown

from glassformer.errors import UsageError
from glassformer.inspect.attribution import METHODS, attributions
from glassformer.inspect.story import page, story_data
from glassformer.inspect.views import draw
from glassformer.tasks.language.predictor import LanguagePredictor

TEXT = "a bad day, said the cat."


def test_a_short_text_has_every_prediction_explained() -> None:
    seen = predictor(TEXT).inspect("a bad day")
    found = story_data(seen)["attribution"]
    assert list(found["explained"]) == [str(number) for number in range(9)]
    assert [name for name, _ in found["methods"]] == list(METHODS)
    for each in found["explained"].values():
        total = sum(each["values"]["integrated_gradients"])
        difference = each["logprob"] - each["baseline_logprob"]
        assert total - difference == pytest.approx(each["error"], abs=1e-9)
        assert abs(each["error"]) < 0.01 * max(1, abs(difference))


def test_the_page_has_the_numbers_of_the_view() -> None:
    model = predictor(TEXT)
    seen = model.inspect("a bad day")
    explained = story_data(seen)["attribution"]["explained"]
    view = model.attribution("a bad day")
    shown = explained[str(view.attribution.prediction)]
    assert shown["num_steps"] == view.attribution.num_steps
    for name, values in view.attribution.methods.items():
        assert shown["values"][name] == values.tolist()
    for number, each in explained.items():
        (alone,) = attributions(seen, [int(number)])
        assert each["values"]["integrated_gradients"] == alone.integrated_gradients.tolist()


def test_a_single_token_is_explained_in_a_few_words() -> None:
    view = predictor(TEXT).attribution("a")
    text = view.text()
    assert "none" not in text
    assert text.endswith("three are needed to order them.")
    assert view.attribution.attention == pytest.approx([1.0])
    assert view.attribution.integrated_gradients.sum() == pytest.approx(
        view.attribution.left_out[0], abs=0.01
    )
    assert {each["correlation"] for each in view.as_json()["rank_correlations"]} == {None}


def test_a_long_text_has_only_the_focus_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = predictor(TEXT).inspect("a bad day")
    work = 30 * 9 * sum(each.numel() for each in seen.subject.module.parameters())  # type: ignore[union-attr]
    monkeypatch.setattr("glassformer.inspect.story_data.MOST_WORK", 2 * work)
    assert list(story_data(seen)["attribution"]["explained"]) == ["8"]
    monkeypatch.setattr("glassformer.inspect.story_data.MOST_WORK", work / 2)
    assert story_data(seen)["attribution"] == {"explained": None, "is_too_long": True}


@needs_chromium
def test_choosing_a_token_explains_the_prediction_made_there(tmp_path: Path) -> None:
    seen = predictor(TEXT).inspect("a bad day")
    script = """[3, 8].map((token) => {
      const amounts = (row) => [...row.querySelectorAll(".amount")].map((one) => one.textContent);
      choose({ token });
      const rows = [...document.querySelectorAll(".opinions tbody tr")];
      return {
        said: document.querySelector("#attribution .said").textContent,
        tokens: rows.map((row) => row.querySelector("th").textContent),
        values: rows.map(amounts),
        honest: document.querySelector("#attribution .honest").textContent.length > 100,
        cells: document.querySelectorAll(".agreement td.plus, .agreement td.minus").length,
      };
    })"""
    found = shown(page(seen), script, tmp_path)
    for token, each in zip((3, 8), found, strict=True):
        (expected,) = attributions(seen, [token])
        assert f"“\u2068{expected.token.strip() or '␣'}\u2069”" in each["said"]
        assert len(each["tokens"]) == token + 1
        columns = np.array(each["values"], float).T
        for column, values in zip(columns, expected.methods.values(), strict=True):
            assert np.abs(column - values[: token + 1]).max() < 6e-3
        assert each["honest"]
        assert each["cells"] == 10


@needs_chromium
def test_a_typed_text_says_where_its_gradients_are(tmp_path: Path) -> None:
    seen = predictor(TEXT).inspect("a bad day")
    script = (
        LIVE
        % """type("said the cat");
      while (waiting.length) waiting.shift()();
      return [document.querySelector("#attribution .opinions"),
        document.querySelector("#attribution").textContent];"""
    )
    table, said = shown(page(seen), script, tmp_path)
    assert table is None
    assert "Gradients need Python" in said


@needs_chromium
def test_the_page_of_a_comparison_draws_each_use_of_the_word(tmp_path: Path) -> None:
    seen = masked_predictor().inspect("one two three", compare=["four two", "two five"])
    script = """[[...document.querySelectorAll(".use-names li")].map((each) => each.textContent),
      document.querySelectorAll(".use").length,
      [...document.querySelectorAll(".cosines tbody tr")].map((each) => each.textContent)]"""
    names, groups, rows = shown(page(seen), script, tmp_path)
    assert [each.strip() for each in names] == ["one [two] three", "four [two]", "[two] five"]
    assert groups == 3
    assert seen.contexts is not None
    cosine = seen.contexts.cosine
    assert rows[1] == "1 and 3" + "".join(f"{layer[0, 2]:.2f}" for layer in cosine)


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
def test_one_word_in_several_sentences_is_drawn_in_every_format(
    ending: str, tmp_path: Path
) -> None:
    view = masked_predictor().contexts("one two three", ["four two"])
    path = tmp_path / f"word.{ending}"
    draw(view, path)
    content = path.read_bytes()
    draw(view, path)
    assert path.read_bytes() == content
    if ending == "svg":
        assert b"one [two] three" in content
    if ending == "json":
        assert json.loads(content)["word"] == "two"
    if ending == "html":
        assert b'"word": "two"' in content


def test_pictures_with_too_much_in_them_are_refused(tmp_path: Path) -> None:
    many = masked_predictor().contexts("two two two two two", ["two two two two"])
    with pytest.raises(UsageError, match='"two" stands in 9 places, and a picture shows at most 8'):
        draw(many, tmp_path / "word.png")
    long: LanguagePredictor = predictor("ab", context_length=128)
    view = long.attribution("ab" * 40)
    with pytest.raises(UsageError, match="the bars of 80 tokens do not fit into a picture"):
        draw(view, tmp_path / "bars.png")


def test_the_view_prints_its_numbers() -> None:
    torch.manual_seed(0)
    view: Any = predictor(TEXT).attribution("a bad day")
    lines = view.text().splitlines()
    assert lines[1].split("  ")[0] == "token"
    assert "The integrated gradients sum to" in view.text()
    found = view.as_json()
    assert set(found["attribution"]) == set(METHODS)
    assert len(found["rank_correlations"]) == 10
    assert np.shape(found["attention_gradient_of_heads"]["text"]) == (2, 4, 9)
    total = sum(found["attribution"]["integrated_gradients"])
    gap = found["logprob"] - found["baseline_logprob"]
    assert found["completeness_error"] == pytest.approx(total - gap)
