"""Tokens are hidden in the right number, behind the right tokens, and by whole words on request."""

import numpy as np
import pytest

from glassformer.preprocessing.masking import MaskedTextPreprocessing, Masking
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS, MASK, Tokenizer

WORDS = ("quick", "brown", "jumping", "lazily", "running", "over", "unbelievable", "mountains")


def masking(tokenizer: Tokenizer, share: float, whole_words: bool = False) -> Masking:
    settings = {"mlm_probability": share, "whole_word_masking": whole_words}
    return Masking(MaskedTextPreprocessing(tokenizer=tokenizer, **settings), limit=32)


def pieces() -> Tokenizer:
    """Words in several pieces each."""
    return train_tokenizer("wordpiece", [" ".join(WORDS)] * 2, 90, BERT_TOKENS)


def text_windows(tokenizer: Tokenizer, count: int, length: int = 128) -> np.ndarray:
    random = np.random.default_rng(0)
    ids = tokenizer.encode(" ".join(random.choice(WORDS, size=count * length)))
    return np.array(ids[: count * length], dtype=np.int64).reshape(count, length)


def test_of_15_per_cent_80_are_hidden_10_replaced_and_10_left():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 800)
    shown, is_asked = masking(tokenizer, 0.15).hide(windows, np.random.default_rng(1))
    asked = is_asked.sum()
    assert is_asked.mean() == pytest.approx(0.15, abs=0.005)  # 4.5 deviations of 102,400 tokens
    is_hidden = shown == tokenizer.special_tokens[MASK]
    assert is_hidden.sum() / asked == pytest.approx(0.8, abs=0.015)
    is_other = (shown != windows) & ~is_hidden
    # Of the tenth that is replaced, one in as many tokens as there are is replaced by itself.
    assert is_other.sum() / asked == pytest.approx(0.1, abs=0.012)
    assert (is_asked & (shown == windows)).sum() / asked == pytest.approx(0.1, abs=0.012)
    assert not (is_hidden | is_other)[~is_asked].any()


def test_a_token_is_replaced_by_any_text_but_never_by_a_special_token():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 800)
    shown, is_asked = masking(tokenizer, 0.5).hide(windows, np.random.default_rng(1))
    special = tokenizer.special_tokens
    found = set(shown[is_asked & (shown != special[MASK])].tolist())
    assert found == set(range(tokenizer.vocab_size)) - set(special.values())


def test_special_tokens_are_never_asked_for():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 50)
    special = np.array(list(tokenizer.special_tokens.values()))
    is_special = np.random.default_rng(2).random(windows.shape) < 0.3
    windows[is_special] = special[np.arange(is_special.sum()) % len(special)]
    shown, is_asked = masking(tokenizer, 0.9).hide(windows, np.random.default_rng(1))
    assert is_asked.sum() > 1000
    assert not is_asked[is_special].any()
    assert np.array_equal(shown[is_special], windows[is_special])


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_with_whole_words_all_pieces_of_a_word_are_asked_for_or_none(kind: str):
    size = {"wordpiece": 90, "bpe": 290}[kind]
    tokenizer = train_tokenizer(kind, [" ".join(WORDS)] * 2, size, BERT_TOKENS)
    windows = text_windows(tokenizer, 200)
    _, is_asked = masking(tokenizer, 0.15, whole_words=True).hide(windows, np.random.default_rng(1))
    several = 0
    for ids, asked in zip(windows.tolist(), is_asked.tolist(), strict=True):
        words: list[list[bool]] = []
        for id, question in zip(ids, asked, strict=True):
            token = tokenizer.token(id)
            begins = not token.startswith("##") if kind == "wordpiece" else token.startswith(" ")
            if begins or not words:
                words.append([])
            words[-1].append(question)
        assert all(len(set(word)) == 1 for word in words)
        several += sum(len(word) > 1 and word[0] for word in words)
    assert several > 100
    assert is_asked.mean() == pytest.approx(0.15, abs=0.015)


def test_without_whole_words_single_pieces_are_asked_for():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 100)
    _, is_asked = masking(tokenizer, 0.15).hide(windows, np.random.default_rng(1))
    goes_on = np.array([[tokenizer.token(id).startswith("##") for id in row] for row in windows])
    assert (goes_on[:, 1:] & (is_asked[:, 1:] != is_asked[:, :-1])).sum() > 100


def test_a_batch_always_asks_something():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 1, 4)
    for seed in range(50):
        _, is_asked = masking(tokenizer, 0.01).hide(windows, np.random.default_rng(seed))
        assert is_asked.any()
