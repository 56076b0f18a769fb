"""Neighbours against brute force, and attention without parameters against the equation."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from glassformer.inspect.words import Lexicon, attend


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)


def test_neighbours_are_those_of_a_search_one_by_one(vectors: np.ndarray) -> None:
    is_candidate = np.arange(50) % 3 > 0
    lexicon = Lexicon(vectors, is_candidate)
    similarities = lexicon.similarities(vectors[4])
    expected = {id: 1 - cosine(vectors[4], vectors[id]) for id in range(50)}
    assert similarities.tolist() == pytest.approx([*expected.values()], abs=1e-6)
    allowed = [id for id in expected if is_candidate[id] and id != 4]
    best = sorted(allowed, key=expected.__getitem__, reverse=True)[:6]
    assert lexicon.nearest(similarities, 6, np.array([4])).tolist() == best


def test_a_word_without_a_vector_is_near_nothing(vectors: np.ndarray) -> None:
    vectors[3] = 0
    lexicon = Lexicon(vectors, np.ones(50, bool))
    assert lexicon.similarities(vectors[0])[3] == 0
    assert not lexicon.similarities(vectors[3]).any()


def test_of_equal_words_the_first_in_the_vocabulary_comes_first() -> None:
    lexicon = Lexicon(np.ones((5, 2)), np.ones(5, bool))
    assert lexicon.nearest(lexicon.similarities(np.ones(2)), 3, np.array([1])).tolist() == [0, 2, 3]


def test_attention_of_a_short_sentence_worked_out_by_hand() -> None:
    words = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = attend(words, words[2])
    assert found.dot_products.tolist() == [2.0, 1.0, 2.0]
    assert found.scale == math.sqrt(2)
    high, low = math.exp(2 / math.sqrt(2)), math.exp(1 / math.sqrt(2))
    total = 2 * high + low
    assert found.weights.tolist() == pytest.approx([high / total, low / total, high / total])
    expected = [(2 * high + high) / total, (low + high) / total]
    assert found.vector.tolist() == pytest.approx(expected)


def test_temperature_makes_weights_more_equal_and_large_scores_do_not_overflow() -> None:
    words = np.array([[1000.0, 0.0], [0.0, 1.0]])
    sharp, flat = attend(words, words[0]), attend(words, words[0], temperature=1e9)
    assert sharp.weights.tolist() == [1.0, 0.0]
    assert flat.weights.tolist() == pytest.approx([0.5, 0.5], abs=1e-3)
