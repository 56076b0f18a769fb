"""The encoder: every position looks at every other, before and after it.

    x = embed(ids) + segment + position       (B, T, D)
    x = dropout(norm(x))                      (B, T, D)
    x = block(x)   for every block            (B, T, D)

The body of BERT and of the classifiers. Rows shorter than the longest are padded on the right;
`is_text` says which positions are real, and nobody looks at the others. Numbers instead of tokens,
(B, T, F), go through a linear layer where the embedding would be.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.models.parts import (
    WordDropout,
    check_heads,
    initialize,
    make_block,
    make_embedding,
    make_positions,
)
from glassformer.nn import masks
from glassformer.nn.dropout import Dropout
from glassformer.nn.feedforward import Activation
from glassformer.nn.norms import NormKind, norm


class EncoderConfig(Config):
    """The shape of an encoder. The defaults are BERT's choices, at the size of an experiment."""

    vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens; null in a recipe: the tokenizer's."""
    num_features: Count | None = Field(None, ge=1, le=2**20)
    """For sequences of numbers instead of tokens: how many there are at each step."""
    context_length: Count = Field(128, ge=2, le=2**24)
    """How many tokens the model sees at once."""
    num_layers: Count = Field(2, ge=1, le=1024)
    d_model: Count = Field(128, ge=1, le=2**17)
    num_heads: Count = Field(4, ge=1, le=2**12)
    d_feedforward: Count | None = Field(None, ge=1, le=2**20)
    """Width inside the feed-forward layers; null: 4 · d_model."""
    num_segments: Count = Field(0, ge=0, le=2**16)
    """Kinds of parts that an input may have, each with its embedding (BERT: 2); 0: none."""
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    norm: NormKind = "layer"
    norm_eps: float = Field(1e-12, gt=0)
    pre_norm: bool = False
    embedding_norm: bool = True
    """Normalise the sum of the embeddings."""
    final_norm: bool = False
    """Normalise what the last block says; pre-norm blocks leave that undone."""
    qk_norm: bool = False
    """Normalise each query and key head before comparing them."""
    activation: Activation = "gelu"
    bias: bool = True
    """Biases in the attention, the feed-forward and the norms."""
    dropout: float = Field(0.0, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    feedforward_dropout: float = Field(0.0, ge=0, lt=1)
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of tokens whose embedding is silenced in training; helps when there is little data."""
    initialization: Literal["bert", "torch", "zero_output"] = "bert"
    """bert: normal(0.02); torch: its defaults; zero_output: normal(0.02), but residual outputs
    start at zero, so that every block starts as the identity."""

    @model_validator(mode="after")
    def _fits(self) -> EncoderConfig:
        check_heads(self.d_model, self.num_heads, self.positions)
        return self

    @property
    def width_of_head(self) -> int:
        return self.d_model // self.num_heads


class Encoder(nn.Module):
    """A stack of blocks that see the whole text."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = make_embedding(config.vocab_size, config.num_features, config.d_model)
        self.segments = (
            nn.Embedding(config.num_segments, config.d_model) if config.num_segments else None
        )
        self.positions = make_positions(
            config.positions,
            context_length=config.context_length,
            d_model=config.d_model,
            num_heads=config.num_heads,
            head_dim=config.width_of_head,
        )
        make_norm = partial(norm, config.norm, config.d_model, config.norm_eps, config.bias)
        self.embedding_norm = make_norm() if config.embedding_norm else nn.Identity()
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(make_block(config) for _ in range(config.num_layers))
        self.final_norm = make_norm() if config.final_norm else nn.Identity()
        initialize(self, config.initialization, config.num_layers)

    def forward(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) tokens or (B, T, F) numbers → (B, T, D); None for `is_text`: all of it is."""
        length, limit = ids.size(1), self.config.context_length
        if length > limit:
            raise GlassformerError(
                f"{length:,} tokens do not fit in the model's context of {limit:,}."
            )
        positions = torch.arange(length, device=ids.device)  # (T,)
        rotate = self.positions.rotation(positions)
        if is_text is not None and is_text.all():
            is_text = None  # without a mask, attention has a faster kernel
        mask = None if is_text is None else masks.padding_keys(is_text)  # (B, 1, T, T)
        x = self._embed(ids, segments, positions)  # (B, T, D)
        for block in self.blocks:
            x = block(x, mask=mask, rotate=rotate)
        return self.final_norm(x)

    def _embed(self, ids: Tensor, segments: Tensor | None, positions: Tensor) -> Tensor:
        x = self.word_dropout(self.embedding(ids))  # (B, T, D)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(positions) if segments is None else segments)
        added = self.positions.added(positions)
        x = x if added is None else x + added.to(x.dtype)
        return self.dropout(self.embedding_norm(x))
