"""Llama and Qwen3: RMS norms, rotary positions, SwiGLU, shared heads of keys and values.

Qwen3 also normalises each query and key head. Llama 3.1 and later turn their rotary positions more
slowly, so that they read longer texts.
"""

from collections.abc import Iterator
from typing import Any

from glassformer.config import Values
from glassformer.formats.family import Family, Layout, WrongValueError
from glassformer.formats.links import Link, layer, same
from glassformer.models.gpt import GPTConfig

PARTS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.up": "mlp.up_proj",
    "feedforward.down": "mlp.down_proj",
}
NORMS = {"attention_norm": "input_layernorm", "feedforward_norm": "post_attention_layernorm"}
HEAD_NORMS = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}

# What a type of rotary positions needs, and what we call it.
STRETCHES = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "original_max_position_embeddings": "original_length",
        "low_freq_factor": "low",
        "high_freq_factor": "high",
    },
}


def links(config: GPTConfig) -> Iterator[Link]:
    yield same("embedding.weight", "model.embed_tokens.weight")
    norms = NORMS | HEAD_NORMS if config.qk_norm else NORMS
    for number in range(config.num_layers):
        for ours, theirs in PARTS.items():
            yield from layer(
                f"blocks.{number}.{ours}", f"model.layers.{number}.{theirs}", config.bias
            )
        for ours, theirs in norms.items():
            yield same(f"blocks.{number}.{ours}.weight", f"model.layers.{number}.{theirs}.weight")
    yield same("final_norm.weight", "model.norm.weight")
    if not config.tie_weights:
        yield same("head.weight", "lm_head.weight")


def more_ours(theirs: Values) -> Values:
    heads = theirs["num_attention_heads"]
    if theirs["hidden_act"] not in ("silu", "swish"):
        raise WrongValueError(f"hidden_act is {theirs['hidden_act']}, not silu.")
    attention, feedforward = bool(theirs["attention_bias"]), bool(theirs.get("mlp_bias", False))
    if attention != feedforward:
        raise WrongValueError(
            f"attention_bias is {attention} and mlp_bias {feedforward}, but only "
            "models with biases in both or in neither can be imported."
        )
    if "sliding_attention" in (theirs.get("layer_types") or ()):
        raise WrongValueError("layers with sliding windows cannot be imported.")
    base, stretch = rotary(theirs)
    return {
        "head_dim": theirs.get("head_dim") or theirs["hidden_size"] // heads,
        "num_kv_heads": theirs.get("num_key_value_heads") or heads,
        "bias": attention,
        "rotary_base": base,
        "rotary_stretch": stretch,
    }


def rotary(theirs: Values) -> tuple[float, Values | None]:
    """The base of rotary positions, and how much slower they turn. Releases of transformers before
    5 write them as rope_theta and rope_scaling."""
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    base = float(rope.get("rope_theta") or theirs.get("rope_theta") or 10000.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    part = rope.get("partial_rotary_factor", theirs.get("partial_rotary_factor"))
    if part not in (None, 1):
        raise WrongValueError("rotary positions of a part of each head are unknown.")
    if kind == "default":
        return base, None
    if kind in STRETCHES:
        if lost := [key for key in STRETCHES[kind] if key not in rope]:
            raise WrongValueError(f"{lost[0]} is missing from rope_parameters. Copy it again.")
        return base, {ours: rope[key] for key, ours in STRETCHES[kind].items()}
    raise WrongValueError(
        f'rotary positions of type "{kind}" cannot be imported. These can: default, linear, llama3.'
    )


def more_theirs(config: Any) -> Values:
    rope: Values = {"rope_type": "default", "rope_theta": config.rotary_base}
    if (stretch := config.rotary_stretch) is not None:
        rope |= {"rope_type": "linear", "factor": stretch.factor}
        if stretch.original_length is not None:
            rope |= {
                "rope_type": "llama3",
                "original_max_position_embeddings": stretch.original_length,
                "low_freq_factor": stretch.low,
                "high_freq_factor": stretch.high,
            }
    return {
        "hidden_act": "silu",
        "head_dim": config.width_of_head,
        "num_key_value_heads": config.kv_heads,
        "attention_bias": config.bias,
        "mlp_bias": config.bias,
        "rope_parameters": rope,
        # Releases before 5, and other tools, read these.
        "rope_theta": config.rotary_base,
    }


def differs(config: Any) -> Iterator[str]:
    if (config.d_embedding or config.d_model) != config.d_model:
        yield f"d_embedding is {config.d_embedding} instead of d_model"


KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "context_length",
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "d_feedforward",
    "rms_norm_eps": "norm_eps",
    "tie_word_embeddings": "tie_weights",
}
OURS = {
    "positions": "rotary",
    "norm": "rms",
    "pre_norm": True,
    "final_norm": True,
    "activation": "swiglu",
    "output_bias": False,
    "initialization": "zero_output",
}
DEFAULTS = {
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "hidden_act": "silu",
}


def no_bias(config: Any) -> Iterator[str]:
    yield from differs(config)
    if config.bias:
        yield "bias is true instead of false"


def _layout(architecture: str, defaults: Values, qk_norm: bool, differs: Any) -> Layout:
    return Layout(
        architecture=architecture,
        model="gpt",
        inputs="text",
        keys=KEYS,
        defaults=defaults,
        ours=OURS | {"qk_norm": qk_norm},
        theirs={"use_sliding_window": False} if qk_norm else {},
        more_ours=more_ours,
        more_theirs=more_theirs,
        differs=differs,
        links=links,
        prefix="model.",
        computed=(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"lm_head\.weight"),
    )


LLAMA = Family("llama", (_layout("LlamaForCausalLM", DEFAULTS, False, differs),))
QWEN3_DEFAULTS = DEFAULTS | {"max_position_embeddings": 32768, "head_dim": 128}
QWEN3 = Family("qwen3", (_layout("Qwen3ForCausalLM", QWEN3_DEFAULTS, True, no_bias),))
