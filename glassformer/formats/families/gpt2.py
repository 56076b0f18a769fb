"""GPT-2: pre-norm blocks, learned positions; query, key and value side by side in one matrix."""

from collections.abc import Iterator
from typing import Any

from glassformer.config import Values
from glassformer.formats.family import (
    Family,
    Layout,
    no_gate,
    our_activation,
    plain_heads,
    their_activation,
)
from glassformer.formats.links import Link, fused, layer, same, transposed
from glassformer.models.gpt import GPTConfig

ATTENTION = tuple(f"attention.{part}" for part in ("query", "key", "value"))


def links(config: GPTConfig) -> Iterator[Link]:
    yield same("embedding.weight", "transformer.wte.weight")
    yield same("positions.table.weight", "transformer.wpe.weight")
    for number in range(config.num_layers):
        ours, theirs = f"blocks.{number}", f"transformer.h.{number}"
        yield from fused([f"{ours}.{part}" for part in ATTENTION], f"{theirs}.attn.c_attn")
        yield from transposed(f"{ours}.attention.output", f"{theirs}.attn.c_proj")
        yield from transposed(f"{ours}.feedforward.up", f"{theirs}.mlp.c_fc")
        yield from transposed(f"{ours}.feedforward.down", f"{theirs}.mlp.c_proj")
        yield from layer(f"{ours}.attention_norm", f"{theirs}.ln_1", config.norm == "layer")
        yield from layer(f"{ours}.feedforward_norm", f"{theirs}.ln_2", config.norm == "layer")
    yield from layer("final_norm", "transformer.ln_f", config.norm == "layer")
    if not config.tie_weights:
        yield same("head.weight", "lm_head.weight")


def more_ours(theirs: Values) -> Values:
    return {
        "d_feedforward": theirs.get("n_inner") or 4 * int(theirs["n_embd"]),
        "activation": our_activation(theirs["activation_function"]),
    }


def more_theirs(config: Any) -> Values:
    return {
        "n_inner": config.d_feedforward or 4 * config.d_model,
        "activation_function": their_activation(config.activation),
        "n_ctx": config.context_length,
        "resid_pdrop": config.dropout,
    }


def differs(config: Any) -> Iterator[str]:
    yield from plain_heads(config)
    yield from no_gate(config)
    if (config.d_embedding or config.d_model) != config.d_model:
        yield f"d_embedding is {config.d_embedding} instead of d_model"


KEYS = {
    "vocab_size": "vocab_size",
    "n_positions": "context_length",
    "n_embd": "d_model",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "layer_norm_epsilon": "norm_eps",
    "embd_pdrop": "dropout",
    "attn_pdrop": "attention_dropout",
    "tie_word_embeddings": "tie_weights",
}
DEFAULTS = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "tie_word_embeddings": True,
}
COMMON = {
    "positions": "learned",
    "pre_norm": True,
    "final_norm": True,
    "qk_norm": False,
    "bias": True,
    "output_bias": False,
}
THEIRS = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}

FAMILY = Family(
    "gpt2",
    (
        Layout(
            architecture="GPT2LMHeadModel",
            model="gpt",
            inputs="text",
            keys=KEYS,
            defaults=DEFAULTS,
            ours=COMMON | {"norm": "layer", "initialization": "gpt2"},
            theirs=THEIRS,
            more_ours=more_ours,
            more_theirs=more_theirs,
            differs=differs,
            links=links,
            prefix="transformer.",
            computed=(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias", r"lm_head\.weight"),
        ),
    ),
)
