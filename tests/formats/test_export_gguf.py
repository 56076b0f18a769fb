"""GGUF files that are written here are read by llama.cpp's own package and by transformers."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers as hf
from exported_models import MODERN, a_gpt, a_model, tokenizer
from published import publish

import glassformer
from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.errors import GlassformerError, UsageError
from glassformer.formats import exporting
from glassformer.formats.gguf_file import GGUFFile, write_file
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.chat import prompt_ids
from glassformer.text.tokenizers import Tokenizer

LLAMA = MODERN | {"num_kv_heads": 2, "tie_weights": False, "head_dim": 12}
LLAMA3 = {"factor": 8.0, "original_length": 256}


@pytest.fixture(autouse=True)
def _without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes seconds to start: it is asked in these tests, not in a process of its own."""
    monkeypatch.setattr(exporting, "logits_in_transformers", lambda *each, **more: None)


def same_texts(one: Any, other: Any) -> bool:
    """Whether two models write the same, token by token."""
    options = {"max_new_tokens": 24, "do_sample": False}
    texts = ("the quick", "a dog", "naïve 中文")
    return [one.generate(each, **options) for each in texts] == [
        other.generate(each, **options) for each in texts
    ]


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        (LLAMA, "llama"),
        (MODERN | {"qk_norm": True, "head_dim": 8}, "qwen3"),
        (MODERN | {"rotary_stretch": {"factor": 4.0}}, "llama"),
        (MODERN | {"rotary_stretch": LLAMA3}, "llama"),
        (MODERN | {"rotary_stretch": LLAMA3 | {"original_length": 1000}}, "llama"),
        (MODERN | {"rotary_stretch": LLAMA3 | {"low": 0.7, "high": 2.3}}, "llama"),
        (MODERN | {"rotary_stretch": LLAMA3, "rotary_base": 20.0, "head_dim": 4}, "llama"),
        (MODERN | {"bias": True, "num_kv_heads": 2}, "llama"),
    ],
)
def test_a_file_is_the_same_model_again(
    tmp_path: Path, config: dict[str, Any], architecture: str
) -> None:
    path = a_gpt(tmp_path / "gpt", **config)
    found = glassformer.export_model(path, "gguf", tmp_path / "out")
    assert found.differences == {"glassformer": 0.0}
    file = tmp_path / "out/model.gguf"
    one, other = glassformer.load(path), glassformer.load(file)
    assert same_texts(one, other)
    fields = gguf.GGUFReader(file).fields
    assert fields["general.architecture"].contents() == architecture
    assert "# the card" in (tmp_path / "out/README.md").read_text()


def test_transformers_computes_the_same_from_the_file(tmp_path: Path) -> None:
    path = a_gpt(tmp_path / "gpt", **LLAMA)
    glassformer.export_model(path, "gguf", tmp_path / "out")
    theirs: Any = hf.LlamaForCausalLM.from_pretrained(tmp_path / "out", gguf_file="model.gguf")
    ours: Any = load_model(path).model
    ids = torch.randint(0, 280, (3, 17))
    with torch.no_grad():
        expected = ours(ids)
        assert (theirs.eval()(ids).logits - expected).abs().max() <= 1e-4
    assert expected.std() > 0.1


@pytest.mark.parametrize(("dtype", "most"), [("F16", 2e-3), ("q8_0", 0.1)])
def test_smaller_types_round_and_say_how_much(tmp_path: Path, dtype: str, most: float) -> None:
    path = a_gpt(tmp_path / "gpt", **LLAMA)
    found = glassformer.export_model(path, "gguf", tmp_path / "out", dtype=dtype)
    assert 0 < found.differences["glassformer"] <= most
    assert found.architecture == f"LlamaForCausalLM in {dtype.upper()}"
    tensors = {each.name: each for each in gguf.GGUFReader(tmp_path / "out/model.gguf").tensors}
    assert tensors["blk.0.attn_q.weight"].tensor_type.name == dtype.upper()
    assert tensors["blk.0.attn_norm.weight"].tensor_type.name == "F32"
    # Rows of 48 values do not fill blocks of 32.
    rows_of_48 = tensors["blk.0.attn_output.weight"].tensor_type.name
    assert rows_of_48 == "F16"
    assert any("stored as F16" in note for note in found.notes) == (dtype == "q8_0")
    found = glassformer.export_model(path, "gguf", tmp_path / "full")
    size, full = ((tmp_path / each / "model.gguf").stat().st_size for each in ("out", "full"))
    assert size < 0.75 * full


def test_special_tokens_and_the_template_survive(tmp_path: Path) -> None:
    reader = tokenizer("bpe", "<|im_end|>", "<|im_start|>")
    preprocessing = TextPreprocessing(
        tokenizer=reader, end_tokens=("<|im_end|>",), jinja_template="{{ messages }}"
    )
    path = a_model(tmp_path / "gpt", "gpt", preprocessing, **LLAMA)
    glassformer.export_model(path, "gguf", tmp_path / "out")
    again: Any = glassformer.load(tmp_path / "out/model.gguf")
    assert again.preprocessing.end_tokens == ("<|im_end|>",)
    assert again.preprocessing.jinja_template == "{{ messages }}"
    assert again.tokenizer.special_tokens == reader.special_tokens
    types = gguf.GGUFReader(tmp_path / "out/model.gguf").fields["tokenizer.ggml.token_type"]
    kinds = np.array(types.contents())
    assert (kinds == 3).nonzero()[0].tolist() == sorted(reader.special_tokens.values())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "positions is learned instead of rotary"),
        (MODERN | {"bias": True, "qk_norm": True}, "qk_norm is true instead of false"),
        (MODERN | {"activation": "gelu"}, "activation is gelu instead of swiglu"),
        (MODERN | {"d_embedding": 16, "tie_weights": False}, "d_embedding is 16"),
        (MODERN | {"qk_norm": True, "rotary_stretch": LLAMA3}, "only in models without qk_norm"),
        (MODERN | {"num_layers": 513, "d_model": 4, "num_heads": 1}, "at most 512"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    path = a_gpt(tmp_path / "gpt", **config)
    with pytest.raises(GlassformerError, match="cannot be exported to GGUF") as caught:
        glassformer.export_model(path, "gguf", tmp_path / "out")
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("config", "noted"),
    [
        ({"d_model": 36, "num_heads": 5, "head_dim": 8}, "a d_model that is a multiple"),
        ({"bias": True}, "no biases"),
        ({"rotary_stretch": LLAMA3}, "plain rotary positions"),
        ({"qk_norm": True}, "heads of 128 for Qwen3"),
    ],
)
def test_what_transformers_would_read_wrongly_is_not_given_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], noted: str
) -> None:
    def refuse(*each: Any, **more: Any) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(exporting, "logits_in_transformers", refuse)
    path = a_gpt(tmp_path / "gpt", **MODERN | config)
    found = glassformer.export_model(path, "gguf", tmp_path / "out")
    (note,) = found.notes
    assert note.startswith("transformers reads this file wrongly")
    assert noted in note
    assert same_texts(glassformer.load(path), glassformer.load(tmp_path / "out/model.gguf"))


@pytest.mark.parametrize(
    ("length", "base"),
    [(20, 10000.0), (1000, 10000.0), (8191, 5e5), (131072, 5e5), (50_000, 10000.0), (99_999, 1e4)],
)
def test_the_original_length_is_found_in_the_factors_alone(
    tmp_path: Path, length: int, base: float
) -> None:
    """Files of other tools do not say it. With the last two, no rotation has the whole factor."""
    stretch = {"rotary_stretch": {"factor": 32.0, "original_length": length}, "rotary_base": base}
    path = a_gpt(tmp_path / "gpt", **MODERN | stretch | {"head_dim": 64})
    glassformer.export_model(path, "gguf", tmp_path / "out")
    file = GGUFFile(tmp_path / "out/model.gguf")
    metadata = {key: each for key, each in file.metadata.items() if "glassformer" not in key}
    assert len(metadata) == len(file.metadata) - 4
    tensors = {name: (tensor.numpy(), "F32") for name, tensor in file.read([*file.tensors])}
    write_file(tmp_path / "other.gguf", metadata, tensors)
    found: Any = glassformer.load(tmp_path / "other.gguf")
    assert found.model.config.rotary_stretch.original_length == pytest.approx(length, rel=1e-4)
    assert found.model.config.rotary_stretch.factor == pytest.approx(32, rel=1e-4)


def test_the_begin_of_a_text_stays_what_it_was(tmp_path: Path) -> None:
    """It need not be the end of text, nor be read before texts."""
    reader = tokenizer("bpe", "<|im_start|>")
    begin = reader.special_tokens["<|im_start|>"]
    preprocessing = TextPreprocessing(
        tokenizer=reader, begin_token="<|im_start|>", jinja_template="{{ bos_token }}a dog"
    )
    path = a_model(tmp_path / "gpt", "gpt", preprocessing, **LLAMA)
    for number in range(2):
        glassformer.export_model(path, "gguf", tmp_path / f"{number}")
        path = tmp_path / f"{number}/model.gguf"
        fields = gguf.GGUFReader(path).fields
        assert fields["tokenizer.ggml.bos_token_id"].contents() == begin
        assert fields["tokenizer.ggml.add_bos_token"].contents() is False
    glassformer.export_model(path, "hf", tmp_path / "hf")
    for source in (path, tmp_path / "hf"):
        again: Any = glassformer.load(source)
        assert again.preprocessing.begin_token == "<|im_start|>"
        assert not again.tokenizer.begins_with
        messages = [{"role": "user", "content": "hello"}]
        assert prompt_ids(again.preprocessing, messages)[0] == begin
    theirs: Any = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs.bos_token == "<|im_start|>"


def test_a_tokenizer_without_an_end_of_text_is_refused(tmp_path: Path) -> None:
    values = tokenizer("bpe").as_json()
    values["added_tokens"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    endless = TextPreprocessing(tokenizer=Tokenizer.load(tmp_path / "tokenizer.json"))
    path = a_model(tmp_path / "gpt", "gpt", endless, **LLAMA)
    with pytest.raises(GlassformerError, match="no token that ends a text"):
        glassformer.export_model(path, "gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_tokenizers_and_models_are_refused(tmp_path: Path) -> None:
    words = TextPreprocessing(tokenizer=tokenizer("char"))
    path = a_model(tmp_path / "gpt", "gpt", words, **MODERN)
    with pytest.raises(GlassformerError, match=r"kind char.*holds only byte-level BPE"):
        glassformer.export_model(path, "gguf", tmp_path / "out")
    publish("bert", tmp_path / "bert")
    with pytest.raises(GlassformerError, match=r"a bert cannot be exported.*can be: gpt"):
        glassformer.export_model(tmp_path / "bert", "gguf", tmp_path / "out")


def test_types_of_weights_are_checked(tmp_path: Path) -> None:
    path = a_gpt(tmp_path / "gpt", **LLAMA)
    with pytest.raises(UsageError, match="F32, F16, Q8_0"):
        glassformer.export_model(path, "gguf", tmp_path / "out", dtype="Q4_K")
    with pytest.raises(UsageError, match="--dtype has no meaning for --format hf"):
        glassformer.export_model(path, "hf", tmp_path / "out", dtype="F16")
    saved = load_model(path)
    saved.model.head.weight.data[0, 0] = 1e5  # type: ignore[union-attr,index]
    save_model(path, saved.model, saved.preprocessing)
    with pytest.raises(GlassformerError, match="too large for F16"):
        glassformer.export_model(path, "gguf", tmp_path / "out", dtype="F16")


def test_only_an_export_is_replaced(tmp_path: Path) -> None:
    path = a_gpt(tmp_path / "gpt", **LLAMA)
    glassformer.export_model(path, "gguf", tmp_path / "out")
    with pytest.raises(GlassformerError, match="already contains a model"):
        glassformer.export_model(path, "gguf", tmp_path / "out")
    glassformer.export_model(path, "gguf", tmp_path / "out", force=True, dtype="F16")
    other = a_gpt(tmp_path / "other", **LLAMA)  # has no .gguf file
    with pytest.raises(GlassformerError, match="contains other files"):
        glassformer.export_model(path, "gguf", other, force=True)
