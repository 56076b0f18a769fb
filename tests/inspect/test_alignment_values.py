"""Alignments as plain values: what they promise, and how tokens become words."""

import json

import numpy as np
import pytest

from glassformer.inspect.alignment import Alignment, word_of

WEIGHTS = [[0.5, 0.25, 0.25], [0.0, 0.75, 0.25], [0.5, 0.0, 0.5]]


def made(source: list[str], target: list[str], weights: object) -> Alignment:
    texts = {"source": "".join(source), "target": "".join(target)}
    return Alignment(**texts, source_tokens=source, target_tokens=target, weights=np.array(weights))


def test_words_are_summed_in_the_source_and_averaged_in_the_output() -> None:
    tokens = made(["Haus", " tür", "en"], ["front", " do", "ors"], WEIGHTS)
    words = tokens.in_words([True, True, False], [True, True, False])
    assert words.source_tokens == ["Haus", "türen"]
    assert words.target_tokens == ["front", "doors"]
    # front: 0.5 | 0.25 + 0.25;  doors: (0 + 0.5) / 2 | (0.75 + 0.25 + 0 + 0.5) / 2
    assert words.weights.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert (words.source, words.target) == (tokens.source, tokens.target)


def test_the_first_token_begins_a_word_whatever_is_said_of_it() -> None:
    words = made(["a", "b", "c"], ["x", "y", "z"], WEIGHTS).in_words([False] * 3, [False] * 3)
    assert (words.source_tokens, words.target_tokens) == (["abc"], ["xyz"])
    assert words.weights.tolist() == [[1.0]]


def test_rows_of_words_still_sum_to_one() -> None:
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(17), size=13)
    tokens = made(["s"] * 17, ["t"] * 13, weights)
    words = tokens.in_words(list(random.random(17) < 0.5), list(random.random(13) < 0.5))
    assert np.allclose(words.weights.sum(axis=1), 1)


def test_words_are_spelled_without_blanks_and_wordpiece_marks() -> None:
    assert word_of([" walk", "ing"]) == word_of(["walk", "##ing"]) == "walking"
    assert word_of(["##"]) == "##"
    assert word_of([" "]) == " "


def test_starts_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="2 starts of words were given for 3 tokens"):
        made(["a", "b", "c"], ["x", "y", "z"], WEIGHTS).in_words([True] * 2, [True] * 3)


def test_json_keeps_every_digit() -> None:
    third = np.float32(1) / np.float32(3)
    found = made(["a", "b"], ["x"], [[third, 1 - third]]).as_json()
    assert list(found) == [
        *("source", "translations", "source_tokens", "target_tokens", "alignment")
    ]
    assert found["alignment"][0][0] == float(third)
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    "weights",
    [[[0.5, 0.5]], [[0.5, 0.4, 0.0]], [[1.5, -0.5, 0.0]], [[float("nan"), 0.5, 0.5]]],
    ids=["shape", "sum", "negative", "not a number"],
)
def test_weights_that_share_nothing_out_are_refused(weights: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="weights"):
        made(["a", "b", "c"], ["x"], weights)


def test_text_shows_where_each_token_looked_most() -> None:
    lines = made(["Haus", " tür", "en"], ["front", " do", "ors"], WEIGHTS).text().splitlines()
    assert lines == [
        "'front'  →  'Haus'   50.0%",
        "' do'    →  ' tür'   75.0%",
        "'ors'    →  'Haus'   50.0%",
    ]


def test_text_stands_in_columns_where_signs_are_wide() -> None:
    lines = made(["今天", "b"], ["天", "xyz"], [[1, 0], [0, 1]]).text().splitlines()
    assert lines == ["'天'   →  '今天'  100.0%", "'xyz'  →  'b'     100.0%"]


def test_an_empty_output_is_an_empty_text() -> None:
    empty = made(["a", "b"], [], np.zeros((0, 2)))
    assert empty.text() == ""
    assert empty.in_words([True, False], []).weights.shape == (0, 1)
