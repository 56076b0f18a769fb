"""Texts become the tokens that the published model was trained on."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from published import publish
from tokenizers import processors

import glassformer
from glassformer.errors import GlassformerError
from glassformer.formats.vocabulary_files import read_opus
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer

TEXTS = ["the quick brown fox", "a lazy dog, naïve!", " the  dog ", "", "fox"]


def roberta(path: Path) -> Tokenizer:
    """Byte-level BPE with RoBERTa's own rule for special tokens."""
    trained = train_tokenizer("bpe", TEXTS * 20, 320, ["<s>", "</s>", "<mask>", "<pad>"])
    ids = trained.special_tokens
    backend = trained._backend
    backend.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    backend.save(str(path))
    return Tokenizer.load(path)


def test_a_tokenizers_own_frame_is_kept(tmp_path: Path) -> None:
    tokenizer = roberta(tmp_path / "tokenizer.json")
    theirs = hf.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    preprocessing = TextPreprocessing(tokenizer=tokenizer)
    rows, _ = preprocessing.rows(preprocessing.encode(TEXTS), 64)
    assert [list(row) for row in rows] == theirs(TEXTS)["input_ids"]


def test_our_own_tokenizers_have_no_frame_of_their_own() -> None:
    assert train_tokenizer("bpe", TEXTS * 20, 300).own_frame is None
    assert train_tokenizer("word", TEXTS * 20).begins_with == ()


def test_a_framed_tokenizer_frames_in_other_tools(tmp_path: Path) -> None:
    own = train_tokenizer("bpe", TEXTS * 20, 320, ["[CLS]", "[SEP]"])
    before, after = own.special_tokens["[CLS]"], own.special_tokens["[SEP]"]
    own.framed([before], [after], adds_blank=True).save(tmp_path / "tokenizer.json")
    theirs = hf.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    preprocessing = TextPreprocessing(tokenizer=own)
    rows, _ = preprocessing.rows(preprocessing.encode(["a dog", "fox"]), 64)
    assert [list(row) for row in rows] == theirs(["a dog", "fox"])["input_ids"]


def test_settings_of_generation_and_ends_are_read(tmp_path: Path) -> None:
    publish("gpt2", tmp_path)
    settings = {"do_sample": False, "top_k": 0, "temperature": 0.5, "eos_token_id": [5, 4]}
    settings |= {"max_new_tokens": 7, "suppress_tokens": [3]}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    found = glassformer.import_model(tmp_path, tmp_path / "out")
    model: Any = glassformer.load(found)
    assert model.defaults == {"do_sample": False, "temperature": 0.5, "max_new_tokens": 7}
    assert model.preprocessing.end_tokens == ("[MASK]",)  # 4; </s> is the end of text anyway
    assert "not applied: suppress_tokens" in found.notes[-1]


# --- OPUS-MT ---


def number(value: int) -> bytes:
    """Seven bits in a byte, the lowest first."""
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def field(place: int, content: bytes) -> bytes:
    return number(place << 3 | 2) + number(len(content)) + content


def sentencepiece(path: Path, pieces: dict[str, float], kind: int = 1) -> None:
    entries = (
        field(1, field(1, piece.encode()) + number(2 << 3 | 5) + struct.pack("<f", score))
        for piece, score in pieces.items()
    )
    trainer = field(2, number(3 << 3) + number(kind))
    path.write_bytes(b"".join(entries) + trainer + field(3, field(1, b"identity")))


def opus(folder: Path) -> Path:
    source = {"<unk>": 0.0, "</s>": 0.0, "▁the": -1.0, "▁d": -3.0, "og": -2.0, "▁": -4.0, "s": -3.0}
    target = {"<unk>": 0.0, "</s>": 0.0, "▁der": -1.0, "▁Hund": -2.0, "▁": -4.0, "s": -3.0}
    sentencepiece(folder / "source.spm", source)
    sentencepiece(folder / "target.spm", target)
    both = ["</s>", "<unk>", *dict.fromkeys([*list(source)[2:], *list(target)[2:]]), "<pad>"]
    ids = {piece: id for id, piece in enumerate(both)}
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False))
    return folder


def test_both_languages_share_ids_but_not_pieces(tmp_path: Path) -> None:
    source, target = read_opus(opus(tmp_path))
    assert [source.piece(id) for id in source.encode("the  dogs")] == ["▁the", "▁d", "og", "s"]
    assert [target.piece(id) for id in target.encode("der Hund")] == ["▁der", "▁Hund"]
    assert source.own_frame == ((), (0,))
    assert target.decode(target.encode("der Hund")) == "der Hund"
    assert source.special_tokens == target.special_tokens == {"</s>": 0, "<unk>": 1, "<pad>": 9}


def test_a_translator_with_such_files_translates(tmp_path: Path) -> None:
    publish("marian", tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    opus(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    values |= {"pad_token_id": 9, "decoder_start_token_id": 9, "eos_token_id": 0}
    path.write_text(json.dumps(values))
    model: Any = glassformer.load(tmp_path)
    assert model.preprocessing.encode_source(["the dog"])[0][-1] == 0
    assert model.preprocessing.start == 9
    found = glassformer.import_model(tmp_path, tmp_path / "out")
    again: Any = glassformer.load(found)
    assert again.translate("the dog").text == model.translate("the dog").text


def test_the_target_may_have_a_vocabulary_of_its_own(tmp_path: Path) -> None:
    opus(tmp_path)
    ids = {"<pad>": 0, "</s>": 1, "<unk>": 2, "▁der": 3, "▁Hund": 4, "s": 5, "▁": 6}
    (tmp_path / "target_vocab.json").write_text(json.dumps(ids))
    source, target = read_opus(tmp_path)
    assert source.encode("the") == [2]
    assert target.encode("der Hund") == [3, 4]
    assert target.own_frame == ((), (1,))
    ids.pop("</s>")
    (tmp_path / "target_vocab.json").write_text(json.dumps(ids))
    with pytest.raises(GlassformerError, match=r"target_vocab\.json does not number pieces"):
        read_opus(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\x08", b"\xff" * 20]
)
def test_a_damaged_sentencepiece_model_is_refused(tmp_path: Path, content: bytes) -> None:
    opus(tmp_path)
    (tmp_path / "source.spm").write_bytes(content)
    with pytest.raises(GlassformerError, match="damaged or not a SentencePiece model"):
        read_opus(tmp_path)
