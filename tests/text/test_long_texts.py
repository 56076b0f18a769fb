"""Text of any size is encoded in pieces, to the ids of the whole."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_samples import KINDS, TEXT, llama, trained

from glassformer.errors import GlassformerError
from glassformer.text import tokenizers as chunks
from glassformer.text import word_cache
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import LongText
from glassformer.text.word_cache import ids_of

SPACED = st.text(alphabet=" \n\t\r\u00a0\u2028\x1c\x85'sa1!é漢", max_size=60)


def encoded(tokenizer, *texts):
    end, *ids = itertools.chain(*ids_of((LongText(parts, "a.txt") for parts in texts), tokenizer))
    assert end == tokenizer.end_of_text
    return ids


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["word", "wordpiece", "bpe", "unigram"]), st.lists(SPACED), st.integers(1, 99)
)
def test_texts_encode_like_each_of_them_as_a_whole(kind, texts, size):
    tokenizer = trained(kind)
    whole = [id for text in texts for id in (*tokenizer.encode(text), tokenizer.end_of_text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_cache, "_CHARACTERS_AT_ONCE", size)
        assert encoded(tokenizer, *texts) == whole  # in parts of one character
        assert encoded(tokenizer, *([text] for text in texts)) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_forgotten_without_harm(kind, monkeypatch):
    monkeypatch.setattr(word_cache, "_CHARACTERS_AT_ONCE", 50)
    monkeypatch.setattr(word_cache, "_MOST", 5)
    monkeypatch.setattr(word_cache, "_LONGEST", 3)
    tokenizer = trained(kind)
    assert encoded(tokenizer, [TEXT]) == [*tokenizer.encode(TEXT), tokenizer.end_of_text]


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_no_invisible_character_makes_a_cut_unsafe(kind):
    odd = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code))[0] in "ZC"]
    odd = [character for character in odd if unicodedata.name(character, "") or character < "\xa0"]
    text = "".join(f"a{character}\n!{character} {character}b \n" for character in odd)
    assert encoded(trained(kind), [text])[:-1] == trained(kind).encode(text)


def test_ids_of_an_endless_text_come_without_waiting_for_its_end():
    endless = LongText(itertools.repeat("the end of times\n"), "pipe")
    _, ids = itertools.islice(ids_of([endless], trained("bpe")), 2)
    assert trained("bpe").decode(ids[:20]).startswith("the end of times\nthe end")


@settings(deadline=None)
@given(st.text(alphabet="a \n", max_size=20))
def test_a_tokenizer_whose_tokens_cross_spaces_is_never_cut(text):
    assert encoded(llama(), text)[:-1] == llama().encode(text)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_text_without_blanks_keeps_its_tokens_except_where_it_must_be_cut(kind):
    text = "ACGGTCATTAGC" * (chunks.LONGEST // 8)
    tokenizer = train_tokenizer(kind, ["ACGG TCAT TAGC " * 9], 300)
    ids = encoded(tokenizer, [text])[:-1]
    assert tokenizer.decode(ids) == text
    first = tokenizer.encode(text[: chunks.LONGEST])
    assert ids[: len(first)] == first


def test_characters_are_the_same_wherever_a_text_without_blanks_is_cut():
    text = "ACGGTCATTAGC" * (chunks.LONGEST // 8)
    tokenizer = train_tokenizer("char", [text])
    assert encoded(tokenizer, [text])[:-1] == tokenizer.encode(text)


def test_a_text_that_cannot_be_encoded_is_named():
    texts = [LongText(["a café"], "a.txt"), LongText(["the ą", " naïve ę"], "b.txt")]
    with pytest.raises(GlassformerError, match=r"^b\.txt: the tokenizer has no token for 'ą', 'ę'"):
        list(ids_of([*texts, *texts], trained("char")))
