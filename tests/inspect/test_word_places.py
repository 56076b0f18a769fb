"""Where the words of a caption looked: shapes, whole words, text and JSON."""

import json

import numpy as np
import pytest

from glassformer.inspect.alignment import WordPlaces


def found(words: list[str], seed: int = 0, **more: object) -> WordPlaces:
    weights = np.random.default_rng(seed).dirichlet(np.ones(6), len(words)).reshape(-1, 2, 3)
    pixels = np.zeros((4, 6, 3), np.uint8)
    values: dict[str, object] = {"image": "dog.jpg", "caption": " ".join(words), "pixels": pixels}
    return WordPlaces(**(values | {"words": words, "weights": weights} | more))  # type: ignore[arg-type]


def test_a_word_looks_where_its_tokens_look_on_average() -> None:
    tokens = found(["a", " walk", "ing", " dog"])
    heads = np.stack([[tokens.weights, tokens.weights[::-1]]])  # (1 layer, 2 heads, T, 2, 3)
    tokens = found(["a", " walk", "ing", " dog"], heads=heads)
    words = tokens.in_words([True, True, False, True])
    assert words.words == ["a", "walking", "dog"]
    np.testing.assert_allclose(words.weights[1], tokens.weights[1:3].mean(axis=0))
    np.testing.assert_allclose(words.weights.sum(axis=(1, 2)), 1)
    assert words.heads is not None
    assert words.heads.shape == (1, 2, 3, 2, 3)
    np.testing.assert_allclose(words.heads[0, 1, 1], tokens.weights[::-1][1:3].mean(axis=0))


def test_the_place_that_was_looked_at_most() -> None:
    weights = np.zeros((2, 2, 3))
    weights[0, 1, 2] = weights[1, 0, 1] = 1
    places = found(["a", "dog"], weights=weights)
    assert places.peaks() == [(1, 2), (0, 1)]
    assert "'a'    →  row 2 of 2, column 3 of 3  100.0%" in places.text()
    assert places.text().startswith("a dog\n")


def test_every_digit_is_in_the_json() -> None:
    places = found(["a", "dog"])
    written = json.loads(json.dumps(places.as_json()))
    assert written["attention"] == places.weights.tolist()
    assert (written["words"], written["grid"]) == (["a", "dog"], [2, 3])


def test_weights_that_do_not_fit_the_words_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 words need as many grids"):
        found(["a", "dog"], weights=np.full((3, 2, 3), 1 / 6))
    with pytest.raises(ValueError, match="sum to one"):
        found(["a"], weights=np.full((1, 2, 3), np.nan))


def test_a_caption_that_was_cut_off_is_noted() -> None:
    assert found(["a"]).notes == ()
    assert "cut off" in found(["a"], is_cut_off=True).notes[0]
