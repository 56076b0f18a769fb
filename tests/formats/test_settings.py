"""A setting of a published model is computed as transformers does, or refused by its name: never
ignored."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from published import CASES, inputs_of, publish, their_logits, tokenizer

from glassformer.errors import GlassformerError
from glassformer.formats.exporting import Probe
from glassformer.formats.families import FAMILIES
from glassformer.formats.hugging_face import read_folder
from glassformer.models.multiscale_vit import MultiscaleViTConfig


def rope(**values: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 10000.0, **values}}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights"),
    ("gpt2", {"activation_function": "mish"}, "mish"),
    ("llama", rope(rope_type="yarn", factor=4.0), "yarn"),
    ("llama", rope(rope_type="dynamic", factor=4.0), "dynamic"),
    ("llama", rope(rope_type="default", partial_rotary_factor=0.5), "part of each head"),
    ("llama", {"attention_bias": True}, "attention_bias"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act"),
    ("qwen3", {"use_sliding_window": True}, "use_sliding_window"),
    ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "sliding"),
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("bert", {"is_decoder": True}, "is_decoder"),
    ("bert", {"hidden_act": "relu"}, "hidden_act"),
    ("bert-classifier", {"problem_type": "regression"}, "predicts a number"),
    ("roberta", {"pad_token_id": 0}, "pad_token_id"),
    ("distilbert", {"sinusoidal_pos_embds": True}, "sinusoidal_pos_embds"),
    ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings"),
    ("marian", {"normalize_embedding": True}, "normalize_embedding"),
    ("marian", {"encoder_ffn_dim": 96}, "encoder_ffn_dim"),
    ("vit", {"qkv_bias": False}, "qkv_bias"),
    ("swin", {"use_absolute_embeddings": True}, "use_absolute_embeddings"),
    ("swin", {"layer_norm_eps": 1e-3}, "layer_norm_eps"),
    ("swin", {"image_size": 30}, "15×15, no multiple of window_size 4"),
    ("swin", {"image_size": [32, 24]}, "stage 2 has a grid of 8×6"),
    ("imagegpt", {"tie_word_embeddings": True}, "tie_word_embeddings"),
    ("imagegpt", {"n_positions": 37}, "n_positions"),
    ("llama", {"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
]


@pytest.mark.parametrize(("name", "settings", "named"), REFUSED)
def test_what_would_be_computed_differently_is_refused_by_name(
    tmp_path: Path, name: str, settings: dict[str, Any], named: str
) -> None:
    publish(name, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(GlassformerError, match=r"config\.json") as caught:
        read_folder(tmp_path)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
    ],
)
def test_what_sentence_transformers_does_to_texts_is_not_ignored(
    tmp_path: Path, file: str, settings: dict[str, Any]
) -> None:
    publish("bert-body", tmp_path)
    (tmp_path / "modules.json").write_text('[{"type": "x.Transformer", "path": ""}]')
    (tmp_path / file).write_text(json.dumps(dict.fromkeys(settings)))
    assert read_folder(tmp_path).command[0] == "embed"
    (tmp_path / file).write_text(json.dumps(settings))
    with pytest.raises(GlassformerError, match=f"{file}.*{next(iter(settings))}"):
        read_folder(tmp_path)


def test_a_grid_of_broken_windows_is_not_exported_as_swin() -> None:
    (layout,) = FAMILIES["swin"].layouts
    values: dict[str, Any] = {"labels": ("a", "b"), "patch_size": 2, "window_size": 4}
    assert layout.differences(MultiscaleViTConfig(image_size=32, **values)) == []
    (problem,) = layout.differences(MultiscaleViTConfig(image_size=30, **values))
    assert "15×15" in problem


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("target", [61, 80])
def test_a_translator_with_two_vocabularies_computes_the_same(
    tmp_path: Path, tied: bool, target: int
) -> None:
    config = CASES["marian"].theirs().config
    config.share_encoder_decoder_embeddings = False
    config.tie_word_embeddings, config.decoder_vocab_size = tied, target
    torch.manual_seed(0)
    theirs = hf.MarianMTModel(config).eval()
    torch.nn.init.normal_(theirs.final_logits_bias)
    theirs.save_pretrained(tmp_path)
    tokenizer(with_frame=False).save(str(tmp_path / "tokenizer.json"))
    inputs = inputs_of("marian", theirs)
    found = Probe(inputs, None).logits(read_folder(tmp_path).model)
    assert found.shape[-1] == target
    assert (found - their_logits(theirs, inputs)).abs().max() <= 1e-4
