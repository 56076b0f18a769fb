"""The equations at the heads of the chapters are those of the model that is shown, and sums that
are written out have its own digits."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from picture_models import SHAPE, picture, shaken
from test_inspecting_vectors import encoder
from test_story_page import needs_chromium, predictor, shown, story, unpacked
from translators import translator

from glassformer.inspect.inspection import Inspection
from glassformer.inspect.story import page, story_data
from glassformer.inspect.story_data import MOST_EXACT, packed
from glassformer.models.image_gpt import ImageGPT, ImageGPTConfig
from glassformer.preprocessing.images import PalettePreprocessing
from glassformer.tasks.paint.predictor import PaintPredictor

EQUATION = 'document.querySelector("#{} .equation").textContent'


def equation(seen: Inspection, chapter: str, folder: Path) -> str:
    found: str = shown(page(seen), EQUATION.format(chapter), folder)
    return re.sub(r"\s+", " ", found)


@needs_chromium
@pytest.mark.parametrize(
    ("kind", "score"),
    [
        ("additive", "v · tanh(W query + U key of the source)"),
        ("general", "query · W key of the source"),
    ],
)
def test_a_recurrent_translator_has_its_own_score(kind: str, score: str, tmp_path: Path) -> None:
    seen = translator("rnn", attention=kind).inspect("one two")
    assert equation(seen, "alignment", tmp_path) == f"weights = softmax({score})"


@needs_chromium
def test_a_transformer_has_scaled_products(tmp_path: Path) -> None:
    found = equation(translator().inspect("one two"), "alignment", tmp_path)
    assert found == "weights = softmax(query · key of the source / √d)"


@needs_chromium
@pytest.mark.parametrize("is_scaled", [True, False])
def test_embeddings_are_scaled_where_the_model_does(is_scaled: bool, tmp_path: Path) -> None:
    seen = translator(scale_embedding=is_scaled).inspect("one two")
    scaled = "√d · " if is_scaled else ""
    assert equation(seen, "embeddings", tmp_path) == f"x = {scaled}E[token] + P[position]"


def entry(seen: Inspection) -> dict[str, Any]:
    found: dict[str, Any] = story_data(seen)["embeddings"]["entry"]
    return found


@needs_chromium
def test_an_encoder_with_segments_normalizes_the_sum(tmp_path: Path) -> None:
    seen = encoder(num_segments=2, embedding_norm=True, positions="learned").inspect("one two")
    found = equation(seen, "embeddings", tmp_path)
    assert found == "x = norm(E[token] + P[position] + S[segment])"
    plain = encoder(num_segments=0, embedding_norm=False).inspect("one two")
    for seen in (plain, story()):  # the second is a gpt
        assert {name for name, is_so in entry(seen).items() if is_so} == {"adds_positions"}
    assert entry(story(d_embedding=8, tie_weights=False))["is_widened"]


@needs_chromium
def test_norms_stand_where_the_block_has_them(tmp_path: Path) -> None:
    before = "x ← x + attention(norm(x)); x ← x + feed-forward(norm(x))"
    assert equation(story(pre_norm=True), "layers", tmp_path) == before
    after = "x ← norm(x + attention(x)); x ← norm(x + feed-forward(x))"
    assert equation(story(pre_norm=False), "layers", tmp_path) == after


def test_small_arrays_are_carried_exactly_and_large_ones_in_half_the_bytes() -> None:
    seen = story()
    layers = story_data(seen)["streams"][0]["layers"]
    assert np.array_equal(unpacked(layers[1]["query"]), seen.capture(seen.stream).queries[1])
    assert packed(np.zeros(MOST_EXACT + 1, np.float32))["dtype"] == "float16"
    assert packed(np.full(MOST_EXACT + 1, 1e6, np.float32))["dtype"] == "float32"


@needs_chromium
def test_the_weight_that_is_written_out_has_the_digits_of_the_model(tmp_path: Path) -> None:
    seen = story("a bad day, said")
    script = 'document.querySelector("#computation").textContent'
    text = shown(page(seen), script, tmp_path)
    weight = float(seen.attention[0, 0, -1].max())
    assert f"{100 * weight:.2f}%" in text


@needs_chromium
def test_small_probabilities_are_not_written_as_nothing(tmp_path: Path) -> None:
    script = "[percent(0), percent(0.0002), percent(0.0006), percent(1), percent(0.004, 0)]"
    found = shown(page(story()), script, tmp_path)
    assert found == ["0.0%", "<0.1%", "0.1%", "100.0%", "<1%"]


@needs_chromium
def test_what_is_almost_sure_is_not_written_as_certain(tmp_path: Path) -> None:
    script = """[[0.998, 0.9996, 0.99997, 0.999999, 1 - 1e-9].map((p) => percent(p)),
      percents(0.998, 0.9979), percents(0.3, 0.7), percents(0.99996, 0.99995), percents(1, 1)]"""
    single, close, far, sure, same = shown(page(story()), script, tmp_path)
    assert single == ["99.8%", "99.96%", "99.997%", ">99.999%", "100.0%"]
    assert (close, far) == (["99.80%", "99.79%"], ["30.0%", "70.0%"])
    assert sure == ["99.996%", "99.995%"]
    assert same == ["100.0%", "100.0%"]


@needs_chromium
def test_the_winner_of_a_search_shows_its_line_breaks_and_spaces(tmp_path: Path) -> None:
    script = r'["\n of  the\nend ", " ", "one\ttwo"].map(spaced)'
    found = shown(page(story()), script, tmp_path)
    assert found == ["⏎␣of  the⏎end␣", "␣", "one⇥two"]


@needs_chromium
def test_a_search_that_differs_in_spaces_only_is_not_called_the_same(tmp_path: Path) -> None:
    script = r"""(() => {
      const found = { ...scene.beams, best: ["a", "\n"], greedy: ["a", " "] };
      const place = add(main, "div");
      drawSearch(place, scene, found);
      return place.querySelector(".said").textContent.replace(/[\u2068\u2069]/g, "");
    })()"""
    said = shown(page(story()), script, tmp_path)
    assert said.startswith("The winner is “a⏎”")
    assert "Greedy decoding writes “a␣”" in said


@needs_chromium
def test_the_address_has_no_values_that_nobody_chose(tmp_path: Path) -> None:
    script = "(() => { choose({ token: 2 }); writeAddress(); return location.hash; })()"
    assert shown(page(story()), script, tmp_path) == "#token=2"


@needs_chromium
def test_the_colour_that_is_there_is_named_if_it_is_not_among_the_likeliest(tmp_path: Path) -> None:
    palette = tuple((grey, grey, grey) for grey in range(0, 256, 16))
    known = PalettePreprocessing(image_size=(3, 4), num_channels=3, palette=palette)
    model = ImageGPT(ImageGPTConfig(**SHAPE, image_size=(3, 4), vocab_size=17))
    seen = PaintPredictor(shaken(model), known).inspect(picture(3, 4))
    script = """scene.predictions.map(({ actual }, token) => {
      choose({ token });
      const figure = document.querySelector("#prediction .bars").closest("figure");
      const marked = figure.querySelectorAll("tr.chosen").length;
      return [figure.querySelector("figcaption").textContent, marked];
    })"""
    found = shown(page(seen), script, tmp_path)
    assert {marked for _, marked in found} == {0, 1}
    for (caption, marked), prediction in zip(found, seen.predictions, strict=True):
        is_listed = any(each.token == prediction.actual for each in prediction.options)
        assert marked == is_listed
        assert ("Red: the one that is there." in caption) == is_listed
        assert is_listed or f"There is {prediction.actual}, with " in caption


@needs_chromium
def test_a_far_outlier_does_not_hide_the_other_positions(tmp_path: Path) -> None:
    model = predictor("a bad day", positions="learned")
    with torch.no_grad():
        vectors: Any = model.model.get_parameter("positions.table.weight")
        vectors.normal_(0, 0.1)
        vectors[3, 5] = 40.0
    seen = model.inspect("a bad day")
    script = (
        '[...document.querySelectorAll("#embeddings figcaption")].map((each) => each.textContent)'
    )
    captions = shown(page(seen), script, tmp_path)
    (caption,) = (each for each in captions if "A row for each" in each)
    assert float(re.findall(r"±([\d.]+)", caption)[0]) < 1
    assert "and more, up to 40." in caption


@needs_chromium
@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_rows_of_an_alignment_are_the_words_that_are_written(kind: str, tmp_path: Path) -> None:
    seen = translator(kind).inspect("one two three", target="two one")
    script = """(() => {
      choose({ token: 1 });
      const rows = document.querySelectorAll("#alignment .row-names > span");
      const said = document.querySelector("#alignment .said").cloneNode(true);
      for (const each of said.querySelectorAll("select")) each.remove();
      return [[...rows].map((each) => each.textContent), said.textContent];
    })()"""
    rows, said = shown(page(seen), script, tmp_path)
    assert rows[:2] == [each.actual.strip() for each in seen.predictions[:2] if each.actual]
    assert rows[:2] == ["two", "one"]
    assert "o write “\u2068one\u2069” after " in said
    assert seen.cross_attention is not None
    row = seen.cross_attention[0, 0, 1]
    best = seen.subject.streams[0].tokens[int(row.argmax())].strip()
    assert f"it looks at “\u2068{best}\u2069” {100 * row.max():.1f}%" in said
