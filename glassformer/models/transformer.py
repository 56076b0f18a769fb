"""The Transformer: an encoder reads a sentence, a decoder writes it in another language.

    memory = encoder(embed(source) + position)                  (B, S, D)
    x      = embed(target) + position                           (B, T, D)
    x      = block(x, memory)   for every block                 (B, T, D)
    logits = x · vocabularyᵀ                                    (B, T, V)

Each decoder block looks at the words written so far, then at the source, then thinks. `base` is
the shape of the paper; the smaller presets are what little data wants.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Count
from glassformer.models.parts import (
    check_heads,
    initialize,
    make_block,
    make_positions,
    places,
)
from glassformer.models.translator import Translator, TranslatorConfig, followed
from glassformer.nn import masks
from glassformer.nn.attention import Remembered, Tap
from glassformer.nn.blocks import CrossBlock
from glassformer.nn.cache import KVCache
from glassformer.nn.dropout import Dropout
from glassformer.nn.feedforward import Activation
from glassformer.nn.linear import Linear
from glassformer.nn.norms import NormKind, norm


class TransformerConfig(TranslatorConfig):
    """The shape of an encoder and a decoder. The defaults are those of a small experiment."""

    num_layers: Count = Field(4, ge=1, le=1024)
    """Of the decoder, and of the encoder if it does not have its own number."""
    num_encoder_layers: Count | None = Field(None, ge=1, le=1024)
    """Null: as many as the decoder."""
    d_model: Count = Field(128, ge=1, le=2**17)
    num_heads: Count = Field(4, ge=1, le=2**12)
    d_feedforward: Count | None = Field(None, ge=1, le=2**20)
    """Width inside the feed-forward layers; null: 4 · d_model."""
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    norm: NormKind = "layer"
    norm_eps: float = Field(1e-5, gt=0)
    pre_norm: bool = True
    final_norm: bool = True
    """Normalise what the last blocks say; pre-norm blocks leave that undone."""
    qk_norm: bool = False
    """Normalise each query and key head before comparing them."""
    activation: Activation = "relu"
    bias: bool = True
    """Biases in the attention, the feed-forward and the norms."""
    output_bias: bool = False
    """A bias on the logits."""
    tie_weights: bool = True
    """Predict with the embedding matrix of the target."""
    scale_embedding: bool = True
    """Multiply embeddings by √d_model, as the paper does."""
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    feedforward_dropout: float = Field(0.0, ge=0, lt=1)
    initialization: Literal["xavier", "gpt2", "torch", "zero_output"] = "xavier"
    """xavier: as the paper's own code; gpt2: normal(0.02), residual outputs smaller with depth;
    torch: its defaults; zero_output: residual outputs start at zero."""

    @model_validator(mode="after")
    def _fits(self) -> TransformerConfig:
        check_heads(self.d_model, self.num_heads, self.positions)
        return self

    @property
    def encoder_layers(self) -> int:
        return self.num_encoder_layers or self.num_layers

    @property
    def width_of_head(self) -> int:
        return self.d_model // self.num_heads


class Memory:
    """What the encoder says of some sentences, ready for every layer of the decoder."""

    def __init__(self, layers: list[Remembered], mask: Tensor | None) -> None:
        self.layers = layers
        self.mask = mask  # (B, 1, 1, S), None: there is no padding

    def take(self, rows: Tensor) -> Memory:
        mask = None if self.mask is None else self.mask[rows]
        return Memory([Remembered(key[rows], value[rows]) for key, value in self.layers], mask)

    def __len__(self) -> int:
        return len(self.layers[0].key)


class TransformerState:
    """What the decoder remembers between two steps: its own words, and the source."""

    def __init__(self, cache: KVCache, padding: Tensor, memory: Memory, copies: int = 1) -> None:
        self.cache = cache
        self.padding = padding  # (B,): how many of a row's first positions are not text
        self.is_padded = bool(padding.any())
        self.memory = memory
        self.copies = copies  # rows, one after the other, that look at one row of the memory

    def reorder(self, indices: Tensor) -> TransformerState:
        memory, copies = followed(self.memory, indices, self.copies)
        return TransformerState(self.cache.reorder(indices), self.padding[indices], memory, copies)


class Transformer(Translator):
    """An encoder and a decoder with cross-attention."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        width = config.d_model
        super().__init__(config, width)
        self.positions = make_positions(
            config.positions,
            context_length=config.context_length,
            d_model=width,
            num_heads=config.num_heads,
            head_dim=config.width_of_head,
        )
        self.dropout = Dropout(config.dropout)
        make_norm = partial(norm, config.norm, width, config.norm_eps, config.bias)
        self.encoder = nn.ModuleList(make_block(config) for _ in range(config.encoder_layers))
        self.encoder_norm = make_norm() if config.final_norm else nn.Identity()
        self.decoder = nn.ModuleList(
            make_block(config, cross=True) for _ in range(config.num_layers)
        )
        self.decoder_norm = make_norm() if config.final_norm else nn.Identity()
        self.head = Linear(width, self.num_targets, bias=config.output_bias)
        if config.tie_weights:
            self.head.weight = self.target_embedding.weight
        self._initialize()

    def _initialize(self) -> None:
        kind = self.config.initialization
        deepest = max(self.config.encoder_layers, self.config.num_layers)
        if kind != "xavier":
            initialize(self, kind, deepest)
        else:
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight)
                    if module.bias is not None:
                        nn.init.zeros_(module.bias)
        # Scaled up by √d_model, these are as large as the positions that are added to them.
        std = self.config.d_model**-0.5 if self.config.scale_embedding else 0.02
        for table in dict.fromkeys((self.embedding, self.target_embedding)):
            nn.init.normal_(table.weight, std=std)

    @property
    def taps(self) -> list[Tap]:
        return [block.cross_attention.tap for block in self._cross_blocks()]

    def _cross_blocks(self) -> list[CrossBlock]:
        return [block for block in self.decoder if isinstance(block, CrossBlock)]

    def encode(self, source: Tensor, is_text: Tensor | None = None) -> Memory:
        self.check_length(source.size(1))
        if is_text is not None and is_text.all():
            is_text = None  # without a mask, attention has a faster kernel
        mask = None if is_text is None else masks.padding_keys(is_text)  # (B, 1, S, S)
        positions = torch.arange(source.size(1), device=source.device)  # (S,)
        rotate = self.positions.rotation(positions)
        x = self._embed(self.embedding, source, positions)  # (B, S, D)
        for block in self.encoder:
            x = block(x, mask=mask, rotate=rotate)
        x = self.encoder_norm(x)
        layers = [block.cross_attention.remember(x) for block in self._cross_blocks()]
        return Memory(layers, None if is_text is None else is_text[:, None, None])

    def hidden(
        self, target: Tensor, memory: Memory, state: TransformerState | None = None
    ) -> Tensor:
        length = target.size(1) + (state.cache.length if state else 0)  # with what came before
        self.check_length(length)
        positions, mask = places(target, state, length)
        rotate = self.positions.rotation(positions)
        x = self._embed(self.target_embedding, target, positions)  # (B, T, D)
        for index, (block, remembered) in enumerate(zip(self.decoder, memory.layers, strict=True)):
            x = block(
                x,
                memory=remembered,
                memory_mask=memory.mask,
                mask=mask,
                causal=mask is None,
                rotate=rotate,
                cache=state.cache.layer(index) if state else None,
            )
        if state is not None:
            state.cache.advance(target.size(1))
        return self.decoder_norm(x)

    def start(self, memory: Memory, padding: Tensor, capacity: int) -> TransformerState:
        weight = self.head.weight
        cache = KVCache(
            num_layers=self.config.num_layers,
            batch=len(padding),
            num_kv_heads=self.config.num_heads,
            capacity=capacity,
            head_dim=self.config.width_of_head,
            dtype=weight.dtype,
            device=weight.device,
        )
        return TransformerState(cache, padding, memory)

    def step(self, ids: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        return self.head(self.hidden(ids, state.memory, state)[:, -1]), state

    def _embed(self, table: nn.Embedding, ids: Tensor, positions: Tensor) -> Tensor:
        x = table(ids)  # (B, T, D)
        if self.config.scale_embedding:
            x = x * math.sqrt(self.config.d_model)
        added = self.positions.added(positions)
        return self.dropout(x if added is None else x + added.to(x.dtype))


_SMALL: dict[str, Any] = {"initialization": "zero_output"}

TRANSFORMER_PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _SMALL
    | {
        "num_layers": 2,
        "d_model": 128,
        "num_heads": 4,
        "d_feedforward": 512,
        "dropout": 0.1,
    },
    # Wider ones learn some ten thousand sentences by heart before they have learned to translate.
    "small": _SMALL
    | {
        "num_layers": 4,
        "d_model": 128,
        "num_heads": 4,
        "d_feedforward": 256,
        "dropout": 0.3,
    },
    "medium": _SMALL
    | {
        "num_layers": 4,
        "d_model": 256,
        "num_heads": 4,
        "d_feedforward": 1024,
        "dropout": 0.2,
    },
    # Vaswani et al. 2017, "base": post-norm, ReLU, sinusoidal positions, one embedding for all.
    "base": {
        "num_layers": 6,
        "d_model": 512,
        "num_heads": 8,
        "d_feedforward": 2048,
        "pre_norm": False,
        "final_norm": False,
        "dropout": 0.1,
        "context_length": 512,
    },
}

# Which preset suits how much text: (at least so many tokens, preset), largest first.
TRANSFORMER_SIZES = ((1e8, "base"), (4e6, "medium"), (5e5, "small"), (0, "tiny"))
