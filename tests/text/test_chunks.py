"""A text is cut where no token reaches across, and somewhere if there is no such place."""

from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.tokenizers import pieces_of, words_of

SPACED = st.text(alphabet=" \n\t\r\u00a0\u2028\x1c\x85'sa1!é漢", max_size=60)


@given(st.lists(SPACED, max_size=5), st.integers(1, 20), st.integers(0, 20))
def test_pieces_depend_on_the_text_and_not_on_its_parts(
    parts: list[str], size: int, more: int
) -> None:
    text = "".join(parts)
    pieces = list(pieces_of(parts, size, size + more))
    assert "".join(pieces) == text
    assert pieces == list(pieces_of([text], size, size + more))
    assert pieces == list(pieces_of(text, size, size + more))
    assert all(1 <= len(piece) <= size + more for piece in pieces)


@given(SPACED)
def test_words_are_the_smallest_safe_pieces(text: str) -> None:
    assert words_of(text) == list(pieces_of([text], 1, 1000))


def test_a_text_without_blanks_is_cut_all_the_same() -> None:
    assert list(pieces_of(["ACGT" * 5], 4, 8)) == ["ACGTACGT", "ACGTACGT", "ACGT"]
    assert list(pieces_of(["ACGT ACGTACGT ACGT"], 4, 8)) == ["ACGT", " ACGTACG", "T ACGT"]


def test_a_long_text_without_blanks_takes_no_longer_for_each_part() -> None:
    pieces = pieces_of(["ACGT" * 25_000] * 100)
    assert sum(map(len, pieces)) == 10_000_000
