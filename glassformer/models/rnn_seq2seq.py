"""Recurrent sequence-to-sequence: one network reads, another writes, and looks back while it does.

    h       = encoder(embed(source))                        (B, S, D)
    s       = tanh(bridge(the encoder's last vectors))      the decoder's first
    context = attention(s, h)                               for one token after the other:
    s       = cell([embed(token); context], s)
    logits  = head(tanh(combine([s; context])))

Without attention, all that the decoder knows of the source is its first vector.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Count
from glassformer.models.translator import Translator, TranslatorConfig, followed
from glassformer.nn.attention import Tap
from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.recurrent import Cell, PlaceAttention, Places, Recurrence, Vectors


class RNNTranslatorConfig(TranslatorConfig):
    """The shape of two recurrent networks and of the attention between them."""

    cell: Cell = "gru"
    num_layers: Count = Field(1, ge=1, le=1024)
    """Of the encoder, and as many of the decoder."""
    d_embedding: Count = Field(256, ge=1, le=2**17)
    d_model: Count = Field(256, ge=1, le=2**17)
    """Width of the vector that is carried along, in each direction."""
    bidirectional: bool = True
    """Read the source from both ends."""
    attention: Literal["additive", "dot", "general", "none"] = "additive"
    """How the decoder's state is compared with the places of the source."""
    tie_weights: bool = False
    """Predict with the embedding matrix of the target."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Dropout on the embeddings, between the layers and before the prediction."""

    @model_validator(mode="after")
    def _fits(self) -> RNNTranslatorConfig:
        if self.tie_weights and self.d_embedding != self.d_model:
            raise ValueError("tie_weights needs d_embedding equal to d_model")
        if self.attention == "dot" and self.bidirectional:
            raise ValueError(
                "dot attention compares states of one width, and a bidirectional encoder has "
                "states twice as wide; say general, or --one-direction"
            )
        return self

    @property
    def d_states(self) -> int:
        """Width of what the encoder says at each place."""
        return (2 if self.bidirectional else 1) * self.d_model


class RNNMemory:
    """What the encoder has read: its states at every place, and what the decoder begins with."""

    def __init__(self, places: Places | None, is_text: Tensor | None, first: Vectors) -> None:
        self.places = places  # None: without attention nobody looks back
        self.is_text = is_text
        self.first = first

    def take(self, rows: Tensor) -> RNNMemory:
        places = None if self.places is None else Places(*(each[rows] for each in self.places))
        is_text = None if self.is_text is None else self.is_text[rows]
        return RNNMemory(places, is_text, tuple(vector[:, rows] for vector in self.first))

    def __len__(self) -> int:
        return self.first[0].size(1)


class RNNTranslatorState:
    """What the decoder remembers between two steps: its vectors, and the source."""

    def __init__(self, vectors: Vectors, padding: Tensor, memory: RNNMemory, copies: int = 1):
        self.vectors = vectors
        self.padding = padding  # (B,): how many fillers a row still begins with
        self.memory = memory
        self.copies = copies  # rows, one after the other, that look at one row of the memory

    def reorder(self, indices: Tensor) -> RNNTranslatorState:
        memory, copies = followed(self.memory, indices, self.copies)
        vectors = tuple(vector[:, indices] for vector in self.vectors)
        return RNNTranslatorState(vectors, self.padding[indices], memory, copies)


class RNNTranslator(Translator):
    """Two recurrent networks, the second with an eye on the first."""

    config: RNNTranslatorConfig

    def __init__(self, config: RNNTranslatorConfig) -> None:
        super().__init__(config, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        self.encoder = Recurrence(
            config.cell,
            config.d_embedding,
            config.d_model,
            config.num_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.bridge = Linear(config.d_states, config.d_model)
        seen = 0  # width of what the decoder is shown of the source in every step
        self.attention: PlaceAttention | None = None
        if config.attention != "none":
            seen = config.d_states
            self.attention = PlaceAttention(config.attention, config.d_model, seen)
        self.decoder = Recurrence(
            config.cell,
            config.d_embedding + seen,
            config.d_model,
            config.num_layers,
            dropout=config.dropout,
        )
        self.combine = Linear(config.d_model + seen, config.d_model)
        self.head = Linear(config.d_model, self.num_targets)
        if config.tie_weights:
            self.head.weight = self.target_embedding.weight
        weights = (self.embedding.weight, self.target_embedding.weight, self.head.weight)
        for weight in dict.fromkeys(weights):  # once each, in this order
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    @property
    def taps(self) -> list[Tap]:
        return [] if self.attention is None else [self.attention.tap]

    def encode(self, source: Tensor, is_text: Tensor | None = None) -> RNNMemory:
        self.check_length(source.size(1))
        if is_text is not None and is_text.all():
            is_text = None  # rows of one length need no packing
        lengths = None if is_text is None else is_text.sum(dim=1).clamp(min=1)
        states, carried = self.encoder(self.dropout(self.embedding(source)), lengths)
        places = None if self.attention is None else self.attention.remember(states)
        return RNNMemory(places, is_text, tuple(self._bridged(vector) for vector in carried))

    def _bridged(self, carried: Tensor) -> Tensor:
        """The last vectors of both directions, as the first of the decoder: (layers, B, D)."""
        both = carried.unflatten(0, (self.config.num_layers, -1))  # (layers, directions, B, D)
        return self.bridge(both.transpose(1, 2).flatten(2)).tanh()

    def hidden(self, target: Tensor, memory: RNNMemory, own_share: float = 0.0) -> Tensor:
        """`own_share` of the tokens read are those that the model would have written itself
        (scheduled sampling): so it learns to go on after a mistake."""
        self.check_length(target.size(1))
        vectors, said = memory.first, list[Tensor]()
        for place in range(target.size(1)):
            token = target[:, place]
            if own_share and said:
                own = self.head(said[-1].detach()).argmax(-1)
                token = own.where(torch.rand(len(own), device=own.device) < own_share, token)
            output, vectors = self._read(token, vectors, memory)
            said.append(output)
        return torch.stack(said, dim=1)

    def _read(self, token: Tensor, vectors: Vectors, memory: RNNMemory) -> tuple[Tensor, Vectors]:
        """One token further: what the head predicts from (B, D), and what is carried on."""
        x = self.dropout(self.target_embedding(token))  # (B, d_embedding)
        if self.attention is None or memory.places is None:
            output, vectors = self.decoder(x[:, None], start=vectors)
            return self.dropout(self.combine(output[:, 0]).tanh()), vectors
        # The top layer's vector before this step asks: it knows what has been written so far.
        context = self.attention(vectors[0][-1], memory.places, memory.is_text)  # (B, D)
        output, vectors = self.decoder(torch.cat((x, context), dim=-1)[:, None], start=vectors)
        both = torch.cat((output[:, 0], context), dim=-1)
        return self.dropout(self.combine(both).tanh()), vectors

    def start(self, memory: RNNMemory, padding: Tensor, capacity: int) -> RNNTranslatorState:
        return RNNTranslatorState(memory.first, padding, memory)

    def step(self, ids: Tensor, state: RNNTranslatorState) -> tuple[Tensor, RNNTranslatorState]:
        output = None
        for place in range(ids.size(1)):
            output, vectors = self._read(ids[:, place], state.vectors, state.memory)
            is_filler = (state.padding > 0)[None, :, None]
            state.vectors = tuple(
                old.where(is_filler, new) for old, new in zip(state.vectors, vectors, strict=True)
            )
            state.padding = (state.padding - 1).clamp(min=0)
        if output is None:
            raise ValueError("there is nothing to read")
        return self.head(output), state


RNN_TRANSLATOR_PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_embedding": 128, "d_model": 128, "dropout": 0.1},
    "small": {"d_embedding": 256, "d_model": 256, "dropout": 0.3},
    "medium": {"num_layers": 2, "d_embedding": 512, "d_model": 512, "dropout": 0.3},
}

# Which preset suits how much text: (at least so many tokens, preset), largest first.
RNN_TRANSLATOR_SIZES = ((5e6, "medium"), (3e5, "small"), (0, "tiny"))
