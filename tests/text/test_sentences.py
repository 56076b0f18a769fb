"""Texts that are too long: where they are cut, and where not."""

import pytest

from glassformer.text.words import fitting_pieces


@pytest.mark.parametrize(
    ("blank", "sentences"),
    [
        (" ", ["It rains.", "Is it?", "Yes!", "Well then …", "One."]),
        (" ", ["I met Dr. Smith on the 3. August in the U.S. embassy.", "Then we left."]),
        (" ", ["J. R. R. Tolkien wrote (e.g. this).", "He said: “Never.”", "And she went."]),
        (" ", ["Im Jahr 2019.", "Das ist z.B. gut.", "ohne Großen Anfang."]),
        (" ", ["one two.", "three four.", "five."]),
        ("", ["今天下雨。", "你好吗？", "再见！"]),
    ],
)
def test_sentences_come_one_by_one(blank: str, sentences: list[str]) -> None:
    text = blank.join(sentences)
    assert fitting_pieces(text, lambda piece: piece != text) == sentences


def test_a_text_that_fits_is_whole() -> None:
    assert fitting_pieces("One. Two.", lambda _: True) == ["One. Two."]
    assert fitting_pieces("", lambda _: True) == []


def test_a_long_sentence_is_cut_at_commas_then_blanks_then_anywhere() -> None:
    def fits(piece: str) -> bool:
        return len(piece) <= 12

    text = "Indeed. a, b, c, d, e, f, g. one two three four abcdefghijklmnop."
    pieces = fitting_pieces(text, fits)
    assert pieces == [
        *("Indeed.", "a, b, c, d,", "e, f, g."),
        *("one two", "three four", "abcdefghijkl", "mnop."),
    ]
