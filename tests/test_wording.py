"""What is shown of a text ends where a word does."""

import pytest

from glassformer.wording import an, beginning, cause, joined, percent, score_name, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a fine film", "a fine film"),
        ("a fine\n film!", "a fine"),
        ("a fine films", "a fine"),
        ("a finefilm xy", "a finefilm"),
        ("unbelievable", "unbelievabl"),
        ("", ""),
    ],
)
def test_the_beginning_is_whole_words(text: str, shown: str) -> None:
    assert beginning(text, 11) == shown
    is_whole = " ".join(text.split()) == shown
    assert shortened(text, 11) == (shown if is_whole else f"{shown} …")


def test_a_cause_is_a_phrase_without_numbers_and_paths() -> None:
    assert cause(FileNotFoundError(2, "No such file or directory", "a.txt")) == (
        "No such file or directory"
    )
    assert cause(OSError("header too small.\nmore")) == "header too small"
    assert cause(ValueError()) == "ValueError"


def test_what_is_almost_sure_does_not_read_as_certain() -> None:
    shares = (0.123, 0.998, 0.9996, 0.99997, 0.999999, 1 - 1e-9, 1.0)
    assert [*map(percent, shares)] == [
        *("12.3%", "99.8%", "99.96%", "99.997%", ">99.999%", "100.0%", "100.0%"),
    ]
    assert (percent(0.97, 0), percent(0.998, 0)) == ("97%", "99.8%")


def test_a_score_has_one_spelling_for_people() -> None:
    assert score_name("val_macro_f1") == score_name("macro_f1") == "macro F1"
    assert score_name("expected_calibration_error") == "calibration error"


@pytest.mark.parametrize(
    "expected",
    ["a gpt", "an image-gpt", "an rnn-lm", "a bert", "a unigram", "an LSTM", "a BertModel"],
)
def test_the_article_is_the_spoken_one(expected: str) -> None:
    assert an(expected.split()[1]) == expected


def test_words_are_joined_as_in_a_sentence() -> None:
    assert joined(["a"]) == "a"
    assert joined(("a", "b")) == "a and b"
    assert joined(iter("abc"), "or") == "a, b or c"
