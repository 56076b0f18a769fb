"""The same weights give the same logits here and in implementations that others trust."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS

TINY = {"vocab_size": 61, "context_length": 32, "num_layers": 2, "d_model": 32, "num_heads": 4}


def from_preset(preset, **options):
    return GPT(GPTConfig(**GPT_PRESETS[preset] | options)).eval()


def with_random_weights(theirs):
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.2)
    return theirs.eval()


def renamed(weights, names):
    """{their name: ours}, of module or weight, applied to a state dict."""
    ours = {}
    for name, weight in weights.items():
        for old, new in names.items():
            name = name.replace(old, new)
        ours[name] = weight
    return ours


def check_same_logits(ours, theirs):
    ids = torch.randint(0, 61, (2, 20))
    expected = theirs(ids).logits
    assert expected.std() > 0.1  # not a comparison of nothing with nothing
    torch.testing.assert_close(ours(ids), expected, atol=1e-4, rtol=1e-4)


def test_gpt2_gives_the_logits_of_transformers():
    shape = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 61, "n_positions": 32}
    theirs = with_random_weights(GPT2LMHeadModel(GPT2Config(**shape)))
    assert theirs.config.activation_function == "gelu_new"
    ours = from_preset("gpt2", **TINY)
    weights = {}
    for name, weight in theirs.state_dict().items():
        is_conv = name.endswith(".weight") and (".attn." in name or ".mlp." in name)
        weight = weight.T if is_conv else weight  # its Conv1D is (in, out)
        if ".c_attn." in name:
            parts = zip(("query", "key", "value"), weight.chunk(3), strict=True)
            weights |= {name.replace("c_attn", part): chunk for part, chunk in parts}
        else:
            weights[name] = weight
    names = {
        "attn.c_proj": "attention.output",
        "attn.": "attention.",
        "mlp.c_fc": "feedforward.up",
        "mlp.c_proj": "feedforward.down",
        "ln_1": "attention_norm",
        "ln_2": "feedforward_norm",
        "transformer.h.": "blocks.",
        "transformer.wte": "embedding",
        "transformer.wpe": "positions.table",
        "transformer.ln_f": "final_norm",
        "lm_head": "head",
    }
    ours.load_state_dict(renamed(weights, names))
    check_same_logits(ours, theirs)


LLAMA_NAMES = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.output",
    "self_attn.q_norm": "attention.query_norm",
    "self_attn.k_norm": "attention.key_norm",
    "mlp.gate_proj": "feedforward.gate",
    "mlp.up_proj": "feedforward.up",
    "mlp.down_proj": "feedforward.down",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feedforward_norm",
    "model.layers.": "blocks.",
    "model.embed_tokens": "embedding",
    "model.norm": "final_norm",
    "lm_head": "head",
}
LLAMA_SHAPE = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}


@pytest.mark.parametrize("tied", [True, False])
def test_modern_gives_the_logits_of_qwen3(tied):
    config = Qwen3Config(**LLAMA_SHAPE, head_dim=8, tie_word_embeddings=tied)
    theirs = with_random_weights(Qwen3ForCausalLM(config))
    ours = from_preset("modern-xs", **TINY, d_feedforward=48, tie_weights=tied)
    ours.load_state_dict(renamed(theirs.state_dict(), LLAMA_NAMES))
    check_same_logits(ours, theirs)


def test_modern_with_wide_heads_another_base_and_eps_gives_the_logits_of_qwen3():
    other = {"rms_norm_eps": 0.1, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    config = Qwen3Config(**LLAMA_SHAPE | other, head_dim=20, tie_word_embeddings=False)
    theirs = with_random_weights(Qwen3ForCausalLM(config))
    options = {"head_dim": 20, "rotary_base": 1e6, "norm_eps": 0.1, "tie_weights": False}
    ours = from_preset("modern-xs", **TINY, d_feedforward=48, **options)
    ours.load_state_dict(renamed(theirs.state_dict(), LLAMA_NAMES))
    check_same_logits(ours, theirs)


def test_modern_without_qk_norm_gives_the_logits_of_llama():
    config = LlamaConfig(**LLAMA_SHAPE, tie_word_embeddings=False)
    theirs = with_random_weights(LlamaForCausalLM(config))
    options = {"d_feedforward": 48, "qk_norm": False, "tie_weights": False}
    ours = from_preset("modern-xs", **TINY, **options)
    ours.load_state_dict(renamed(theirs.state_dict(), LLAMA_NAMES))
    check_same_logits(ours, theirs)


class LectureModel(nn.Module):
    """Lecture 3's figures 17 and 20, with sine and cosine of a pair at one frequency."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(512, 128, padding_idx=0)
        self.encoding_layer = nn.Linear(128, 144)
        layer = nn.TransformerEncoderLayer(144, nhead=6, batch_first=True)
        self.decoder = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.out_layer = nn.Linear(144, 512)

    def forward(self, seq):
        length = seq.shape[1]
        x = self.encoding_layer(self.embedding(seq))
        frequency = torch.exp(torch.arange(0, 144, 2).float() * (-math.log(10000.0) / 144))
        angle = torch.arange(length).unsqueeze(1) * frequency
        encoding = torch.zeros(length, 144)
        encoding[:, 0::2], encoding[:, 1::2] = torch.sin(angle), torch.cos(angle)
        mask = torch.tril(torch.ones(length, length)) == 0
        output = self.decoder(x + encoding, mask=mask, is_causal=True)
        return F.log_softmax(self.out_layer(output), dim=2)


def test_lecture_gives_the_log_probabilities_of_lecture_3s_model():
    theirs, ours = LectureModel().eval(), from_preset("lecture")
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.1)
    weights = {}
    for name, weight in theirs.state_dict().items():
        parts = ("query", "key", "value") if "in_proj_" in name else ("",)
        for part, chunk in zip(parts, weight.chunk(len(parts)), strict=True):
            weights[name.replace("in_proj_", f"{part}.")] = chunk
    names = {
        "self_attn.out_proj": "attention.output",
        "self_attn": "attention",
        "linear1": "feedforward.up",
        "linear2": "feedforward.down",
        "norm1": "attention_norm",
        "norm2": "feedforward_norm",
        "decoder.layers.": "blocks.",
        "encoding_layer": "widen",
        "out_layer": "head",
    }
    ours.load_state_dict(renamed(weights, names))
    ids = torch.randint(0, 512, (2, 31))
    torch.testing.assert_close(ours(ids).log_softmax(-1), theirs(ids), atol=1e-4, rtol=1e-4)
