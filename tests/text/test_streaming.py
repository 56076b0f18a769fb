import itertools
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from glassformer.errors import GlassformerError
from glassformer.text.streaming import StopFilter, TextStream
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer

TEXT = "It's (well-known): “Café” costs $3.14!\n\nThe naïve end…\n" * 4


@cache
def trained(kind):
    """Every kind we learn, and two that others do: bytes beside text (Llama), ▁ for space (T5)."""
    if kind not in ("llama", "t5"):
        return train_tokenizer(kind, [TEXT])
    pieces = ["<unk>", "</s>", "▁", "a", "▁a", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
    spaces, strip = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
    parts = [spaces, decoders.ByteFallback(), decoders.Fuse(), strip]
    backend.decoder = decoders.Sequence(parts) if kind == "llama" else decoders.Metaspace()
    backend.add_special_tokens(["<unk>", "</s>"])
    return Tokenizer(backend)


KINDS = ["char", "word", "wordpiece", "bpe", "unigram", "llama", "t5"]


def streamed(kind, ids):
    stream = TextStream(trained(kind))
    return "".join([*map(stream.push, ids), stream.flush()])


def cut(text, places):
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def filtered(stops, pushes):
    stop_filter = StopFilter(stops)
    text = "".join([*map(stop_filter.push, pushes), stop_filter.flush()])
    return text, stop_filter.stopped


# Ids to text


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_a_stream_of_any_ids_joins_to_the_decoded_whole(kind, data):
    beyond = trained(kind).vocab_size + 2
    ids = data.draw(st.lists(st.integers(0, beyond), max_size=30))
    assert streamed(kind, ids) == trained(kind).decode(ids)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["bpe", "llama"]), st.binary(max_size=12), st.integers(0, 12))
def test_broken_utf8_streams_as_it_decodes(kind, raw, place):
    tokenizer = trained(kind)
    single = {tokenizer.token(id): id for id in range(tokenizer.vocab_size)}
    if kind == "llama":
        ids = [single[f"<0x{byte:02X}>"] for byte in raw]
    else:
        ids = [single[chr(byte) if byte < 128 else f"<0x{byte:02X}>"] for byte in raw]
    ids.insert(place, tokenizer.end_of_text)
    assert streamed(kind, ids) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS[:5])
def test_a_stream_of_a_text_joins_to_its_decoding(kind):
    ids = trained(kind).encode(TEXT)
    assert streamed(kind, ids) == trained(kind).decode(ids)


def test_a_character_comes_out_whole_with_its_last_byte():
    stream = TextStream(trained("bpe"))
    assert [stream.push(id) for id in trained("bpe").encode("漢!")] == ["", "", "漢", "!"]


def test_words_come_out_at_once_with_the_space_before_them():
    stream = TextStream(trained("word"))
    ids = trained("word").encode("The end (costs)\nnaïve")
    assert [stream.push(id) for id in ids] == ["The", " end", " (", "costs", ")", "\n", "naïve"]


def test_an_unfinished_character_is_shown_as_broken_at_the_end():
    stream = TextStream(trained("bpe"))
    ids = trained("bpe").encode("a漢")[:-1]
    assert "".join(map(stream.push, ids)) == "a"
    assert stream.flush() == "�"


@pytest.mark.parametrize("kind", ["char", "word", "wordpiece", "t5"])
def test_a_push_never_looks_back_further_than_one_token(kind, monkeypatch):
    lengths = []
    decode = Tokenizer.decode
    monkeypatch.setattr(
        Tokenizer, "decode", lambda self, ids: lengths.append(len(ids)) or decode(self, ids)
    )
    streamed(kind, [3] * 500)
    assert max(lengths) == 2


# Stop strings


def first_stop(stops, text):
    """What comes before the first stop string to be completed; all of the text if none is."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    st.text("ab\n", max_size=20),
    st.lists(st.integers(0, 20)),
)
def test_stop_strings_never_leak_however_the_text_is_cut(stops, text, places):
    assert filtered(stops, cut(text, places)) == first_stop(stops, text)


def test_text_waits_only_while_it_may_be_a_stop_string():
    stop_filter = StopFilter(["\n\nQ:"])
    assert [stop_filter.push(text) for text in ["A: 4", "2\n", "\n", "x", "\n\nQ"]] == [
        *("A: 4", "2", "", "\n\nx", "")
    ]
    assert stop_filter.flush() == "\n\nQ"
    assert not stop_filter.stopped


def test_nothing_follows_a_stop_string():
    stop_filter = StopFilter(["END"])
    assert stop_filter.push("the EN") == "the "
    assert stop_filter.push("D and more") == ""
    assert stop_filter.stopped
    assert stop_filter.push("still more") == ""
    assert stop_filter.flush() == ""


def test_the_first_of_several_stop_strings_wins():
    assert filtered(["two", "one"], ["zero one two"]) == ("zero ", True)


def test_without_stop_strings_all_text_passes_at_once():
    assert StopFilter([]).push("anything") == "anything"


def test_an_empty_stop_string_is_refused():
    with pytest.raises(GlassformerError, match="empty"):
        StopFilter(["a", ""])


@pytest.mark.parametrize("kind", KINDS[:5])
@pytest.mark.parametrize("place", [4, 9, 20, 40])
def test_a_continuation_completes_the_text_it_continues(kind, place):
    tokenizer = trained(kind)
    ids = tokenizer.encode(TEXT)
    while tokenizer.decode(ids[:place]).endswith("�"):  # a prompt ends with a whole character
        place += 1
    before, after = ids[:place], ids[place:]
    stream = TextStream(tokenizer, before)
    whole = "".join([tokenizer.decode(before), *map(stream.push, after), stream.flush()])
    assert whole == tokenizer.decode(ids)
