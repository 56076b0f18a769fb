"""The Transformer: an encoder reads a sentence, a decoder writes its translation.

    memory = encoder(embed(source) + position)                  (B, S, D)
    x      = embed(target) + position                           (B, T, D)
    x      = block(x, memory)   for every block                 (B, T, D)
    logits = x · vocabularyᵀ                                    (B, T, V)

Each decoder block attends to the words written so far, then to the source. The preset `base` is the
paper's model; the smaller presets suit smaller data.
"""

import math
from typing import Literal

from torch import Tensor, nn

from glassformer.models import stack
from glassformer.models.memory_decoder import MemoryState
from glassformer.models.sources import Translator, TranslatorConfig
from glassformer.models.stack import Layers, Rate, StackConfig, StreamWiring, Wiring, check_length
from glassformer.nn.blocks import StackMemory
from glassformer.nn.cache import KVCache
from glassformer.nn.layers import Activation, Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.masks import if_padded
from glassformer.nn.observe import Tap


class TransformerConfig(StackConfig, TranslatorConfig):
    """The shape of an encoder and a decoder. The defaults suit a small experiment."""

    num_encoder_layers: Layers | None = None
    """Null: num_layers, as in the decoder."""
    output_bias: bool = False
    """A bias on the logits."""
    tie_weights: bool = True
    """Use the target's embedding matrix as the output layer."""
    scale_embedding: bool = True
    """Multiply embeddings by √d_model, as the paper does."""
    initialization: Literal["xavier", "gpt2", "torch", "zero_output"] = "xavier"
    """xavier: as the paper's code; gpt2: normal(0.02), residual outputs scaled down with depth;
    torch: PyTorch's defaults; zero_output: residual outputs start at zero."""

    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    activation: Activation = "relu"
    dropout: Rate = 0.1


class Transformer(Translator):
    """An encoder and a decoder with cross-attention."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, config.d_model)
        self.positions = stack.make_positions(config, config.context_length)
        self.dropout = Dropout(config.dropout)
        encoder_layers = config.num_encoder_layers or config.num_layers
        self.encoder = stack.make_stack(config, encoder_layers)
        self.encoder_norm = stack.make_final_norm(config)
        self.decoder = stack.make_stack(config, cross=True)
        self.decoder_norm = stack.make_final_norm(config)
        self.head = Linear(config.d_model, self.num_targets, bias=config.output_bias)
        if config.tie_weights:
            self.head.weight = self.target_embedding.weight
        stack.initialize(self, config.initialization, max(encoder_layers, config.num_layers))
        # Multiplied by √d_model, embeddings are as large as the positions added to them.
        std = config.d_model**-0.5 if config.scale_embedding else 0.02
        for table in dict.fromkeys((self.embedding, self.target_embedding)):
            nn.init.normal_(table.weight, std=std)

    @property
    def taps(self) -> list[Tap]:
        return [attention.tap for attention in self.decoder.cross_attentions]

    def encode(self, source: Tensor, is_text: Tensor | None = None) -> StackMemory:
        check_length(source.size(1), self.context_length)
        is_text = if_padded(is_text)
        x, rules = self.positions.both_ways(self._embed(source, self.embedding), is_text)
        x = self.encoder_norm(self.encoder(self.dropout(x), rules))  # (B, S, D)
        return self.decoder.project_memory(x, is_text)

    def hidden(self, target: Tensor, memory: StackMemory, written: KVCache | None = None) -> Tensor:
        check_length(target.size(1) + (written.length if written else 0), self.context_length)
        x, rules = self.positions.causal(self._embed(target, self.target_embedding), written)
        return self.decoder_norm(self.decoder(self.dropout(x), rules, written, memory))

    def read_out(self, states: Tensor) -> Tensor:
        """Logits of the next token from the states after any decoder block: (…, D) → (…, V)."""
        return self.head(self.decoder_norm(states))

    def wiring(self) -> Wiring:
        is_scaled = self.config.scale_embedding
        source = StreamWiring(
            stack="encoder",
            embedding="embedding",
            is_scaled=is_scaled,
            positions="positions",
            final_norm="encoder_norm",
            is_causal=False,
        )
        target = StreamWiring(
            stack="decoder",
            embedding="target_embedding",
            is_scaled=is_scaled,
            positions="positions",
            final_norm="decoder_norm",
            is_causal=True,
            memory="encoder",
        )
        return Wiring((source, target), ("decoder_norm", "head"))

    def start(self, memory: StackMemory, padding: Tensor, capacity: int) -> MemoryState:
        dtype = self.target_embedding.weight.dtype
        return MemoryState(memory, stack.make_cache(self.config, padding, capacity, dtype))

    def step(self, ids: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        return self.head(self.hidden(ids, state.memory, state.written)[:, -1]), state

    def _embed(self, ids: Tensor, table: nn.Embedding) -> Tensor:
        x = table(ids)  # (B, T, D)
        return x * math.sqrt(self.config.d_model) if self.config.scale_embedding else x
