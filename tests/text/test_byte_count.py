"""Bits per byte charge what a tokenizer does not know, and name what it does not keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from glassformer.tasks.language.scores import LanguageResult
from glassformer.text.tokenizer_training import TokenizerConfig, train_tokenizer
from glassformer.text.tokenizers import CHARACTERS, Tokenizer
from glassformer.text.words import ByteCount, count_bytes, notes_on_bytes

TEXT = "the cat sees the dog. the dog sees the cat.\n" * 3
WORDS = train_tokenizer("word", [TEXT])
PIECES = train_tokenizer("wordpiece", [TEXT])
LOWER = train_tokenizer(TokenizerConfig(kind="word", lowercase=True), [TEXT])


def without_end() -> Tokenizer:
    backend = Backend(models.WordLevel({"a": 0, "é": 1}))
    backend.pre_tokenizer, backend.decoder = CHARACTERS, decoders.Fuse()
    return Tokenizer(backend)


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["word", "wordpiece"])
def test_unknown_words_cost_their_bytes_and_an_end_each(tokenizer: Tokenizer) -> None:
    text = "the zèbre sees  the yak.\n"
    assert list(tokenizer.unknown_words(text)) == ["zèbre", "yak"]
    assert count_bytes([text], tokenizer) == ByteCount(len(text.encode()), 6 + 1 + 3 + 1)


def test_case_that_is_folded_does_not_make_a_word_unknown() -> None:
    assert list(LOWER.unknown_words("The CAT Yaks")) == ["Yaks"]
    assert list(WORDS.unknown_words("The cat")) == ["The"]


@given(st.lists(st.sampled_from(["the", "cat", "zèbre", "x", " ", "\n", ".", "Ω", "\t"])))
def test_unknown_words_are_as_many_as_unknown_tokens(parts: list[str]) -> None:
    text = "".join(parts)
    for tokenizer in (WORDS, PIECES, LOWER):
        unknown = list(tokenizer.unknown_words(text))
        assert len(unknown) == tokenizer.encode(text).count(tokenizer.unknown)
        size = count_bytes([text], tokenizer)
        assert size.unknown == sum(len(word.encode()) + 1 for word in unknown)


def test_a_long_text_is_counted_in_pieces_as_at_once() -> None:
    text = "the yak sees the cat. " * 5000
    assert count_bytes([text], WORDS) == ByteCount(len(text), 4 * 5000)


@pytest.mark.parametrize("kind", ["char", "bpe", "unigram"])
def test_tokenizers_that_keep_everything_have_nothing_to_charge(kind: str) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind), [TEXT])  # type: ignore[arg-type]
    size = count_bytes([TEXT], tokenizer)
    assert size == ByteCount(len(TEXT))
    assert notes_on_bytes(tokenizer, size) == ()


def test_without_an_end_of_text_the_first_token_is_not_predicted() -> None:
    assert count_bytes(["éa", "aé"], without_end()) == ByteCount(4)
    assert count_bytes(["", "aé"], without_end()) == ByteCount(2)


def test_what_cannot_be_charged_is_named() -> None:
    (note,) = notes_on_bytes(WORDS, ByteCount(10))
    assert note.startswith(
        "bits per byte do not include spacing, which the tokenizer does not keep"
    )
    (note,) = notes_on_bytes(LOWER, ByteCount(10))
    assert "spacing and upper case" in note
    unknown, _ = notes_on_bytes(WORDS, ByteCount(25, 11))
    assert "8 bits per byte (11 bytes including word ends; the text has 25)" in unknown


def test_a_model_that_writes_only_unknown_words_is_worse_than_bytes() -> None:
    """It predicts <|unk|> with certainty, but the words still have to be written out."""
    text = "zebra yak gnu"
    size = count_bytes([text], WORDS)
    assert LanguageResult(0.0, 3, size).bits_per_byte > 8
