"""GGUF files that are written here are read by llama.cpp's own package and by transformers."""

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
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.pretrained import export_gguf

LLAMA = MODERN | {"num_kv_heads": 2, "tie_weights": False, "head_dim": 12}
LLAMA3 = {"factor": 8.0, "original_length": 256}


@pytest.fixture(autouse=True)
def _without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes seconds to start: it is asked in these tests, not in a process of its own."""
    monkeypatch.setattr(export_gguf, "logits_in_transformers", lambda *each, **more: None)


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
        (MODERN | {"bias": True}, "bias is true instead of false"),
        (MODERN | {"activation": "gelu"}, "activation is gelu instead of swiglu"),
        (MODERN | {"d_embedding": 16, "tie_weights": False}, "d_embedding is 16"),
        (MODERN | {"rotary_stretch": LLAMA3 | {"high": 5.0}}, "high 5.0 instead of 1 and 4"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    path = a_gpt(tmp_path / "gpt", **config)
    with pytest.raises(GlassformerError, match="cannot be exported to GGUF") as caught:
        glassformer.export_model(path, "gguf", tmp_path / "out")
    assert said in str(caught.value)
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
