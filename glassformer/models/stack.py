"""A stack of Transformer blocks: the config that GPT, encoders and the Transformer share, and what
it builds.

    StackConfig → make_stack       blocks of attention and feed-forward layers
                  make_positions   learned, sinusoidal, relative, rotary or none
                  make_norm, make_cache, initialize

`Wiring` names these parts, so that a model can run outside torch.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.nn import positions
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.cache import KVCache
from glassformer.nn.layers import Activation, FeedForward, NormKind, norm
from glassformer.nn.positions import PositionKind, Positions

# --- fields of configs, with their bounds ---

VocabSize = Annotated[Count, Field(ge=1, le=2**24)]
Features = Annotated[Count, Field(ge=1, le=2**20)]
Context = Annotated[Count, Field(ge=2, le=2**24)]
Layers = Annotated[Count, Field(ge=1, le=1024)]
Heads = Annotated[Count, Field(ge=1, le=2**12)]
Width = Annotated[Count, Field(ge=1, le=2**17)]
Rate = Annotated[float, Field(ge=0, lt=1)]
"""The probability of dropout."""


def check_length(length: int, context_length: int) -> None:
    if torch.compiler.is_exporting():  # the length is a symbol, and may be any
        return
    if length > context_length:
        raise GlassformerError(
            f"{length:,} tokens do not fit in the model's context of {context_length:,}."
        )


# --- from the config to the parts ---

Initialization = Literal["gpt2", "bert", "xavier", "torch", "zero_output"]


class StackConfig(Config):
    """The shape of a stack of blocks. Models override the defaults that differ."""

    num_layers: Layers = 4
    d_model: Width = 128
    num_heads: Heads = 4
    d_feedforward: Count | None = Field(None, ge=1, le=2**20)
    """Width of the hidden feed-forward layer; null: 4 · d_model."""
    positions: PositionKind = "learned"
    norm: NormKind = "layer"
    norm_eps: float = Field(1e-5, gt=0)
    pre_norm: bool = True
    final_norm: bool = True
    """Normalise the output of the last block, which pre-norm blocks do not."""
    qk_norm: bool = False
    """Normalise each query and key head before their dot product."""
    activation: Activation = "gelu"
    bias: bool = True
    """Biases in attention, feed-forward layers and norms."""
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.0
    feedforward_dropout: Rate = 0.0

    @property
    def width_of_head(self) -> int:
        return self.d_model // self.num_heads

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_heads

    def explicit(self) -> dict[str, Any]:
        """All values; where null stands for a size that follows from others, that size."""
        return self.model_dump() | {"d_feedforward": self.d_feedforward or 4 * self.d_model}

    def check_heads(self) -> None:
        self.check_multiple("d_model", "num_heads")

    def check_multiple(self, larger: str, smaller: str, cure: str = "change one of them") -> None:
        whole, part = getattr(self, larger), getattr(self, smaller)
        if whole % part:
            raise ValueError(f"{larger} {whole} is not a multiple of {smaller} {part}; {cure}")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        self.check_heads()
        if self.positions == "rotary" and self.width_of_head % 2:
            raise ValueError(
                f"rotary positions need heads of even width, not {self.width_of_head}; change the "
                "width or the number of heads"
            )
        return self


def make_stack(config: StackConfig, num_layers: int | None = None, *, cross: bool = False) -> Stack:
    """The blocks of a stack, `config.num_layers` unless given; `cross` adds cross-attention."""
    return Stack(_block(config, cross) for _ in range(num_layers or config.num_layers))


def _block(config: StackConfig, cross: bool) -> Block:
    hidden = config.d_feedforward or 4 * config.d_model
    feedforward = FeedForward(
        config.d_model, hidden, config.activation, config.bias, config.feedforward_dropout
    )
    return Block(
        _attention(config),
        feedforward,
        partial(make_norm, config),
        cross_attention=_attention(config) if cross else None,
        pre_norm=config.pre_norm,
        dropout=config.dropout,
    )


def _attention(config: StackConfig) -> MultiHeadAttention:
    width = config.width_of_head
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        num_kv_heads=config.kv_heads,
        head_dim=width,
        bias=config.bias,
        query_norm=make_norm(config, width) if config.qk_norm else None,
        key_norm=make_norm(config, width) if config.qk_norm else None,
        dropout=config.attention_dropout,
    )


def make_norm(config: StackConfig, width: int | None = None) -> nn.Module:
    """A norm of the stack's kind, `d_model` wide unless given."""
    return norm(config.norm, width or config.d_model, config.norm_eps, config.bias)


def make_final_norm(config: StackConfig) -> nn.Module:
    return make_norm(config) if config.final_norm else nn.Identity()


def make_positions(
    config: StackConfig,
    length: int,
    rotary_base: float = 10000.0,
    stretch: positions.RotaryStretch | None = None,
) -> Positions:
    """Positions of the stack's kind for sequences of up to `length`."""
    match config.positions:
        case "learned":
            return positions.LearnedPositions(length, config.d_model)
        case "sinusoidal":
            return positions.SinusoidalPositions()
        case "relative":
            return positions.RelativePositions(config.num_heads, length - 1)
        case "rotary":
            return positions.RotaryPositions(config.width_of_head, rotary_base, stretch)
        case "none":
            return Positions()


def make_cache(config: StackConfig, padding: Tensor, capacity: int, dtype: torch.dtype) -> KVCache:
    """An empty cache for `config.num_layers` blocks; row b starts with `padding[b]` tokens."""
    heads, width = config.kv_heads, config.width_of_head
    return KVCache(config.num_layers, padding, heads, capacity, width, dtype)


def initialize(model: nn.Module, kind: Initialization, num_layers: int) -> None:
    """Initialise a stack of `num_layers` blocks and the layers around it."""
    if kind == "torch":
        return
    for module in model.modules():
        if kind == "xavier" and isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
        elif kind != "xavier" and isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    if kind in ("bert", "xavier"):
        return
    # 2 · num_layers of these outputs are summed along the residual path.
    std = 0.0 if kind == "zero_output" else 0.02 / math.sqrt(2 * num_layers)
    for name, weight in model.named_parameters():
        if name.endswith(("attention.output.weight", "feedforward.down.weight")):
            nn.init.normal_(weight, std=std)


# --- wiring: how the parts of a Transformer are connected, by their names ---
#
#     stream     ids → embedding → positions → stack of blocks
#     read-out   state after any block → logits
#                for a label of the whole text: normed states → one vector → logits
#
# A model with a wiring can be carried in a page and computed there (`inspect/live.py`), by scripts
# that know no kind of model.


@dataclass(frozen=True, kw_only=True)
class StreamWiring:
    """One sequence of tokens on its way through one stack. None: there is no such part."""

    stack: str
    embedding: str
    positions: str
    final_norm: str
    """Applied to the output of the stack."""
    is_causal: bool
    widen: str | None = None
    """Projects the embeddings to the width of the model."""
    is_scaled: bool = False
    """Embeddings are multiplied by √d_model."""
    segments: str | None = None
    """A table whose first row is added to every embedding."""
    embedding_norm: str | None = None
    """Applied to the sum of the embeddings."""
    memory: str | None = None
    """The stack whose output is attended to."""


@dataclass(frozen=True)
class Wiring:
    """The streams in the order of their computation, and the modules that read the last one out."""

    streams: tuple[StreamWiring, ...]
    read_out: tuple[str, ...]
    """Names of modules; a function, which is none, is named after a colon: ":tanh"."""
    pooling: str | None = None
    """How the states of a text become one vector before the read-out: mean, max, first, last, or
    the name of a module that weighs them by the rarity of their tokens. None: each is read out."""
