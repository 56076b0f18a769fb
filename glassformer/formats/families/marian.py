"""Marian and OPUS-MT: a post-norm Transformer that translates.

Its sinusoidal positions have all sines first and all cosines after them; ours have each sine beside
its cosine. The order of a model's coordinates means nothing else, so every tensor that reads or
writes them is reordered.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.config import Values
from glassformer.formats.family import (
    Family,
    Layout,
    WrongValueError,
    no_gate,
    our_activation,
    their_activation,
)
from glassformer.formats.links import Link, layer, reordered, same, unsqueezed

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def links(config: Any) -> Iterator[Link]:
    for link in _links(config):
        for dim in _coordinates(link.ours[0]) if link.ours else ():
            link = reordered(link, _order(config), dim)
        yield link


def _links(config: Any) -> Iterator[Link]:
    if config.target_vocab_size is None:
        yield same("embedding.weight", "model.shared.weight")
    else:
        yield same("embedding.weight", "model.encoder.embed_tokens.weight")
        yield same("target_embedding.weight", "model.decoder.embed_tokens.weight")
    encoder_layers = config.num_encoder_layers or config.num_layers
    for number in range(encoder_layers):
        yield from _block(f"encoder.{number}", f"model.encoder.layers.{number}")
    for number in range(config.num_layers):
        ours, theirs = f"decoder.{number}", f"model.decoder.layers.{number}"
        yield from _block(ours, theirs)
        yield from _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn")
        yield from layer(f"{ours}.cross_attention_norm", f"{theirs}.encoder_attn_layer_norm")
    if config.output_bias:
        yield unsqueezed("head.bias", "final_logits_bias", 1)
    else:  # they always have one
        number = config.target_vocab_size or config.vocab_size
        yield Link((), "final_logits_bias", lambda x: (), partial(torch.zeros, 1, number))
    if not config.tie_weights:
        yield same("head.weight", "lm_head.weight")


def _block(ours: str, theirs: str) -> Iterator[Link]:
    yield from _attention(f"{ours}.attention", f"{theirs}.self_attn")
    yield from layer(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm")
    yield from layer(f"{ours}.feedforward.up", f"{theirs}.fc1")
    yield from layer(f"{ours}.feedforward.down", f"{theirs}.fc2")
    yield from layer(f"{ours}.feedforward_norm", f"{theirs}.final_layer_norm")


def _attention(ours: str, theirs: str) -> Iterator[Link]:
    for mine, its in ATTENTION.items():
        yield from layer(f"{ours}.{mine}", f"{theirs}.{its}")


def _coordinates(name: str) -> Iterable[int]:
    """The dimensions of a tensor of ours that are the model's coordinates."""
    module, kind = name.rsplit(".", 1)
    part = module.rsplit(".", 1)[-1]
    if part.endswith("norm") or part in ("output", "down"):
        return (0,)  # it scales them, or writes them
    return (1,) if kind == "weight" else ()  # it reads them, or is an embedding


def _order(config: Any) -> Tensor:
    """Which coordinate of theirs is each of ours: sine, cosine, sine, cosine …"""
    half = -(-config.d_model // 2)
    places = torch.arange(config.d_model)
    return torch.where(places % 2 == 0, places // 2, half + places // 2)


def more_ours(theirs: Values) -> Values:
    _check_sides(theirs)
    is_shared = theirs.get("share_encoder_decoder_embeddings", True)
    if is_shared and not theirs["tie_word_embeddings"]:
        raise WrongValueError(
            "tie_word_embeddings is False and share_encoder_decoder_embeddings True, "
            "but a shared embedding can be imported only if it is the output layer as well."
        )
    target = theirs.get("decoder_vocab_size") or theirs["vocab_size"]
    return {
        "activation": our_activation(theirs["activation_function"]),
        "target_vocab_size": None if is_shared else target,
        "num_encoder_layers": theirs["encoder_layers"],
        "output_bias": True,
    }


def more_theirs(config: Any) -> Values:
    target = config.target_vocab_size
    return {
        "activation_function": their_activation(config.activation),
        "share_encoder_decoder_embeddings": target is None,
        "decoder_vocab_size": target or config.vocab_size,
        "tie_encoder_decoder": target is None,
        "encoder_layers": config.num_encoder_layers or config.num_layers,
        "num_hidden_layers": config.num_encoder_layers or config.num_layers,
        "encoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_feedforward or 4 * config.d_model,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
    }


def differs(config: Any) -> Iterator[str]:
    yield from no_gate(config)
    if config.target_vocab_size is None and not config.tie_weights:
        yield "tie_weights is false instead of true"


def _check_sides(theirs: Values) -> None:
    for encoder, decoder in (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
    ):
        if theirs.get(encoder, theirs[decoder]) != theirs[decoder]:
            raise WrongValueError(
                f"{encoder} is {theirs[encoder]} and {decoder} {theirs[decoder]}, but "
                "only models whose encoder and decoder have the same shape can be imported."
            )


KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "context_length",
    "d_model": "d_model",
    "decoder_layers": "num_layers",
    "decoder_attention_heads": "num_heads",
    "decoder_ffn_dim": "d_feedforward",
    "scale_embedding": "scale_embedding",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "feedforward_dropout",
    "tie_word_embeddings": "tie_weights",
}
DEFAULTS = {
    "max_position_embeddings": 1024,
    "activation_function": "gelu",
    "scale_embedding": False,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "tie_word_embeddings": True,
}
OURS = {
    "positions": "sinusoidal",
    "norm": "layer",
    "norm_eps": 1e-5,
    "pre_norm": False,
    "final_norm": False,
    "qk_norm": False,
    "bias": True,
    "initialization": "xavier",
}
THEIRS = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}

FAMILY = Family(
    "marian",
    (
        Layout(
            architecture="MarianMTModel",
            model="translator",
            inputs="pair",
            keys=KEYS,
            defaults=DEFAULTS,
            ours=OURS,
            theirs=THEIRS,
            more_ours=more_ours,
            more_theirs=more_theirs,
            differs=differs,
            links=links,
            computed=(
                r"model\.(en|de)coder\.embed_positions\.weight",
                r"model\.(en|de)coder\.embed_tokens\.weight",
                r"model\.shared\.weight",
                r"lm_head\.weight",
            ),
        ),
    ),
)
