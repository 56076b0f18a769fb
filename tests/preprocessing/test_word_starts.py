"""Which tokens begin a word, for each kind of tokenizer."""

import pytest

from glassformer.preprocessing import begins_word
from glassformer.tasks.alignment import word_starts
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer

TEXT = ["the best of times, the worst of times, timely"] * 3
KINDS = ["char", "word", "wordpiece", "bpe", "unigram"]


def trained(kind: str) -> Tokenizer:
    sizes = {"wordpiece": 40, "bpe": 300, "unigram": 300}
    return train_tokenizer(kind, TEXT, sizes.get(kind))  # type: ignore[arg-type]


def answers(kind: str) -> dict[str, bool | None]:
    tokenizer = trained(kind)
    ids = range(tokenizer.vocab_size)
    return {tokenizer.token(id): begins_word(tokenizer, id) for id in ids}


@pytest.mark.parametrize("kind", ["char", "word"])
def test_tokens_that_stand_on_their_own_begin_a_word(kind: str) -> None:
    assert set(answers(kind).values()) == {True}


def test_the_hashes_of_wordpiece_continue_a_word() -> None:
    found = answers("wordpiece")
    assert set(found.values()) == {True, False}
    assert all(is_start is not token.startswith("##") for token, is_start in found.items())
    assert found[","] is True


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_blank_before_a_word_begins_it_and_a_comma_may_do_either(kind: str) -> None:
    found = answers(kind)
    assert found[" "] is True  # before a letter that no longer token contains
    assert any(token.strip() and is_start for token, is_start in found.items())
    assert all(is_start is True for token, is_start in found.items() if token[0] == " ")
    assert (found["e"], found[","], found["\n"]) == (False, None, None)
    assert found["<|endoftext|>"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_a_sentence_begin_after_its_blanks_and_its_end_is_a_word(kind: str) -> None:
    tokenizer = trained(kind)
    ids = [*tokenizer.encode("the worst times"), tokenizer.end_of_text]
    starts = word_starts(tokenizer, ids)[1:]  # the first token always begins a word
    assert (sum(starts), starts[-1]) == (3, True)
    assert word_starts(tokenizer, []) == []
