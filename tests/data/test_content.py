"""Texts are the same if only case, blanks or the spelling of characters differ."""

from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import split as content
from glassformer.data.pair_files import one_line
from glassformer.data.split import content_key, long_content_key, normalised
from glassformer.text.tokenizers import pieces_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A  Fine\tfilm.\n", "a fine film."),
        ("STRASSE", "straße"),
        ("ﬁlm", "film"),
        ("e\u0301t\u00e9", "\u00e9te\u0301"),
        ("１２", "12"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("Μαΐου", "Μαΐου".upper()),
    ],
)
def test_texts_that_are_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert content_key(one, seed=3) == content_key(other, seed=3)


def test_case_does_not_count_for_any_character() -> None:
    small = [each for each in map(chr, range(0x110000)) if each.upper() != each]
    differ = [each for each in small if normalised(each) != normalised(each.upper())]
    assert differ == ["ı"]  # the dotless i of Turkish, whose capital is I


@pytest.mark.parametrize(("one", "other"), [("fine film", "finefilm"), ("a.", "a"), ("é", "e")])
def test_texts_that_are_not(one: str, other: str) -> None:
    assert content_key(one) != content_key(other)


def test_parts_do_not_run_together_and_another_seed_gives_another_key() -> None:
    assert content_key("a b", "c") != content_key("a", "b c")
    assert content_key("a", seed=1) != content_key("a", seed=2)
    assert content_key("\ud800") != content_key("\ud801")


@settings(max_examples=300)
@given(
    st.lists(st.text(st.sampled_from(" \n\t\u00a0\x1caBß¨éﬁ。"), max_size=12), max_size=8),
    st.integers(1, 20),
)
def test_a_text_in_parts_has_the_key_of_the_whole(parts: list[str], size: int) -> None:
    def pieces(texts: list[str]) -> object:
        return pieces_of(texts, size, 2 * size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "pieces_of", pieces)
        assert long_content_key(parts, seed=3) == content_key("".join(parts), seed=3)


@given(st.text(alphabet=" \t\n\u00a0\u3000\x1c\0aÄßﬁΐẞT\u0308漢\u200b\ud800", max_size=12))
def test_the_quick_way_is_the_same_as_the_plain_one(text: str) -> None:
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    assert normalised(text) == " ".join(folded.split())
    assert one_line(text) == " ".join(text.split())
    assert long_content_key((text,), seed=3) == long_content_key([text], seed=3)
