"""Recurrent sequence-to-sequence: one network reads, another writes and attends to the first.

    h       = encoder(embed(source))                        (B, S, D)
    s       = tanh(bridge(the encoder's final state))       the decoder's initial state
    context = attention(s, h)                               then, token by token:
    s       = cell([embed(token); context], s)
    logits  = head(tanh(combine([s; context])))

Without attention, the decoder knows the source only through its initial state.
"""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from glassformer.models.memory_decoder import MemoryState
from glassformer.models.sources import Translator, TranslatorConfig
from glassformer.models.stack import Layers, Rate, Width, check_length
from glassformer.nn.attention import PlaceAttention, Places
from glassformer.nn.layers import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.masks import if_padded
from glassformer.nn.observe import Tap
from glassformer.nn.recurrent import Cell, Recurrence, RNNState, Vectors


class RNNTranslatorConfig(TranslatorConfig):
    """The shape of two recurrent networks and of the attention between them."""

    cell: Cell = "gru"
    num_layers: Layers = 1
    """Number of layers of the encoder, and of the decoder."""
    d_embedding: Width = 256
    d_model: Width = 256
    """Width of the hidden state, in each direction."""
    bidirectional: bool = True
    """Read the source in both directions."""
    attention: Literal["additive", "dot", "general", "none"] = "additive"
    """How the decoder's state is scored against the encoder's states."""
    tie_weights: bool = False
    """Use the target's embedding matrix as the output layer."""
    dropout: Rate = 0.2
    """Dropout on the embeddings, between the layers and before the output layer."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tie_weights and self.d_embedding != self.d_model:
            raise ValueError("tie_weights needs d_embedding equal to d_model")
        if self.attention == "dot" and self.bidirectional:
            raise ValueError(
                "dot attention needs states of equal width, and those of a bidirectional encoder "
                "are twice as wide; use general attention, or pass --one-direction"
            )
        return self


@dataclass(frozen=True)
class RNNMemory:
    """The encoder's states at every position, and the initial state of the decoder."""

    places: Places | None  # None without attention
    first: Vectors

    def take(self, rows: Tensor) -> "RNNMemory":
        places = None if self.places is None else self.places.take(rows)
        return RNNMemory(places, tuple(vector[:, rows] for vector in self.first))

    def __len__(self) -> int:
        return self.first[0].size(1)


class RNNTranslator(Translator):
    """Two recurrent networks, with attention from the second to the first."""

    config: RNNTranslatorConfig
    can_read_its_own_words = True

    def __init__(self, config: RNNTranslatorConfig) -> None:
        super().__init__(config, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        sizes = (config.d_model, config.num_layers, config.dropout)
        self.encoder = Recurrence(config.cell, config.d_embedding, *sizes, config.bidirectional)
        d_states = 2 * config.d_model if config.bidirectional else config.d_model
        self.bridge = Linear(d_states, config.d_model)
        seen = 0  # width of the context vector that the decoder gets in every step
        self.attention: PlaceAttention | None = None
        if config.attention != "none":
            seen = d_states
            self.attention = PlaceAttention(config.attention, config.d_model, seen)
        self.decoder = Recurrence(config.cell, config.d_embedding + seen, *sizes)
        self.combine = Linear(config.d_model + seen, config.d_model)
        self.head = Linear(config.d_model, self.num_targets)
        if config.tie_weights:
            self.head.weight = self.target_embedding.weight
        weights = (self.embedding.weight, self.target_embedding.weight, self.head.weight)
        for weight in dict.fromkeys(weights):  # each once, in a fixed order
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    @property
    def taps(self) -> list[Tap]:
        return [] if self.attention is None else [self.attention.tap]

    @property
    def score_kind(self) -> str:
        """How the decoder's state is scored against those of the encoder."""
        return self.config.attention

    def encode(self, source: Tensor, is_text: Tensor | None = None) -> RNNMemory:
        check_length(source.size(1), self.context_length)
        is_text = if_padded(is_text)
        states, carried = self.encoder(self.dropout(self.embedding(source)), is_text)
        places = None if self.attention is None else self.attention.project_memory(states, is_text)
        return RNNMemory(places, tuple(self._bridged(vector) for vector in carried))

    def _bridged(self, carried: Tensor) -> Tensor:
        """The final states of both directions as the decoder's initial state: (layers, B, D)."""
        both = carried.unflatten(0, (self.config.num_layers, -1))  # (layers, directions, B, D)
        return self.bridge(both.transpose(1, 2).flatten(2)).tanh()

    def hidden(self, target: Tensor, memory: RNNMemory, own_share: float = 0.0) -> Tensor:
        """A random `own_share` of the tokens is replaced by the model's own predictions (scheduled
        sampling), so that it learns to continue after a mistake."""
        check_length(target.size(1), self.context_length)
        vectors, outputs = memory.first, list[Tensor]()
        for token in target.unbind(dim=1):
            if own_share and outputs:
                guess = self.head(outputs[-1].detach()).argmax(-1)
                token = guess.where(torch.rand(len(guess), device=guess.device) < own_share, token)
            output, vectors = self._read(token, vectors, memory)
            outputs.append(output)
        return torch.stack(outputs, dim=1)

    def _read(self, token: Tensor, vectors: Vectors, memory: RNNMemory) -> tuple[Tensor, Vectors]:
        """Read one token: the input of the head, (B, D), and the new hidden state."""
        x = self.dropout(self.target_embedding(token))  # (B, d_embedding)
        context = []  # (B, D), or nothing without attention
        if self.attention is not None and memory.places is not None:
            # The query is the top layer's state before this step: it encodes what has been written.
            context = [self.attention(vectors[0][-1], memory.places)]
        output, vectors = self.decoder(torch.cat((x, *context), dim=-1)[:, None], start=vectors)
        both = torch.cat((output[:, 0], *context), dim=-1)
        return self.dropout(self.combine(both).tanh()), vectors

    def start(self, memory: RNNMemory, padding: Tensor, capacity: int) -> MemoryState:
        return MemoryState(memory, RNNState(memory.first, padding))

    def step(self, ids: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        output, written = None, state.written
        for token in ids.unbind(dim=1):
            output, vectors = self._read(token, written.vectors, state.memory)
            written.advance(vectors)
        if output is None:
            raise ValueError("ids has no tokens to read")
        return self.head(output), state
