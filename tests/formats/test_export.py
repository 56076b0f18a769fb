"""What is trained here loads in transformers as it is; what cannot says why."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from exported_models import CLS, LABELS, MODERN, POST_NORM, a_gpt, a_model, tokenizer
from published import publish

import glassformer
from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.errors import GlassformerError, UsageError
from glassformer.formats import export_hub, exporting
from glassformer.models import row
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizers import BERT_TOKENS, START


def exported(folder: Path) -> Path:
    out = folder.parent / f"{folder.name}-hf"
    out.mkdir()
    export_hub.write_hub(load_model(folder), out, "# the card\n")
    return out


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        ({}, "GPT2LMHeadModel"),
        (MODERN | {"num_kv_heads": 2, "tie_weights": False}, "LlamaForCausalLM"),
        (MODERN | {"qk_norm": True, "head_dim": 12}, "Qwen3ForCausalLM"),
    ],
)
def test_a_gpt_writes_the_same_text_in_transformers(
    tmp_path: Path, config: dict[str, Any], architecture: str
) -> None:
    folder = exported(a_gpt(tmp_path / "gpt", **config))
    theirs: Any = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    assert type(theirs).__name__ == architecture
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    ours: Any = glassformer.load(tmp_path / "gpt")
    ids = reader("the quick", return_tensors="pt")
    assert ids["input_ids"][0].tolist() == ours.tokenizer.encode("the quick")
    written = theirs.generate(**ids, max_new_tokens=12, do_sample=False)
    expected = ours.generate("the quick", max_new_tokens=12, do_sample=False).text
    text = reader.decode(written[0, ids["input_ids"].size(1) :], skip_special_tokens=True)
    assert text == expected
    assert "# the card" in (folder / "README.md").read_text()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_a_bert_gives_the_same_logits_on_the_same_text(tmp_path: Path, kind: Any) -> None:
    preprocessing = MaskedTextPreprocessing(tokenizer=tokenizer(kind, *BERT_TOKENS))
    folder = exported(a_model(tmp_path / "bert", "bert", preprocessing))
    theirs: Any = hf.AutoModelForMaskedLM.from_pretrained(folder).eval()
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    ids = reader("the quick brown dog", return_tensors="pt")["input_ids"]
    ours: Any = load_model(tmp_path / "bert").model
    with torch.no_grad():
        assert (ours(ids) - theirs(ids).logits).abs().max() <= 1e-4
    assert ids[0, 0] == preprocessing.tokenizer.special_tokens["[CLS]"]
    assert reader.mask_token == "[MASK]"


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_a_classifier_gives_the_same_probabilities(tmp_path: Path, kind: Any) -> None:
    preprocessing = TextPreprocessing(tokenizer=tokenizer(kind, *BERT_TOKENS))
    path = a_model(tmp_path / "classifier", "classifier", preprocessing, **CLS)
    saved = load_model(path)
    saved.model.temperature.fill_(2.5)  # type: ignore[union-attr,operator]
    save_model(path, saved.model, preprocessing)
    folder = exported(path)
    judge = hf.pipeline("text-classification", str(folder), top_k=None)
    for text in ("a lazy dog", "the fox jumps"):
        ours: Any = glassformer.load(path)
        expected = ours.classify(text).scores
        found = {each["label"]: each["score"] for each in judge([text])[0]}
        assert found == pytest.approx(expected, abs=1e-5)


def test_a_translator_gives_the_same_logits(tmp_path: Path) -> None:
    shared = PairPreprocessing(tokenizer=tokenizer("bpe", START))
    path = a_model(tmp_path / "t", "translator", shared, **POST_NORM)
    folder = exported(path)
    theirs: Any = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    reader: Any = hf.AutoTokenizer.from_pretrained(folder)
    source = torch.tensor(shared.encode_source(["the quick fox"]))
    assert reader("the quick fox")["input_ids"] == source[0].tolist()
    target = torch.tensor(shared.encode_target(["a dog"]))[:, :-1]
    ours: Any = load_model(path).model
    with torch.no_grad():
        expected = theirs(input_ids=source, decoder_input_ids=target).logits
        assert (ours(source, target) - expected).abs().max() <= 1e-4


def test_an_embedder_keeps_its_pooling_for_sentence_transformers(tmp_path: Path) -> None:
    preprocessing = MaskedTextPreprocessing(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    config = {"has_head": False, "pooling": "first", "normalize": False, "sentence_length": 16}
    path = a_model(tmp_path / "e", "bert", preprocessing, **config)
    folder = exported(path)
    kinds = [each["type"] for each in json.loads((folder / "modules.json").read_text())]
    assert [kind.rsplit(".", 1)[-1] for kind in kinds] == ["Transformer", "Pooling"]
    again: Any = glassformer.load(folder)
    ours: Any = glassformer.load(path)
    assert abs(again.embed("a dog") - ours.embed("a dog")).max() <= 1e-6
    assert again.model.config.pooling == "first"
    assert again.embedding_length == 16
    with pytest.raises(GlassformerError, match="has no output layer"):
        ours.fill("a [MASK] dog")


def test_what_no_family_computes_is_refused_with_what_differs(tmp_path: Path) -> None:
    lecture = a_gpt(tmp_path / "lecture", positions="sinusoidal", **POST_NORM)
    with pytest.raises(GlassformerError) as caught:
        glassformer.export_model(lecture, "hf", tmp_path / "out")
    said = str(caught.value)
    assert "Nearest to it is GPT2LMHeadModel" in said
    assert "positions is sinusoidal instead of learned" in said
    assert "pre_norm is false instead of true" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_bag_beside_a_classifier_is_named_as_what_differs(
    tmp_path: Path, activation: str
) -> None:
    preprocessing = TextPreprocessing(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    config = CLS | {"pooler_activation": activation, "bag": True}
    path = a_model(tmp_path / "classifier", "classifier", preprocessing, **config)
    with pytest.raises(GlassformerError, match="bag is true instead of false"):
        glassformer.export_model(path, "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_family_lists_those_that_have_one(tmp_path: Path) -> None:
    words = TextPreprocessing(tokenizer=tokenizer("word"))
    torch.manual_seed(0)
    known = row("bag")
    model = known.model(known.config(labels=LABELS, **words.sizes))
    save_model(tmp_path / "bag", model, words)
    with pytest.raises(GlassformerError, match=r"a bag cannot be exported.*These models can be: "):
        glassformer.export_model(tmp_path / "bag", "hf", tmp_path / "out")


def test_a_wrong_export_is_noticed_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_gpt(tmp_path / "gpt")
    original = export_hub.their_tensors
    monkeypatch.setattr(
        export_hub,
        "their_tensors",
        lambda *each: {name: tensor + 0.1 for name, tensor in original(*each).items()},
    )
    monkeypatch.setattr(exporting, "logits_in_transformers", lambda *each: None)
    with pytest.raises(GlassformerError, match="differs from the original"):
        glassformer.export_model(folder, "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_transformers_that_does_not_answer_in_time_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "SECONDS", 0.01)
    with pytest.raises(GlassformerError, match=r"did not finish within 0\.01 seconds"):
        glassformer.export_model(a_gpt(tmp_path / "gpt"), "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_places_and_formats_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    folder = a_gpt(tmp_path / "gpt")
    with pytest.raises(UsageError, match="hf, onnx, ctranslate2, gguf, peft, safetensors"):
        glassformer.export_model(folder, "onyx", tmp_path / "out")
    found = glassformer.export_model(folder, "hf", tmp_path / "out")
    assert [*found.differences] == ["glassformer"]  # transformers is not installed, as it seems
    with pytest.raises(GlassformerError, match="already contains a model"):
        glassformer.export_model(folder, "hf", tmp_path / "out")
    glassformer.export_model(folder, "hf", tmp_path / "out", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter.txt").write_text("dear")
    with pytest.raises(GlassformerError, match="contains other files"):
        glassformer.export_model(folder, "hf", tmp_path / "other", force=True)


def test_safetensors_is_the_model_without_its_run(tmp_path: Path) -> None:
    folder = a_gpt(tmp_path / "gpt")
    (folder / "metrics.csv").write_text("step\n")
    (folder / "generation_config.json").write_text('{"temperature": 0.7}')
    found = glassformer.export_model(folder, "safetensors", tmp_path / "out")
    assert found.differences == {"glassformer": 0.0}
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert "metrics.csv" not in names
    assert load_model(tmp_path / "out").generation == {"temperature": 0.7}


def test_a_model_of_others_is_exported_directly(tmp_path: Path) -> None:
    publish("qwen3", tmp_path / "qwen3")
    found = glassformer.export_model(tmp_path / "qwen3", "hf", tmp_path / "out")
    assert found.architecture == "Qwen3ForCausalLM"
    assert len(found.differences) == 2  # here, and in transformers in a process of its own
    assert max(found.differences.values()) <= 1e-4
    assert "Largest difference in logits" in found.summary()


def test_no_export_or_import_replaces_what_it_reads(tmp_path: Path) -> None:
    ours = a_gpt(tmp_path / "ours")
    theirs = exported(ours)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="is the source"):
        glassformer.export_model(ours, "safetensors", ours, force=True)
    with pytest.raises(UsageError, match="is the source"):
        glassformer.import_model(theirs, theirs, force=True)
    with pytest.raises(UsageError, match="is the source"):
        glassformer.import_model(theirs, ours, base=ours, force=True)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    glassformer.import_model(theirs, theirs / "imported")  # a new folder replaces nothing
    assert all(path.read_bytes() == content for path, content in before.items())
