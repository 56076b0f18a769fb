"""GPT: a causal language model. Each position predicts the next token from itself and the past.

    x      = embed(ids) + position            (B, T, D)
    x      = block(x)   for every block       (B, T, D)
    logits = norm(x) · vocabularyᵀ            (B, T, V)

The causal mask lets one pass train every position at once. What differs between the lecture's
model, GPT-2 and today's models is data: see `gpt_presets.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.models.language_model import LanguageModel
from glassformer.models.parts import (
    PositionKind,
    initialize,
    make_block,
    make_positions,
    places,
)
from glassformer.nn.cache import KVCache
from glassformer.nn.dropout import Dropout
from glassformer.nn.feedforward import Activation
from glassformer.nn.linear import Linear
from glassformer.nn.norms import NormKind, norm


class GPTConfig(Config):
    """The shape of a GPT. The defaults are GPT-2's choices at the size of a small experiment."""

    vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Count = Field(256, ge=2, le=2**24)
    """How many tokens the model sees at once."""
    num_layers: Count = Field(6, ge=1, le=1024)
    d_model: Count = Field(384, ge=1, le=2**17)
    num_heads: Count = Field(6, ge=1, le=2**12)
    num_kv_heads: Count | None = Field(None, ge=1, le=2**20)
    """Heads of keys and values, shared by groups of query heads; null: one per query head."""
    head_dim: Count | None = Field(None, ge=1, le=2**20)
    """Width of one head; null: d_model / num_heads."""
    d_embedding: Count | None = Field(None, ge=1, le=2**20)
    """Width of the token embedding, projected to d_model when they differ; null: d_model."""
    d_feedforward: Count | None = Field(None, ge=1, le=2**20)
    """Width inside the feed-forward layers; null: 4 · d_model."""
    positions: PositionKind = "learned"
    rotary_base: float = Field(10000.0, gt=0)
    norm: NormKind = "layer"
    norm_eps: float = Field(1e-5, gt=0)
    pre_norm: bool = True
    final_norm: bool = True
    qk_norm: bool = False
    """Normalise each query and key head before comparing them."""
    activation: Activation = "gelu_tanh"
    bias: bool = True
    """Biases in the attention, the feed-forward and the norms."""
    output_bias: bool = False
    """A bias on the logits."""
    tie_weights: bool = True
    """Predict with the embedding matrix itself."""
    dropout: float = Field(0.0, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    feedforward_dropout: float = Field(0.0, ge=0, lt=1)
    initialization: Literal["gpt2", "torch", "zero_output"] = "gpt2"
    """gpt2: normal(0.02), residual outputs smaller with depth; torch: its defaults;
    zero_output: residual outputs start at zero, so that every block starts as the identity."""

    @model_validator(mode="after")
    def _fits(self) -> GPTConfig:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"d_model {self.d_model} is no multiple of num_heads {self.num_heads}; "
                "choose another, or set head_dim"
            )
        if self.num_kv_heads and self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is no multiple of num_kv_heads {self.num_kv_heads}"
            )
        if self.positions == "rotary" and self.width_of_head % 2:
            raise ValueError(f"rotary positions need an even head_dim, not {self.width_of_head}")
        if self.tie_weights and self.d_embedding not in (None, self.d_model):
            raise ValueError("tie_weights needs d_embedding equal to d_model")
        return self

    @property
    def width_of_head(self) -> int:
        return self.head_dim or self.d_model // self.num_heads


class GPTState:
    """What a GPT remembers between two steps of decoding."""

    def __init__(self, cache: KVCache, padding: Tensor) -> None:
        self.cache = cache
        self.padding = padding  # (B,): how many of a row's first positions are not text
        self.is_padded = bool(padding.any())

    def reorder(self, indices: Tensor) -> GPTState:
        return GPTState(self.cache.reorder(indices), self.padding[indices])


class GPT(LanguageModel):
    """A stack of causal blocks between an embedding and a prediction."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise GlassformerError("a GPT needs vocab_size: the number of tokens it knows.")
        self.config = config
        d_embedding = config.d_embedding or config.d_model
        self.embedding = nn.Embedding(config.vocab_size, d_embedding)
        self.widen = Linear(d_embedding, config.d_model) if d_embedding != config.d_model else None
        self.positions = make_positions(
            config.positions,
            context_length=config.context_length,
            d_model=config.d_model,
            num_heads=config.num_heads,
            head_dim=config.width_of_head,
            rotary_base=config.rotary_base,
        )
        self.dropout = Dropout(config.dropout)
        make_norm = partial(norm, config.norm, config.d_model, config.norm_eps, config.bias)
        new_block = partial(make_block, config, num_kv_heads=config.num_kv_heads)
        self.blocks = nn.ModuleList(new_block() for _ in range(config.num_layers))
        self.final_norm = make_norm() if config.final_norm else nn.Identity()
        self.head = Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        if config.tie_weights:
            self.head.weight = self.embedding.weight
        initialize(self, config.initialization, config.num_layers)

    @property
    def context_length(self) -> int:
        return self.config.context_length

    def hidden(self, ids: Tensor, state: GPTState | None = None) -> Tensor:
        length = ids.size(1) + (state.cache.length if state else 0)  # with what came before: S
        if length > self.context_length:
            raise GlassformerError(
                f"{length:,} tokens do not fit in the model's context of {self.context_length:,}."
            )
        positions, mask = places(ids, state, length)
        rotate = self.positions.rotation(positions)
        bias = self.positions.bias(ids.size(1), length)
        x = self._embed(ids, positions)  # (B, T, D)
        for index, block in enumerate(self.blocks):
            cache = state.cache.layer(index) if state else None
            x = block(x, mask=mask, causal=mask is None, bias=bias, rotate=rotate, cache=cache)
        if state is not None:
            state.cache.advance(ids.size(1))
        return self.final_norm(x)

    def start(self, memory: None, padding: Tensor, capacity: int) -> GPTState:
        weight = self.embedding.weight
        cache = KVCache(
            num_layers=self.config.num_layers,
            batch=len(padding),
            num_kv_heads=self.config.num_kv_heads or self.config.num_heads,
            capacity=capacity,
            head_dim=self.config.width_of_head,
            dtype=weight.dtype,
            device=weight.device,
        )
        return GPTState(cache, padding)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(ids)  # (B, T, d_embedding)
        if self.widen is not None:
            x = self.widen(x)
        added = self.positions.added(positions)
        return self.dropout(x if added is None else x + added.to(x.dtype))
