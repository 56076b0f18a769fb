"""A tokenizer gives back what it read, ours or anybody's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_samples import KINDS, TEXT, file_of, llama, trained
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from glassformer.errors import GlassformerError
from glassformer.text.tokenizer_training import TokenizerConfig, train_tokenizer
from glassformer.text.tokenizers import END_OF_TEXT, Tokenizer

LOSSLESS = st.sampled_from(["bpe", "unigram"])
SPACED = st.text(alphabet=" \n\t\r\u00a0\u2028\x1c\x85'sa1!é漢", max_size=60)


@pytest.fixture(params=KINDS)
def tokenizer(request):
    return trained(request.param)


def bert():
    """Like BERT's: lower case, [CLS] … [SEP] around every text, at most four tokens."""
    pieces = ["[UNK]", "[CLS]", "[SEP]", "a", "##b", "é", "!"]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    backend = Backend(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    backend.enable_truncation(4)
    backend.enable_padding(length=4)
    return Tokenizer(backend)


# Text to ids and back


@settings(max_examples=300, deadline=None)
@given(LOSSLESS, st.text() | SPACED)
def test_byte_level_tokenizers_give_back_any_text(kind, text):
    assert trained(kind).decode(trained(kind).encode(text)) == text


@settings(deadline=None)
@given(st.text(alphabet=sorted(set(TEXT))))
def test_a_character_tokenizer_gives_back_any_text_of_its_characters(text):
    ids = trained("char").encode(text)
    assert len(ids) == len(text)
    assert trained("char").decode(ids) == text


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
def test_word_tokenizers_lose_nothing_but_spacing(kind):
    text = "It was the best of times, (quite) well-known: it wasn't 3.14!\n\nThe end? $3,000"
    tokenizer = train_tokenizer(kind, [text])
    assert tokenizer.decode(tokenizer.encode(text.replace(" ", "  \t"))) == text


def test_a_word_tokenizer_shows_the_gap_where_a_word_is_unknown():
    ids = trained("word").encode("the zyzzyva of times")
    assert trained("word").decode(ids) == "the <|unk|> of times"


def test_wordpiece_cuts_an_unknown_word_into_known_parts():
    tokens = [trained("wordpiece").token(id) for id in trained("wordpiece").encode("timest")]
    assert tokens[0] == "times"
    assert tokens[1:] == ["##t"]


def test_a_batch_encodes_like_its_texts(tokenizer):
    texts = [TEXT, "", "the end"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_the_name_of_a_special_token_in_a_text_is_ordinary_text(tokenizer):
    ids = tokenizer.encode(f"the {END_OF_TEXT} end")
    assert tokenizer.end_of_text not in ids
    assert "endoftext" in tokenizer.decode(ids)


def test_special_tokens_leave_no_trace_in_decoded_text(tokenizer):
    ids = tokenizer.encode("the end")
    assert tokenizer.decode([tokenizer.end_of_text, *ids, tokenizer.end_of_text]) == "the end"


def test_lowercase_folds_case_in_training_and_use():
    tokenizer = train_tokenizer(TokenizerConfig(kind="char", lowercase=True), ["ABC ς Σ"])
    assert tokenizer.decode(tokenizer.encode("CaB Σ")) == "cab σ"


# What a token looks like, and what cannot be written


def test_a_byte_level_token_reads_as_its_text():
    tokenizer = trained("bpe")
    assert [tokenizer.token(id) for id in tokenizer.encode("It was")] == ["It", " was"]
    assert tokenizer.token(tokenizer.end_of_text) == END_OF_TEXT
    assert tokenizer.token(tokenizer.vocab_size) == f"<unused {tokenizer.vocab_size}>"


def test_a_lone_byte_reads_as_its_number():
    tokenizer = trained("bpe")
    assert [tokenizer.token(id) for id in tokenizer.encode("漢")] == ["<0xE6>", "<0xBC>", "<0xA2>"]
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    assert len(set(tokens)) == tokenizer.vocab_size


def test_pieces_of_words_keep_their_marks():
    assert trained("wordpiece").token(trained("wordpiece").encode("timest")[1]) == "##t"
    assert llama().token(llama().encode("a")[0]) == " a"


def test_unknown_characters_are_named_once_each_in_order():
    text = "naïve ąę\x00ą"
    assert trained("char").unknown_characters(text) == ["ą", "ę", "\x00"]
    assert trained("word").unknown_characters(text) == ["ą", "ę", "\x00"]
    assert trained("wordpiece").unknown_characters(text) == ["ą", "ę", "\x00"]
    assert trained("bpe").unknown_characters(text) == []
    assert trained("unigram").unknown_characters(text) == []


def test_characters_that_only_the_markup_of_a_vocabulary_has_are_unknown():
    tokenizer = train_tokenizer("wordpiece", ["a b c"])
    assert tokenizer.unknown_characters("a#<u>") == ["#", "<", "u", ">"]


def test_an_unknown_character_is_refused_by_name_not_dropped():
    with pytest.raises(GlassformerError, match=r"no token for 'ą'\. Leave it out, or"):
        trained("char").encode("aąb")
    with pytest.raises(GlassformerError, match=r"no token for 'ą', 'ę'\. Leave them out, or"):
        trained("char").encode("aąbę")


def test_half_a_surrogate_pair_is_refused_by_name(tokenizer):
    with pytest.raises(GlassformerError, match=r"'\\udc80'"):
        tokenizer.encode("a\udc80")


# On disk


def test_a_saved_tokenizer_loads_as_itself(tokenizer, tmp_path):
    saved = file_of(tokenizer, tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert file_of(loaded, tmp_path / "again.json") == saved
    assert loaded.kind == tokenizer.kind
    assert loaded.end_of_text == tokenizer.end_of_text
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)


def test_the_kind_is_read_off_the_vocabulary():
    assert [trained(kind).kind for kind in KINDS] == KINDS


def test_transformers_reads_the_file_and_agrees(tokenizer, tmp_path):
    from transformers import PreTrainedTokenizerFast

    tokenizer.save(tmp_path / "tokenizer.json")
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    text = TEXT.replace(END_OF_TEXT, "")
    assert theirs(text)["input_ids"] == tokenizer.encode(text)
    assert theirs.decode(tokenizer.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"model": {"type": "BPE"}}', b'{"a": 1}', b"hello"],
)
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(GlassformerError, match=r"tokenizer\.json"):
        Tokenizer.load(path)


def test_a_truncated_file_is_named(tokenizer, tmp_path):
    saved = file_of(tokenizer, tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_bytes(saved[: len(saved) // 2])
    with pytest.raises(GlassformerError, match=r"tokenizer\.json is damaged or not a tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(GlassformerError, match=r"tokenizer\.json does not exist"):
        Tokenizer.load(tmp_path / "tokenizer.json")
    with pytest.raises(GlassformerError, match="cannot be read"):
        Tokenizer.load(tmp_path)


# Other people's tokenizers


def test_a_foreign_tokenizer_adds_cuts_and_pads_nothing():
    tokenizer = bert()
    assert (tokenizer.kind, tokenizer.end_of_text) == ("wordpiece", 2)
    assert [tokenizer.token(id) for id in tokenizer.encode("AB É ! a a")] == [
        *("a", "##b", "é", "!", "a", "a")
    ]
    assert tokenizer.unknown_characters("AÉ z\n") == ["z"]


def test_a_llama_tokenizer_spells_the_unknown_in_bytes():
    tokenizer = llama()
    assert (tokenizer.kind, tokenizer.end_of_text) == ("bpe", 2)
    assert tokenizer.unknown_characters("漢") == []
    assert tokenizer.decode(tokenizer.encode("a 漢 a")) == "a 漢 a"


def test_an_id_beyond_a_gap_in_the_vocabulary_still_has_a_row():
    backend = Backend(models.WordLevel({"a": 0, "b": 7}))
    assert Tokenizer(backend).vocab_size == 8


def test_an_end_of_text_must_be_a_special_token():
    backend = Backend(models.WordLevel({"</s>": 0, "b": 1}))
    assert Tokenizer(backend).end_of_text is None
    backend.add_special_tokens([AddedToken("</s>", special=True)])
    assert Tokenizer(backend).end_of_text == 0
