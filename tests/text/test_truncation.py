"""What stands around a text, and which part of a long one is read."""

import pytest

from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS, encode_texts
from glassformer.text.truncation import Frame

TEXT = ["a fine film and a poor film " * 20]


def framed(special: tuple[str, ...], limit: int | None, is_causal: bool) -> tuple[Frame, dict]:
    tokenizer = train_tokenizer("word", TEXT, 60, special)
    return Frame.of(tokenizer, limit, is_causal), tokenizer.special_tokens


def test_bert_begins_with_cls_and_ends_with_sep():
    frame, special = framed(BERT_TOKENS, None, is_causal=False)
    assert frame.put([3, 4]) == [special["[CLS]"], 3, 4, special["[SEP]"]]


def test_a_gpt_has_read_the_text_when_it_comes_to_the_end():
    frame, special = framed((), None, is_causal=True)
    assert frame.put([3, 4]) == [3, 4, special["<|endoftext|>"]]


def test_nothing_stands_around_a_text_that_others_read():
    frame, _ = framed((), None, is_causal=False)
    assert frame.put([3, 4]) == [3, 4]


def test_of_a_long_text_the_first_quarter_and_the_last_three_are_read():
    frame, special = framed(BERT_TOKENS, 10, is_causal=False)
    assert frame.room == 8
    ids = list(range(30))
    assert frame.put(ids) == [special["[CLS]"], 0, 1, 24, 25, 26, 27, 28, 29, special["[SEP]"]]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("special", [(), BERT_TOKENS])
@pytest.mark.parametrize("limit", [3, 4, 5, 16])
def test_no_text_is_longer_than_the_limit_and_all_room_is_used(
    special: tuple[str, ...], is_causal: bool, limit: int
):
    frame, _ = framed(special, limit, is_causal)
    for length in range(40):
        ids = list(range(length))
        found = frame.put(ids)
        around = len(frame.before) + len(frame.after)
        assert len(found) == max(1, min(limit, length + around))
        assert frame.is_too_long(ids) == (length + around > limit)
        if not frame.is_too_long(ids) and length:
            assert found[len(frame.before) : len(frame.before) + length] == ids


def test_without_a_limit_nothing_is_too_long():
    frame, _ = framed((), None, is_causal=True)
    assert frame.room is None
    assert not frame.is_too_long(range(10_000))
    assert len(frame.put(range(10_000))) == 10_001


def test_of_an_empty_text_there_is_something_to_read():
    assert framed((), 8, is_causal=False)[0].put([]) == [0]
    assert len(framed((), 8, is_causal=True)[0].put([])) == 1
    assert len(framed(BERT_TOKENS, 8, is_causal=False)[0].put([])) == 2


def test_a_character_that_no_token_spells_is_passed_over():
    known = train_tokenizer("char", ["abc abc"])
    assert encode_texts(known, ["abça", "ç"]) == [known.encode("aba"), []]
