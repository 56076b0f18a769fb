"""The parts that every stack of blocks is built from: positions, blocks, first weights."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.nn import masks
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block, CrossBlock
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.linear import Linear
from glassformer.nn.norms import norm
from glassformer.nn.positions import (
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)

if TYPE_CHECKING:
    from glassformer.models.encoder import EncoderConfig
    from glassformer.models.gpt import GPTConfig
    from glassformer.models.transformer import TransformerConfig

    BlockConfig: TypeAlias = EncoderConfig | GPTConfig | TransformerConfig

PositionKind = Literal["learned", "sinusoidal", "relative", "rotary", "none"]
Initialization = Literal["gpt2", "bert", "torch", "zero_output"]


class Measurements(nn.Module):
    """The numbers of a step as a vector: each brought to mean 0 and deviation 1, then mapped."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, num_features: int, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("deviation", torch.ones(num_features))
        self.linear = Linear(num_features, width)

    def learn_scale(self, values: Tensor) -> None:
        """From all the steps of the training data: (N, F)."""
        self.mean.copy_(values.double().mean(0))
        deviation = values.double().std(0, correction=0)
        self.deviation.copy_(deviation.where(deviation > 0, torch.ones(())))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear((x - self.mean) / self.deviation)


def make_embedding(vocab_size: int | None, num_features: int | None, width: int) -> nn.Module:
    """What turns a token, or the numbers of a step, into a vector."""
    if num_features is not None:
        return Measurements(num_features, width)
    if vocab_size is None:
        raise GlassformerError(
            "a model needs vocab_size, the number of tokens it knows, or num_features, the "
            "number of numbers it reads at each step."
        )
    return nn.Embedding(vocab_size, width)


def make_positions(
    kind: PositionKind,
    *,
    context_length: int,
    d_model: int,
    num_heads: int,
    head_dim: int,
    rotary_base: float = 10000.0,
) -> Positions:
    match kind:
        case "learned":
            return LearnedPositions(context_length, d_model)
        case "sinusoidal":
            return SinusoidalPositions(d_model)
        case "relative":
            return RelativePositions(num_heads, context_length - 1)
        case "rotary":
            return RotaryPositions(head_dim, rotary_base)
        case "none":
            return Positions()


def check_heads(d_model: int, num_heads: int, positions: PositionKind) -> None:
    """Heads share the width of the model, and rotary positions turn pairs of it."""
    if d_model % num_heads:
        raise ValueError(
            f"d_model {d_model} is no multiple of num_heads {num_heads}; choose another"
        )
    if positions == "rotary" and d_model // num_heads % 2:
        raise ValueError(
            f"rotary positions need an even width of heads, not {d_model // num_heads}"
        )


class Padded(Protocol):
    """What a decoder remembers of where its rows begin."""

    padding: Tensor  # (B,): how many of a row's first positions are not text
    is_padded: bool


def places(ids: Tensor, state: Padded | None, length: int) -> tuple[Tensor, Tensor | None]:
    """The positions of `ids`, the newest of `length`, and a mask if rows begin with padding."""
    positions = torch.arange(length - ids.size(1), length, device=ids.device)  # (T,)
    if state is None or not state.is_padded:
        return positions, None
    mask = masks.left_padded(state.padding, ids.size(1), length)  # (B, 1, T, S)
    return (positions - state.padding[:, None]).clamp(min=0), mask  # (B, T)


def make_block(
    config: "BlockConfig", *, num_kv_heads: int | None = None, cross: bool = False
) -> Block:
    """A block of the shape that a config has; `cross` adds cross-attention."""
    make_norm = partial(norm, config.norm, eps=config.norm_eps, bias=config.bias)

    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(
            config.d_model,
            config.num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=config.width_of_head,
            bias=config.bias,
            query_norm=make_norm(config.width_of_head) if config.qk_norm else None,
            key_norm=make_norm(config.width_of_head) if config.qk_norm else None,
            dropout=config.attention_dropout,
        )

    feedforward = FeedForward(
        config.d_model,
        config.d_feedforward or 4 * config.d_model,
        config.activation,
        config.bias,
        config.feedforward_dropout,
    )
    attentions = [attention() for _ in range(2 if cross else 1)]
    make: Callable[..., Block] = CrossBlock if cross else Block
    return make(
        *attentions,
        feedforward,
        partial(make_norm, config.d_model),
        pre_norm=config.pre_norm,
        dropout=config.dropout,
    )


def initialize(model: nn.Module, kind: Initialization, num_layers: int) -> None:
    """The first weights of a stack of `num_layers` blocks and of what is beside it."""
    if kind == "torch":
        return
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    if kind == "bert":
        return
    # 2 · num_layers of these outputs are added up along the residual path.
    std = 0.0 if kind == "zero_output" else 0.02 / math.sqrt(2 * num_layers)
    for name, weight in model.named_parameters():
        if name.endswith(("attention.output.weight", "feedforward.down.weight")):
            nn.init.normal_(weight, std=std)


class WordDropout(nn.Module):
    """Silences whole tokens in training, so that no single word decides everything."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.share == 0:
            return x
        return x * F.dropout(x.new_ones(*x.shape[:2], 1), self.share)  # (B, T, D) · (B, T, 1)
