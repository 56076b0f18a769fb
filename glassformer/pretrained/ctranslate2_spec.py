"""Models of ours as specifications of CTranslate2: its own names for the same tensors.

self_attention.linear[0]     query, key and value, one below the other
self_attention.linear[1]     output
attention.linear[0], [1]     query; key and value, one below the other    (cross-attention)
ffn.linear_0, linear_1       up (with SwiGLU: gate, and linear_0_noact: up), down
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.bert import Bert
from glassformer.models.gpt import GPT
from glassformer.models.transformer import Transformer
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.positions import Positions, sinusoids

ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "quick_gelu": "GELUSigmoid",
    "relu": "RELU",
    "silu": "SWISH",
    "swiglu": "SWISH",
}


def differences(config: Any) -> Iterator[str]:
    """What of a config CTranslate2 does not compute, in words."""
    if config.positions == "relative":
        yield "positions is relative"
    if config.final_norm and not config.pre_norm:
        yield "final_norm is true although pre_norm is false"
    if config.qk_norm and config.norm != "rms":
        yield f"qk_norm is true and norm is {config.norm} instead of rms"
    if (getattr(config, "d_embedding", None) or config.d_model) != config.d_model:
        yield f"d_embedding is {config.d_embedding} instead of d_model"
    stretch = getattr(config, "rotary_stretch", None)
    if stretch is not None and stretch.original_length is not None:
        yield "rotary_stretch has an original_length"


def spec_of(model: nn.Module) -> Any:
    """The specification of a model, with its weights."""
    from ctranslate2.specs import (
        TransformerDecoderModelSpec,
        TransformerEncoderModelSpec,
        TransformerSpec,
    )

    match model:
        case GPT():
            decoder = _decoder(model.config, with_encoder_attention=False)
            _fill_decoder(decoder, model, model.blocks, model.embedding, model.final_norm)
            return TransformerDecoderModelSpec(decoder)
        case Bert():
            body = model.encoder
            encoder = _encoder(model.config, model.config.num_layers)
            _fill_stack(encoder, body.blocks, body.final_norm)
            tables = [body.embedding, *([] if body.segments is None else [body.segments])]
            for place, table in zip(encoder.embeddings, tables, strict=True):
                place.weight = _own(table.get_parameter("weight"))
            if model.config.embedding_norm:
                _fill_norm(encoder.layernorm_embedding, body.embedding_norm)
            encoder.scale_embeddings = False
            _fill_positions(encoder, model.config, body.positions)
            return TransformerEncoderModelSpec(encoder)
        case Transformer():
            config = model.config
            encoder = _encoder(config, config.num_encoder_layers or config.num_layers)
            _fill_stack(encoder, model.encoder, model.encoder_norm)
            encoder.embeddings[0].weight = _own(model.embedding.weight)
            encoder.scale_embeddings = config.scale_embedding
            _fill_positions(encoder, config, model.positions)
            decoder = _decoder(config, with_encoder_attention=True)
            table = model.target_embedding
            _fill_decoder(decoder, model, model.decoder, table, model.decoder_norm)
            decoder.scale_embeddings = config.scale_embedding
            return TransformerSpec(encoder, decoder)
    raise TypeError(type(model).__name__)


def _options(config: Any) -> dict[str, Any]:
    """What encoders and decoders have in common."""
    from ctranslate2.specs import common_spec
    from ctranslate2.specs.attention_spec import RotaryScalingType

    found: dict[str, Any] = {
        "pre_norm": config.pre_norm,
        "no_final_norm": not config.final_norm,
        "activation": common_spec.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm == "rms",
        "head_dim": config.width_of_head,
        "qk_norm": config.qk_norm,
    }
    if config.kv_heads != config.num_heads:
        found["num_heads_kv"] = config.kv_heads
    if config.positions == "rotary":
        found |= {
            "rotary_dim": config.width_of_head,
            "rotary_interleave": False,
            "rotary_base": getattr(config, "rotary_base", 10000.0),
        }
        stretch = getattr(config, "rotary_stretch", None)
        if stretch is not None:
            found |= {
                "rotary_scaling_type": RotaryScalingType.Linear,
                "rotary_scaling_factor": stretch.factor,
            }
    return found


def _encoder(config: Any, num_layers: int) -> Any:
    from ctranslate2.specs import TransformerEncoderSpec, common_spec

    has_segments = bool(getattr(config, "num_segments", 0))
    return TransformerEncoderSpec(
        num_layers,
        config.num_heads,
        layernorm_embedding=getattr(config, "embedding_norm", False),
        num_source_embeddings=2 if has_segments else 1,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
        **_options(config),
    )


def _decoder(config: Any, with_encoder_attention: bool) -> Any:
    from ctranslate2.specs import TransformerDecoderSpec

    return TransformerDecoderSpec(
        config.num_layers,
        config.num_heads,
        with_encoder_attention=with_encoder_attention,
        **_options(config),
    )


def _fill_decoder(
    spec: Any, model: Any, stack: Stack, table: nn.Embedding, final_norm: nn.Module
) -> None:
    _fill_stack(spec, stack, final_norm)
    spec.embeddings.weight = _own(table.weight)
    spec.scale_embeddings = False
    if hasattr(spec, "position_encodings"):
        _fill_positions(spec, model.config, model.positions)
    _fill_linear(spec.projection, model.head)


def _fill_stack(spec: Any, stack: Stack, final_norm: nn.Module) -> None:
    for layer, block in zip(spec.layer, stack, strict=True):
        _fill_block(layer, block)  # type: ignore[arg-type]
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec.layer_norm, final_norm)


def _fill_block(spec: Any, block: Block) -> None:
    _fill_attention(spec.self_attention, block.attention)
    _fill_norm(spec.self_attention.layer_norm, block.attention_norm)
    if block.cross_attention is not None:
        _fill_attention(spec.attention, block.cross_attention)
        _fill_norm(spec.attention.layer_norm, block.cross_attention_norm)
    hidden = block.feedforward
    _fill_linear(spec.ffn.linear_0, hidden.up if hidden.gate is None else hidden.gate)
    if hidden.gate is not None:
        _fill_linear(spec.ffn.linear_0_noact, hidden.up)
    _fill_linear(spec.ffn.linear_1, hidden.down)
    _fill_norm(spec.ffn.layer_norm, block.feedforward_norm)


def _fill_attention(spec: Any, attention: MultiHeadAttention) -> None:
    query, key, value = attention.query, attention.key, attention.value
    if len(spec.linear) == 2:  # self-attention
        _fill_linear(spec.linear[0], query, key, value)
    else:
        _fill_linear(spec.linear[0], query)
        _fill_linear(spec.linear[1], key, value)
    _fill_linear(spec.linear[-1], attention.output)
    if hasattr(spec, "q_norm"):
        _fill_norm(spec.q_norm, attention.query_norm)
        _fill_norm(spec.k_norm, attention.key_norm)


def _fill_linear(spec: Any, *layers: nn.Linear) -> None:
    """Layers with the same input become one, their outputs one after the other."""
    spec.weight = _own(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = _own(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _own(norm.weight)
    if hasattr(spec, "beta"):
        bias = getattr(norm, "bias", None)
        spec.beta = _own(torch.zeros_like(norm.weight) if bias is None else bias)


def _fill_positions(spec: Any, config: Any, positions: Positions) -> None:
    """What is added to the embeddings, as a table; zeros if nothing is."""
    table = torch.zeros(config.context_length, config.d_model)
    if config.positions == "learned":
        table = positions.get_parameter("table.weight")
    elif config.positions == "sinusoidal":
        table = sinusoids(torch.arange(config.context_length), config.d_model)
    spec.position_encodings.encodings = _own(table)


def _own(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()
