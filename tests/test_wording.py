"""What is shown of a text ends where a word does."""

import pytest

from glassformer.wording import beginning, shortened


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
