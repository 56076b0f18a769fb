"""AutoTokenizer reads an exported folder as its family expects: roles, limits and ends."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from exported_models import CLS, LABELS, a_gpt, a_model, tokenizer
from tokenizers import processors

from glassformer.checkpoint.model_folder import load_model
from glassformer.preprocessing.text import MaskedTextPreprocessing, TextPreprocessing
from glassformer.pretrained.export_hub import write_hub
from glassformer.text.framing import BERT_TOKENS
from glassformer.text.tokenizers import Tokenizer

LONG = "the quick brown fox " * 150  # 600 words
ROLES = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "mask_token", "unk_token")
BERT = (None, None, "[CLS]", "[SEP]", "[PAD]", "[MASK]", "<|unk|>")
ROBERTA = ("<s>", "</s>", "<s>", "</s>", "<pad>", "<mask>", "<unk>")


def roberta() -> Tokenizer:
    trained = tokenizer("bpe", "<s>", "<pad>", "</s>", "<unk>", "<mask>")
    ids = trained.special_tokens
    backend = trained._backend
    backend.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"])
    )
    return Tokenizer(backend)


def exported(folder: Path) -> Path:
    out = folder.parent / f"{folder.name}-hf"
    out.mkdir()
    write_hub(load_model(folder), out, "# the card\n")
    return out


@pytest.mark.parametrize(
    ("model", "config", "loader"),
    [
        ("bert", {}, hf.AutoModelForMaskedLM),
        ("bert", {"has_head": False}, hf.AutoModel),
        ("classifier", CLS, hf.AutoModelForSequenceClassification),
        ("tagger", {"labels": LABELS}, hf.AutoModelForTokenClassification),
    ],
)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_an_encoder_truncates_and_knows_its_special_tokens(
    tmp_path: Path, model: str, config: dict[str, Any], loader: Any, family: str
) -> None:
    known = tokenizer("wordpiece", *BERT_TOKENS) if family == "bert" else roberta()
    kind = MaskedTextPreprocessing if model == "bert" else TextPreprocessing
    folder = exported(a_model(tmp_path / "m", model, kind(tokenizer=known), **config))
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    found = tuple(getattr(reader, role) for role in ROLES)
    assert found == (BERT if family == "bert" else ROBERTA)
    read = reader(LONG, truncation=True, return_tensors="pt")
    assert read["input_ids"].shape == (1, 32)
    with torch.no_grad():
        loader.from_pretrained(folder).eval()(**read)


def test_a_language_model_truncates_to_its_context(tmp_path: Path) -> None:
    folder = exported(a_gpt(tmp_path / "gpt"))
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    read = reader(LONG, truncation=True, return_tensors="pt")
    with torch.no_grad():
        found = hf.AutoModelForCausalLM.from_pretrained(folder)(**read)
    assert found.logits.shape[1] == reader.model_max_length == 32
    assert reader.eos_token == reader.bos_token == "<|endoftext|>"
