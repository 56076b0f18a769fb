"""Folders of older releases, without a tokenizer.json, are read as transformers reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from published import publish

import glassformer
from glassformer.errors import GlassformerError
from glassformer.formats.vocabulary_files import read_vocabulary
from glassformer.text.tokenizer_training import train_tokenizer

TEXTS = [
    "The quick brown fox, naïve!",
    "",
    "  Double  spaces and 12345",
    "Über 你好 e\u0301 Привет",
    "foxes [MASK] don't",
]


def pieces(folder: Path) -> None:
    """A vocab.txt as BERT's."""
    letters = [chr(code) for code in range(33, 127)]
    words = ["the", "The", "fox", "quick", "na", "##ive", "uber", "##es", "你", "好"]
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    (folder / "vocab.txt").write_text("\n".join([*lines, *words]) + "\n", encoding="utf-8")


def merges(folder: Path, *special: str) -> None:
    """vocab.json and merges.txt, as GPT-2's and RoBERTa's."""
    trained = train_tokenizer("bpe", TEXTS * 20, 320, special).as_json()
    vocabulary = trained["model"]["vocab"]
    for token in trained["added_tokens"]:
        vocabulary[token["content"]] = token["id"]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    pairs = "\n".join(" ".join(pair) for pair in trained["model"]["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{pairs}\n", encoding="utf-8")


def read(folder: Path, kind: str) -> Any:
    """The ids of each text with its frame."""
    tokenizer = read_vocabulary(folder, kind)
    assert tokenizer is not None
    return [tokenizer._with_special.encode(text).ids for text in TEXTS]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "tokenize_chinese_chars": False, "strip_accents": True},
    ],
)
def test_a_vocab_txt_is_read_as_transformers_reads_it(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    pieces(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", **settings})
    )
    theirs = hf.BertTokenizer.from_pretrained(tmp_path)
    assert read(tmp_path, "bert") == theirs(TEXTS)["input_ids"]


@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": True}])
def test_robertas_files_are_read_as_transformers_reads_them(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    merges(tmp_path, "<s>", "</s>", "<unk>", "<pad>", "<mask>")
    names = {"bos_token": "<s>", "mask_token": {"content": "<mask>", "lstrip": True}}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = hf.RobertaTokenizer.from_pretrained(tmp_path)
    assert read(tmp_path, "roberta") == theirs(TEXTS)["input_ids"]


def test_gpt2s_files_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    merges(tmp_path)
    assert read(tmp_path, "gpt2") == hf.GPT2Tokenizer.from_pretrained(tmp_path)(TEXTS)["input_ids"]


def test_added_tokens_keep_their_numbers(tmp_path: Path) -> None:
    merges(tmp_path)
    number = len(json.loads((tmp_path / "vocab.json").read_text()))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|user|>": number}))
    tokenizer = read_vocabulary(tmp_path, "gpt2")
    assert tokenizer is not None
    assert tokenizer.piece(number) == "<|user|>"
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|user|>": number + 7}))
    with pytest.raises(GlassformerError, match="the number"):
        read_vocabulary(tmp_path, "gpt2")


def test_a_classifier_with_a_vocab_txt_alone_classifies(tmp_path: Path) -> None:
    publish("bert-classifier", tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    model: Any = glassformer.load(tmp_path)
    rows, _ = model.preprocessing.rows(model.preprocessing.encode(["Good bad"]), 32)
    assert list(rows[0]) == [2, 5, 6, 3]
    assert model.classify("good").label in ("bad", "fine", "good")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("vocab.txt", b"a\nb\n", "vocab.txt has no"),
        ("vocab.txt", b"\xff\xfe", "not UTF-8"),
        ("merges.txt", b"a b c\n", "cannot be read"),
        ("merges.txt", b"zzz yyy\n", "cannot be read"),
    ],
)
def test_damaged_vocabularies_are_refused(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    pieces(tmp_path) if name == "vocab.txt" else merges(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GlassformerError, match=said):
        read_vocabulary(tmp_path, "bert" if name == "vocab.txt" else "gpt2")
