"""AutoTokenizer reads an exported folder as its family expects: roles, limits and ends."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from exported_models import CLS, LABELS, a_gpt, a_model, tokenizer
from published import publish
from test_hub_tokenizers import opus
from tokenizers import processors

import glassformer
from glassformer.checkpoint.model_folder import load_model
from glassformer.checkpoint.open import open_model
from glassformer.errors import GlassformerError, UsageError
from glassformer.formats.export_hub import write_hub
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.tasks.fitting import with_tokens
from glassformer.text.tokenizers import BERT_TOKENS, Tokenizer

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


def an_opus(folder: Path, is_shared: bool) -> Path:
    """An imported OPUS-MT, whose original folder is gone."""
    theirs = folder / "theirs"
    publish("marian", theirs)
    (theirs / "tokenizer.json").unlink()
    opus(theirs)
    values = json.loads((theirs / "config.json").read_text())
    values |= {"pad_token_id": 9, "decoder_start_token_id": 9, "eos_token_id": 0}
    if not is_shared:
        ids = [
            "</s>",
            "<unk>",
            "▁Hund",
            "▁der",
            "s",
            "▁",
            "<unused>",
            "<also unused>",
            "x",
            "<pad>",
        ]
        numbered = {piece: id for id, piece in enumerate(ids)}
        (theirs / "target_vocab.json").write_text(json.dumps(numbered))
    (theirs / "config.json").write_text(json.dumps(values))
    glassformer.import_model(theirs, folder / "ours")
    shutil.rmtree(theirs)
    return folder / "ours"


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("is_shared", [True, False])
def test_an_imported_opus_is_written_with_both_of_its_tokenizers(
    tmp_path: Path, is_shared: bool
) -> None:
    path = an_opus(tmp_path, is_shared)
    folder = tmp_path / "out"
    glassformer.export_model(path, "hf", folder)
    ours: Any = load_model(path).preprocessing
    again: Any = glassformer.load(folder).preprocessing
    for text in ("the  dogs", "der Hund", "s der the x", ""):
        assert again.encode_source([text]) == ours.encode_source([text])
        assert again.encode_target([text]) == ours.encode_target([text])
    assert again.source.as_json() == ours.source.as_json()
    assert again.target.as_json() == ours.target.as_json()
    pytest.importorskip("sentencepiece")
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    for text in ("the  dogs", "the dog", "dog s"):
        assert reader(text)["input_ids"] == ours.encode_source([text])[0]
    assert reader(text_target="der Hunds")["input_ids"] == ours.encode_target(["der Hunds"])[0][1:]
    assert reader.decode(ours.target.encode("der Hunds")) == "der Hunds"
    assert len(reader("the dog " * 300, truncation=True)["input_ids"]) == 32


def test_two_trained_tokenizers_are_refused_with_a_way_out(tmp_path: Path) -> None:
    both = PairPreprocessing(tokenizer=tokenizer("bpe"), target_tokenizer=tokenizer("unigram"))
    path = a_model(tmp_path / "t", "translator", both, pre_norm=False, final_norm=False)
    with pytest.raises(GlassformerError, match=r"--format onnx, or train with tokenizer\.shared"):
        exported(path)


def test_notes_say_what_is_written_instead(tmp_path: Path) -> None:
    def notes(name: str) -> str:
        publish(name, tmp_path / name)
        out = tmp_path / f"{name}-out"
        out.mkdir()
        return "; ".join(write_hub(open_model(tmp_path / name), out, "")[1])

    assert "BertForMaskedLM computes the same as RobertaForMaskedLM" in notes("roberta")
    assert "the pooler is not written" in notes("bert-body")
    assert notes("gpt2") == ""


def test_a_vocabulary_of_two_languages_is_not_extended(tmp_path: Path) -> None:
    known: Any = load_model(an_opus(tmp_path, is_shared=True)).preprocessing
    with pytest.raises(UsageError, match=r"runs/opus has a tokenizer for each language, so its"):
        with_tokens(known, ["x"], "runs/opus")
