"""A tokenizer is learned from any text, the same each time, and as large as it may be."""

from random import Random

import pytest
from tokenizer_samples import KINDS, SIZES, TEXT, file_of

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.text import tokenizer_training
from glassformer.text.tokenizer_training import (
    LONGEST_WORD,
    TokenizerConfig,
    choose_kind,
    default_vocab_size,
    train_tokenizer,
)
from glassformer.text.tokenizers import END_OF_TEXT


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_file(kind, tmp_path):
    texts = [line + "\n" for line in TEXT.split("\n")] * 3
    first = train_tokenizer(kind, iter(texts), SIZES[kind])
    again = train_tokenizer(kind, texts, SIZES[kind])
    assert file_of(first, tmp_path / "a.json") == file_of(again, tmp_path / "b.json")


def test_a_character_vocabulary_is_the_alphabet_and_the_end():
    tokenizer = train_tokenizer("char", ["cab\n", "ba"])
    assert [tokenizer.token(id) for id in range(5)] == ["\n", "a", "b", "c", END_OF_TEXT]
    assert tokenizer.vocab_size == 5


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe", "unigram"])
def test_vocab_size_is_a_limit_that_counts_special_tokens(kind):
    texts = [" ".join(map(str, range(2000)))] * 2
    names = ["[MASK]", "[CLS]"]
    tokenizer = train_tokenizer(kind, texts, vocab_size=300, special_tokens=names)
    assert tokenizer.vocab_size <= 300
    assert kind == "unigram" or tokenizer.vocab_size == 300
    last = tokenizer.vocab_size - 3
    assert tokenizer.special_tokens == {END_OF_TEXT: last, "[MASK]": last + 1, "[CLS]": last + 2}


@pytest.mark.parametrize(("kind", "least"), [("bpe", "256"), ("unigram", "256"), ("char", "26")])
def test_a_vocab_size_too_small_names_the_least(kind, least):
    with pytest.raises(GlassformerError, match=f"needs at least {least}"):
        train_tokenizer(kind, ["abcdefghijklmnopqrstuvwxyz"], vocab_size=20)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_an_error(kind):
    with pytest.raises(GlassformerError, match="no text to learn"):
        train_tokenizer(kind, iter(["", ""]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a", " \n", "é"])
def test_the_shortest_texts_are_enough(kind, text):
    tokenizer = train_tokenizer(kind, [text])
    assert tokenizer.decode(tokenizer.encode(text)).strip(" ") == text.strip(" ")


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_while_reading_texts_reaches_the_caller(kind):
    def texts():
        yield "a line"
        raise GlassformerError("line 2 is not UTF-8")

    with pytest.raises(GlassformerError, match="line 2 is not UTF-8"):
        train_tokenizer(kind, texts())


def test_settings_name_the_kind_and_its_size():
    config = parse(TokenizerConfig, {"kind": "bpe", "vocab_size": "3e2"})
    assert train_tokenizer(config, [TEXT]).vocab_size <= 300
    with pytest.raises(GlassformerError, match="kind is 'bp'"):
        parse(TokenizerConfig, {"kind": "bp"})
    with pytest.raises(GlassformerError, match="choose the kind first"):
        train_tokenizer(TokenizerConfig(), [TEXT])


@pytest.mark.parametrize(
    ("num_bytes", "num_characters", "kind", "reason"),
    [
        (
            465_000,
            65,
            "char",
            "465 kB of text is too little to learn good subwords (BPE is used from 2 MB)",
        ),
        (1_999_999, 512, "char", "too little"),
        (2_000_000, 65, "bpe", "2 MB of text is enough"),
        (3_400_000_000, 65, "bpe", "3.4 GB"),
        (10_000, 513, "bpe", "513 distinct characters are too many"),
    ],
)
def test_the_kind_follows_the_amount_of_text(num_bytes, num_characters, kind, reason):
    chosen, why = choose_kind(num_bytes, num_characters)
    assert chosen == kind
    assert reason in why


def test_more_text_gets_a_larger_vocabulary():
    sizes = [default_vocab_size("bpe", 10**power) for power in range(13)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[7], sizes[-1]) == (512, 8192, 32768)


@pytest.mark.parametrize("text", ["ACGGT", "我是不了人在有他"])
def test_a_text_without_blanks_is_learned_in_time_that_grows_with_its_length(text):
    """As one word, such a text would take a hundred times as long."""
    shuffled = Random(0).choices(text, k=200_000)
    tokenizer = train_tokenizer("bpe", ["".join(shuffled)], 512)
    assert tokenizer.vocab_size == 512


def test_only_words_that_are_too_long_are_cut(tmp_path):
    long = "x" * LONGEST_WORD
    files = [
        file_of(train_tokenizer("bpe", texts * 3, 300), tmp_path / "a.json")
        for texts in ([f"{long}yz ab"], [long, "yz ab"])
    ]
    assert files[0] == files[1]
    texts = [f"so {long} 1 {'y' * 30} z "]
    uncut = file_of(train_tokenizer("bpe", texts * 3, 300), tmp_path / "a.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_training, "LONGEST_WORD", 10_000)
        assert file_of(train_tokenizer("bpe", texts * 3, 300), tmp_path / "a.json") == uncut
