"""Which tokens spell which word, and how a sentence is cut into pieces that fit."""

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.truncation import Frame
from glassformer.text.words import encode_words, spelled, windows

SENTENCE = ("Ada", "Lovelace", "lives", "in", "London", ",", "not", "far", "from", "here", ".")
TEXT = "Ada Lovelace lives in London , not far from here . Love and lace are in here . "
SIZES = {"word": 60, "wordpiece": 90, "bpe": 300, "unigram": 300, "char": None}


@cache
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(kind, [TEXT * 6], SIZES[kind])


@pytest.mark.parametrize("kind", SIZES)
def test_every_word_has_tokens_of_its_own(kind: str):
    found = encode_words(tokenizer(kind), SENTENCE)
    assert len(found) == len(SENTENCE)
    assert all(found)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_joined_tokens_are_the_sentence_as_it_is_written(kind: str):
    joined = [id for ids in encode_words(tokenizer(kind), SENTENCE) for id in ids]
    assert tokenizer(kind).decode(joined).strip() == " ".join(SENTENCE)


def test_joined_tokens_of_bpe_are_those_of_the_whole_sentence():
    joined = [id for ids in encode_words(tokenizer("bpe"), SENTENCE) for id in ids]
    assert joined == tokenizer("bpe").encode(" " + " ".join(SENTENCE))


def test_words_are_cut_into_pieces_as_in_the_sentence():
    known = tokenizer("wordpiece")
    found = encode_words(known, SENTENCE)
    assert [id for ids in found for id in ids] == known.encode(" ".join(SENTENCE))
    for word, ids in zip(SENTENCE, found, strict=True):
        tokens = [known.token(id) for id in ids]
        assert "".join(token.removeprefix("##") for token in tokens) == word
        assert [token.startswith("##") for token in tokens] == [False] + [True] * (len(ids) - 1)


def test_characters_are_those_of_the_word_and_the_blank_before_it():
    known = tokenizer("char")
    found = encode_words(known, SENTENCE)
    assert ["".join(map(known.token, ids)) for ids in found] == [f" {word}" for word in SENTENCE]


def test_a_model_that_reads_from_left_to_right_speaks_at_the_end_of_a_word():
    known = tokenizer("char")
    ((ids, speaks),) = spelled(known, ["no", "A"], Frame((), (), None, is_causal=True))
    assert [known.token(id) for id, is_asked in zip(ids, speaks, strict=True) if is_asked] == [
        "o",
        "A",
    ]
    ((ids, speaks),) = spelled(known, ["no", "A"], Frame((), (), None))
    assert speaks == [True, False, False, True, False]


def test_a_word_of_words_is_one_token_and_an_unknown_one_too():
    known = tokenizer("word")
    assert [len(ids) for ids in encode_words(known, SENTENCE)] == [1] * len(SENTENCE)
    assert encode_words(known, ["Ada", "Byron"])[1] == [known.unknown]


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
def test_a_word_without_a_token_still_has_one(kind: str):
    assert encode_words(tokenizer(kind), ["Ada", "\u3000"])[1] == [tokenizer(kind).unknown]


# --- pieces that fit ---


def test_a_sentence_that_fits_is_one_piece():
    assert windows([1, 2, 3], 6) == [(0, 3)]
    assert windows([1, 2, 3], None) == [(0, 3)]


def test_a_longer_one_is_cut_between_words():
    assert windows([1, 2, 3, 1, 4], 5) == [(0, 2), (2, 4), (4, 5)]


def test_a_word_longer_than_the_room_is_a_piece_of_its_own():
    assert windows([1, 9, 1, 1], 4) == [(0, 1), (1, 2), (2, 4)]
    assert windows([9, 1], 4) == [(0, 1), (1, 2)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 12))
def test_the_pieces_hold_every_word_once_and_fit(lengths: list[int], room: int):
    pieces = windows(lengths, room)
    covered = [place for first, last in pieces for place in range(first, last)]
    assert covered == list(range(len(lengths)))
    for first, last in pieces:
        assert sum(lengths[first:last]) <= room or last == first + 1
    for (first, last), _ in pairwise(pieces):
        assert sum(lengths[first : last + 1]) > room  # the next word would not have fitted
