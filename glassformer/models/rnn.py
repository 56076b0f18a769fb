"""Recurrent networks: a vector that is carried along the sequence and changed by every token.

    state  = cell(embed(token), state)        for one token after the other
    logits = head(state)

`RNNClassifier` reads a text (or a sequence of numbers) and labels it; `RNNLanguageModel` predicts
the next token at every position. The cell is the plain RNN, the LSTM or the GRU.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.models.classifier import LabelsConfig, TextClassifier, pool
from glassformer.models.language_model import LanguageModel
from glassformer.models.parts import WordDropout, make_embedding
from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.recurrent import Cell, Recurrence, Vectors


class RNNClassifierConfig(LabelsConfig):
    """The shape of a recurrent classifier."""

    vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens; null in a recipe: the tokenizer's."""
    num_features: Count | None = Field(None, ge=1, le=2**20)
    """For sequences of numbers instead of tokens: how many there are at each step."""
    context_length: Count | None = Field(None, ge=1, le=2**24)
    """Of a longer text, how many tokens to read; null: all."""
    cell: Cell = "lstm"
    num_layers: Count = Field(1, ge=1, le=1024)
    d_embedding: Count = Field(128, ge=1, le=2**17)
    d_model: Count = Field(128, ge=1, le=2**17)
    """Width of the vector that is carried along, in each direction."""
    bidirectional: bool = True
    """Read from both ends."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the embeddings and between the layers."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of tokens whose embedding is silenced in training."""
    pooling: Literal["last", "mean", "max"] = "last"
    """last: what each direction has at its end; mean, max: of all that it had on the way."""


class RNNClassifier(TextClassifier):
    """Reads a sequence, in one direction or both, and labels it."""

    config: RNNClassifierConfig

    def __init__(self, config: RNNClassifierConfig) -> None:
        directions = 2 if config.bidirectional else 1
        super().__init__(config, directions * config.d_model, config.context_length)
        self.embedding = make_embedding(config.vocab_size, config.num_features, config.d_embedding)
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)
        self.recurrence = Recurrence(
            config.cell,
            config.d_embedding,
            config.d_model,
            config.num_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        x = self.dropout(self.word_dropout(self.embedding(ids)))  # (B, T, d_embedding)
        if is_text is not None and is_text.all():
            is_text = None  # rows of one length need no packing
        # Something must be read: of an empty text, one filler.
        lengths = None if is_text is None else is_text.sum(dim=1).clamp(min=1)
        output, carried = self.recurrence(x, lengths)
        if self.config.pooling != "last":
            return pool(output, is_text, self.config.pooling)
        directions = 2 if self.config.bidirectional else 1
        return torch.cat([*carried[0][-directions:]], dim=-1)  # of the last layer: (B, D)


class RNNLanguageModelConfig(Config):
    """The shape of a recurrent language model."""

    vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Count = Field(128, ge=2, le=2**24)
    """How many tokens it is trained to look back on."""
    cell: Cell = "lstm"
    num_layers: Count = Field(2, ge=1, le=1024)
    d_embedding: Count = Field(256, ge=1, le=2**17)
    d_model: Count = Field(256, ge=1, le=2**17)
    """Width of the vector that is carried along."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the embeddings, between the layers and before the prediction."""
    tie_weights: bool = False
    """Predict with the embedding matrix itself."""

    @model_validator(mode="after")
    def _fits(self) -> RNNLanguageModelConfig:
        if self.tie_weights and self.d_embedding != self.d_model:
            raise ValueError("tie_weights needs d_embedding equal to d_model")
        return self


class RNNState:
    """What a recurrent model remembers between two steps: its vectors, whatever it has read."""

    def __init__(self, vectors: Vectors, padding: Tensor) -> None:
        self.vectors = vectors
        self.padding = padding  # (B,): how many fillers a row still begins with

    def reorder(self, indices: Tensor) -> RNNState:
        return RNNState(tuple(v[:, indices] for v in self.vectors), self.padding[indices])


class RNNLanguageModel(LanguageModel):
    """Predicts the next token from the vector that it carries along."""

    def __init__(self, config: RNNLanguageModelConfig) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise GlassformerError("a language model needs vocab_size: the number of its tokens.")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        self.recurrence = Recurrence(
            config.cell,
            config.d_embedding,
            config.d_model,
            config.num_layers,
            dropout=config.dropout,
        )
        self.head = Linear(config.d_model, config.vocab_size)
        if config.tie_weights:
            self.head.weight = self.embedding.weight
        for weight in (self.embedding.weight, self.head.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    @property
    def context_length(self) -> int:
        return self.config.context_length

    def hidden(self, ids: Tensor, state: RNNState | None = None) -> Tensor:
        x = self.dropout(self.embedding(ids))  # (B, T, d_embedding)
        if state is None:
            output, _ = self.recurrence(x)
        elif state.padding.any():
            output = self._read_padded(x, state)
        else:
            output, state.vectors = self.recurrence(x, start=state.vectors)
        return self.dropout(output)  # (B, T, D)

    def _read_padded(self, x: Tensor, state: RNNState) -> Tensor:
        """Rows that begin with fillers are moved to the left, read from there and moved back."""
        length = x.size(1)
        fillers = state.padding.clamp(max=length)[:, None]  # (B, 1)
        place = torch.arange(length, device=x.device)  # (T,)
        row = torch.arange(len(x), device=x.device)[:, None]
        moved = x[row, (place + fillers).clamp(max=length - 1)]  # (B, T, d_embedding)
        lengths = (length - fillers[:, 0]).clamp(min=1)
        output, carried = self.recurrence(moved, lengths, state.vectors)
        untouched = (fillers == length)[None]  # (1, B, 1): rows in which there was nothing to read
        state.vectors = tuple(v.masked_fill(untouched, 0) for v in carried)
        state.padding = state.padding - fillers[:, 0]
        return output[row, (place - fillers).clamp(min=0)]

    def start(self, memory: None, padding: Tensor, capacity: int) -> RNNState:
        cells, weight = self.recurrence.cells, self.head.weight
        count = 2 if self.config.cell == "lstm" else 1
        zeros = weight.new_zeros(cells.num_layers, len(padding), cells.hidden_size)
        return RNNState((zeros,) * count, padding)


RNN_PRESETS: dict[str, dict[str, Any]] = {
    "small": {"num_layers": 2, "d_embedding": 256, "d_model": 256},
    "medium": {"num_layers": 2, "d_embedding": 512, "d_model": 512, "dropout": 0.1},
}
RNN_CLASSIFIER_PRESETS: dict[str, dict[str, Any]] = {
    "small": {"num_layers": 1, "d_embedding": 128, "d_model": 128, "dropout": 0.1},
    "medium": {"num_layers": 2, "d_embedding": 256, "d_model": 256, "dropout": 0.2},
}

# Which preset suits how much text: (at least so many tokens, preset), largest first.
RNN_SIZES = ((3e6, "medium"), (0, "small"))
