"""A mask takes the blank before it, or leaves it, as the tokenizer of the model says."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from exported_models import a_model, tokenizer
from test_exported_tokenizers import exported, roberta

import glassformer
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.text.tokenizers import BERT_TOKENS, Tokenizer


def probabilities(folder: Path, text: str) -> torch.Tensor:
    """Of every token for the mask, by transformers."""
    model: Any = hf.AutoModelForMaskedLM.from_pretrained(folder).eval()
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    read = reader(text, return_tensors="pt")
    with torch.no_grad():
        logits = model(**read).logits[0]
    return logits[read["input_ids"][0] == reader.mask_token_id][0].softmax(-1)


def check_same(folder: Path, mask: str) -> None:
    ours: Any = glassformer.load(folder)
    for text in (f"the quick {mask} fox", f"the quick{mask} fox", f"{mask} fox, a  {mask}."):
        expected = probabilities(folder, text)
        guesses = ours.fill(text, top=400)[0]
        for guess in guesses[:20]:
            close = (expected - guess.probability).abs() < 1e-6
            assert guess.token in [ours.tokenizer.token(int(id)) for id in close.nonzero()]


@pytest.mark.parametrize("lstrip", [True, False])
def test_a_robertas_mask_is_filled_as_in_transformers(tmp_path: Path, lstrip: bool) -> None:
    values = roberta().as_json()
    for added in values["added_tokens"]:
        added["lstrip"] = lstrip and added["content"] == "<mask>"
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    known = MaskedTextPreprocessing(tokenizer=Tokenizer.load(tmp_path / "tokenizer.json"))
    folder = exported(a_model(tmp_path / "roberta", "bert", known))
    assert glassformer.load(folder).preprocessing.mask_takes_blanks == lstrip  # type: ignore[attr-defined]
    check_same(folder, "<mask>")


def test_a_mask_that_was_trained_with_its_blank_keeps_it_in_transformers(tmp_path: Path) -> None:
    known = MaskedTextPreprocessing(tokenizer=tokenizer("bpe", *BERT_TOKENS))
    path = a_model(tmp_path / "bert", "bert", known)
    folder = exported(path)
    ours, again = glassformer.load(path), glassformer.load(folder)
    text = "the quick [MASK] fox"
    assert again.fill(text) == ours.fill(text)  # type: ignore[attr-defined]
    check_same(folder, "[MASK]")
