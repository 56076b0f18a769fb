"""Encoding with remembered words gives the ids of encoding without."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import GlassformerError
from glassformer.text import word_cache
from glassformer.text.tokenizer_training import TokenizerConfig, train_tokenizer
from glassformer.text.tokenizers import Kind, Tokenizer
from glassformer.text.word_cache import WordCache

LEARNED = ["to be or not to be, that is the question\n", "ein Löwe, 獅子と虎 — 3.50 don't"]
SPACES = [" ", "  ", "\n", "\t", " \n ", "\r\n", "\u00a0", "\u00a0 ", "\x1c", "\u2028", "\u200b "]
WORDS = st.sampled_from(
    [
        "to",
        "be,",
        "Löwe",
        "獅子と虎",
        "don't",
        "3.50",
        "—",
        "ß",
        "，",
        "。",
        "、a",
        "ª",
        "²",
        "e\u0301",
        "🙂",
    ]
)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from(SPACES), st.text(max_size=4))).map("".join)


@pytest.fixture(scope="module", params=["bpe", "unigram", "wordpiece", "word"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    kind: Kind = request.param
    return train_tokenizer(TokenizerConfig(kind=kind, lowercase=True), LEARNED * 5, 400)


@given(texts=st.lists(TEXTS, max_size=5))
def test_the_ids_are_the_same(tokenizer: Tokenizer, texts: list[str]) -> None:
    cache = WordCache(tokenizer)
    for _ in range(2):  # the second time from memory
        assert cache.encode_batch(texts) == tokenizer.encode_batch(texts)


def test_words_are_forgotten(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "_MOST", 20)
    monkeypatch.setattr(word_cache, "_LONGEST", 4)
    cache = WordCache(tokenizer)
    for number in range(100):
        texts = [f"to be {number} or {number + 1}", " to be"]
        assert cache.encode_batch(texts) == tokenizer.encode_batch(texts)
        assert len(cache._ids) < 30


def test_a_failure_is_not_remembered() -> None:
    tokenizer = train_tokenizer("char", ["to be"])
    cache = WordCache(tokenizer)
    for _ in range(2):
        with pytest.raises(GlassformerError, match="no token for 'x'"):
            cache.encode_batch(["to be" * 99, "x"])
        assert cache.encode_batch(["to be" * 99]) == [tokenizer.encode("to be" * 99)]


@pytest.mark.parametrize("length", [10, 300_000])
def test_characters_are_never_cut_wrongly(length: int) -> None:
    tokenizer = train_tokenizer("char", ["to be"])
    text = ("to be " * length)[:length].strip()
    assert WordCache(tokenizer).encode_batch(["to", text]) == tokenizer.encode_batch(["to", text])


def test_words_of_any_length_and_with_nuls_are_told_apart() -> None:
    tokenizer = train_tokenizer("bpe", LEARNED)
    cache = WordCache(tokenizer)
    for length in [*range(1, 27), 47, 48, 49, 255, 256, 257] * 2:
        words = ["a" * length, "a" * (length - 1) + "\0", "a" * length + "\0", "a" * (length + 1)]
        texts = [" ".join(words), *words, "ä" * length]
        assert cache.encode_batch(texts) == tokenizer.encode_batch(texts)
