"""Recurrent networks: a hidden state that every token of the sequence updates.

    state  = cell(embed(token), state)        token by token
    logits = head(state)

`RNNClassifier` reads a text (or a series of numbers) and labels it; `RNNLanguageModel` predicts the
next token at every position. The cell is a plain RNN, an LSTM or a GRU.
"""

from collections.abc import Sequence
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.models.ensemble import Ensemble, EnsembleConfig
from glassformer.models.heads import LanguageModel
from glassformer.models.stack import Context, Features, Layers, Rate, VocabSize, Width
from glassformer.nn.layers import Dropout, Embedding, WordDropout, make_embedding
from glassformer.nn.linear import Linear
from glassformer.nn.masks import if_padded
from glassformer.nn.pooling import IdfPooling, pool
from glassformer.nn.recurrent import Cell, Recurrence, RNNState

EMBEDDING_STD = 0.1  # torch's default is 1: a word that was never learned would look important


class RNNClassifierConfig(EnsembleConfig):
    """The shape of a recurrent classifier."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    num_features: Features | None = None
    """Values per time step, for series of numbers instead of tokens."""
    context_length: Count | None = Field(None, ge=1, le=2**24)
    """Maximum number of tokens to read; null: all."""
    cell: Cell = "lstm"
    num_layers: Layers = 1
    d_embedding: Width = 128
    d_model: Width = 128
    """Width of the hidden state, in each direction."""
    bidirectional: bool = True
    """Read in both directions."""
    dropout: Rate = 0.0
    """Dropout on the embeddings and between the layers."""
    word_dropout: Rate = 0.0
    """Share of tokens whose embedding is zeroed in training."""
    pooling: Literal["last", "mean", "max", "idf"] = "last"
    """last: the final state of each direction; mean, max: of the outputs at all positions; idf: a
    sum of the outputs and the embeddings in which rare tokens count more, as in a bag of words (of
    a time series: the maximum)."""


class RNNClassifier(Ensemble):
    """Reads a sequence, in one direction or both, and labels it."""

    config: RNNClassifierConfig

    def __init__(self, config: RNNClassifierConfig) -> None:
        directions = 2 if config.bidirectional else 1
        weighted = config.vocab_size if config.pooling == "idf" else None  # tokens, if any
        width = directions * config.d_model + (config.d_embedding if weighted else 0)
        super().__init__(config, width, config.context_length, config.vocab_size)
        self.embedding = make_embedding(config.vocab_size, config.num_features, config.d_embedding)
        if isinstance(self.embedding, nn.Embedding):
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)
        sizes = (config.d_embedding, config.d_model, config.num_layers)
        self.recurrence = Recurrence(config.cell, *sizes, config.dropout, config.bidirectional)
        self.idf_pooling = IdfPooling(weighted) if weighted else None

    def see(self, texts: Sequence[Tensor], words: Sequence[str] = ()) -> None:
        super().see(texts, words)
        if self.idf_pooling is not None:
            self.idf_pooling.see(texts)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        x = self.dropout(self.word_dropout(self.embedding(ids)))  # (B, T, d_embedding)
        is_text = if_padded(is_text)
        output, carried = self.recurrence(x, is_text)
        if self.idf_pooling is not None:
            return self.idf_pooling(torch.cat([output, x], dim=-1), ids, is_text)
        if (pooling := self.config.pooling) != "last":
            return pool(output, is_text, "max" if pooling == "idf" else pooling)
        directions = 2 if self.config.bidirectional else 1
        return torch.cat([*carried[0][-directions:]], dim=-1)  # last layer: (B, D)

    @torch.inference_mode()
    def contributions(self, ids: Tensor) -> Tensor | None:
        """Each token adds its output, if these are summed up."""
        if self.config.pooling not in ("mean", "idf"):
            return None
        x = self.embedding(ids[None])  # (1, T, d_embedding)
        output, _ = self.recurrence(x)
        weights = output.new_full((len(ids),), 1 / len(ids))
        if self.idf_pooling is not None:
            output = torch.cat([output, x], dim=-1)
            weights = self.idf_pooling.weights(ids[None])[0]
        return weights[:, None] * (output[0] @ self.head.weight.T)  # (T, C)


class RNNLanguageModelConfig(Config):
    """The shape of a recurrent language model."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Context = 128
    """Number of tokens of a training sequence."""
    cell: Cell = "lstm"
    num_layers: Layers = 2
    d_embedding: Width = 256
    d_model: Width = 256
    """Width of the hidden state."""
    dropout: Rate = 0.0
    """Dropout on the embeddings, between the layers and before the output layer."""
    tie_weights: bool = False
    """Use the embedding matrix as the output layer."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tie_weights and self.d_embedding != self.d_model:
            raise ValueError("tie_weights needs d_embedding equal to d_model")
        return self


class RNNLanguageModel(LanguageModel):
    """Predicts the next token from its hidden state."""

    def __init__(self, config: RNNLanguageModelConfig) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a language model")
        self.config = config
        self.context_length = config.context_length
        self.embedding = Embedding(vocab_size, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        sizes = (config.d_embedding, config.d_model, config.num_layers)
        self.recurrence = Recurrence(config.cell, *sizes, config.dropout)
        self.head = Linear(config.d_model, vocab_size)
        if config.tie_weights:
            self.head.weight = self.embedding.weight
        for weight in (self.embedding.weight, self.head.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

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
        """Shift rows that start with padding to the left, read them and shift the output back."""
        length = x.size(1)
        fillers = state.padding.clamp(max=length)[:, None]  # (B, 1)
        position = torch.arange(length, device=x.device)  # (T,)
        row = torch.arange(len(x), device=x.device)[:, None]
        moved = x[row, (position + fillers).clamp(max=length - 1)]  # (B, T, d_embedding)
        output, carried = self.recurrence(moved, position < length - fillers, state.vectors)
        untouched = (fillers == length)[None]  # (1, B, 1): rows that are all padding
        state.vectors = tuple(v.masked_fill(untouched, 0) for v in carried)
        state.padding = state.padding - fillers[:, 0]
        return output[row, (position - fillers).clamp(min=0)]

    def start(self, memory: None, padding: Tensor, capacity: int) -> RNNState:
        sizes = (self.config.num_layers, len(padding), self.config.d_model)
        zeros = self.head.weight.new_zeros(sizes)
        count = 2 if self.config.cell == "lstm" else 1
        return RNNState((zeros,) * count, padding)
