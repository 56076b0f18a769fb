"""CIDEr-D: by hand, by its properties, and by the values of the authors' own program."""

import math

import pytest

from glassformer.tasks.caption.scores import CiderD, words_of

DOG = ["a brown dog runs on the grass", "a dog is running across a green field"]
CAT = ["a cat sleeps on a red sofa", "the sleeping cat lies on the couch"]
MAN = ["a man rides a bike down the street", "a man on a bicycle", "someone is cycling in town"]


def split(references: list[list[str]]) -> list[list[list[str]]]:
    return [[text.split() for text in each] for each in references]


def test_two_words_by_hand() -> None:
    """Two images; "a" is in both and weighs nothing, "dog" and "a dog" are in one of them."""
    references = split([["a dog"], ["a cat"]])
    rare = math.log(2)
    # n = 1: the vectors are (dog: log 2) and (dog: 2 log 2) clipped to log 2; n = 2: only "a dog"
    # is shared of "a dog", "dog dog"; n = 3: the reference has no n-gram, so there is no match.
    unigrams = (rare * rare) / (2 * rare * rare)
    bigrams = (rare * rare) / (math.sqrt(2) * rare * rare)
    length = math.exp(-1 / 72)  # one word too long, σ = 6
    expected = 10 * length * (unigrams + bigrams) / 4
    found = CiderD(references).scores([["a", "dog", "dog"], ["a", "dog"]])
    assert found[0] == pytest.approx(expected, rel=1e-12)
    assert found[1] == 0  # a dog where there is a cat


def test_the_values_of_the_authors_program() -> None:
    """By pycocoevalcap 1.2, CiderScorer(n=4, sigma=6.0), on the same words."""
    captions = ["a dog runs on the grass", "a cat on the couch", "a man rides a bike"]
    found = CiderD(split([DOG, CAT, MAN])).scores([text.split() for text in captions])
    assert found == pytest.approx(AUTHORS, rel=1e-9)


AUTHORS = [3.966081598781139, 2.1888493199035333, 2.6861905299400277]


def test_a_caption_that_is_the_only_reference_scores_ten() -> None:
    references = split([DOG[:1], CAT[:1]])
    assert CiderD(references).scores([DOG[0].split(), CAT[0].split()]) == pytest.approx([10, 10])


def test_repeating_a_word_does_not_help() -> None:
    scorer = CiderD(split([DOG, CAT, MAN]))

    def score(text: str) -> float:
        return scorer.scores([text.split(), [], []])[0]

    assert score("dog dog dog dog dog") < score("dog")


def test_an_empty_caption_and_a_single_image_score_nothing() -> None:
    assert CiderD(split([DOG, CAT])).scores([[], []]) == [0, 0]
    assert CiderD(split([DOG])).scores([DOG[0].split()]) == [0]  # every n-gram is in all images


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert words_of("A man's T-shirt, red .") == ["a", "man's", "t-shirt", "red"]
    assert words_of("一只狗。", by_character=True) == ["一", "只", "狗"]
