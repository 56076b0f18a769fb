"""Show, Attend and Tell: convolutions read an image, a recurrent network looks at it for each word.

    a       = convolutions(image)                               (B, N, D): one vector per place
    h       = tanh(first(mean of a))                            the decoder's initial state
    q       = h, or h + W_e embed(token)                        then, token by token: the query
    α       = softmax(v · tanh(W a + U q))                      where it looks
    z       = σ(gate(q)) · Σ α a                                what it sees, and how much of it
    h       = cell([embed(token); z], h)
    logits  = head(embed(token) + from_state(h) + from_image(z))

The gate lets it look away for words that come from the sentence rather than from the image.

Xu et al.: Show, attend and tell: neural image caption generation with visual attention, 2015. Their
convolutions are a network trained on millions of photos. Here they are small, and learned from
scratch together with the rest; a learned vector for each place says where it is.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.models import sources
from glassformer.models.memory_decoder import MemoryState
from glassformer.models.sources import CaptionConfig, CaptionDecoder
from glassformer.models.stack import Layers, Rate, Width, check_length
from glassformer.nn import attention
from glassformer.nn.attention import PlaceAttention, Places
from glassformer.nn.layers import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.observe import Tap
from glassformer.nn.patches import ConvolutionalBlock, Grid, GridPositions
from glassformer.nn.recurrent import Recurrence, RNNState, Vectors


class ShowAttendTellConfig(CaptionConfig):
    """The shape of the convolutions, of the recurrent network and of the attention between them."""

    patch_size: int = Field(8, ge=1, le=2**10)
    """Side of a place in pixels."""
    embedding: Literal["patches", "convolution"] = "convolution"
    num_encoder_layers: Layers = 2
    """Residual convolutions after the image has been reduced to its places."""
    cell: Literal["lstm", "gru"] = "lstm"
    d_embedding: Width = 128
    d_model: Width = 128
    """Width of the hidden state, and of the vector of a place."""
    query: Literal["state", "word"] = "state"
    """What chooses the places to look at. state: the hidden state, before the last word is read, as
    in the paper; word: that word, too."""
    gated: bool = True
    """Multiply what it sees by a number from 0 to 1, which the query decides."""
    dropout: Rate = 0.2
    """Dropout on the embeddings and before the output layer."""


@dataclass(frozen=True)
class ImageMemory:
    """The vectors of all places, and the initial state of the decoder."""

    places: Places
    first: Vectors

    def take(self, rows: Tensor) -> "ImageMemory":
        return ImageMemory(self.places.take(rows), tuple(state[:, rows] for state in self.first))

    def __len__(self) -> int:
        return len(self.places.keys)


class ShowAttendTell(CaptionDecoder):
    """Convolutions, and a recurrent network with attention to their places."""

    config: ShowAttendTellConfig
    returns_weights = True

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a captioner")
        width, d_embedding = config.d_model, config.d_embedding
        self.config = config
        self.context_length = config.context_length
        self.places = sources.make_embedding(config, width)
        self.positions = GridPositions(self.grid, width)
        self.blocks = nn.Sequential(
            *(ConvolutionalBlock(width) for _ in range(config.num_encoder_layers))
        )
        self.norm = nn.LayerNorm(width)
        self.num_vectors = 2 if config.cell == "lstm" else 1
        self.first = Linear(width, self.num_vectors * width)
        self.attention = PlaceAttention("additive", width, width)
        self.gate = Linear(width, 1) if config.gated else None
        self.embedding = nn.Embedding(vocab_size, d_embedding)
        self.word_query = Linear(d_embedding, width) if config.query == "word" else None
        self.decoder = Recurrence(config.cell, d_embedding + width, width, num_layers=1)
        self.from_state = Linear(width, d_embedding)
        self.from_image = Linear(width, d_embedding, bias=False)
        self.dropout = Dropout(config.dropout)
        self.head = Linear(d_embedding, vocab_size)
        sources.initialize_convolutions(self)
        nn.init.normal_(self.positions.table.weight, std=0.02)
        for weight in (self.embedding.weight, self.head.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    @property
    def grid(self) -> Grid:
        return self.places.grid(*self.config.size)

    @property
    def taps(self) -> list[Tap]:
        return [self.attention.tap]

    def encode(self, source: Tensor) -> ImageMemory:
        sources.check_pixels(tuple(source.shape), self.config.channels)
        grid = self.places.grid(*source.shape[2:])
        x = self.positions.on_grid(self.places(source), grid)  # (B, N, D)
        image = x.transpose(1, 2).unflatten(2, grid)  # (B, D, rows, columns)
        states = self.norm(self.blocks(image).flatten(2).transpose(1, 2))  # (B, N, D)
        first = self.first(states.mean(dim=1)).tanh().chunk(self.num_vectors, dim=-1)
        places = self.attention.project_memory(states)
        return ImageMemory(places, tuple(state[None] for state in first))

    def hidden(self, target: Tensor, memory: ImageMemory) -> Tensor:
        return self.hidden_and_weights(target, memory)[0]

    def hidden_and_weights(self, target: Tensor, memory: ImageMemory) -> tuple[Tensor, Tensor]:
        check_length(target.size(1), self.context_length)
        vectors, outputs, looks = memory.first, list[Tensor](), list[Tensor]()
        for token in target.unbind(dim=1):
            output, vectors, weights = self._read(token, vectors, memory)
            outputs.append(output)
            looks.append(weights)
        return torch.stack(outputs, dim=1), torch.stack(looks, dim=1)

    def _read(
        self, token: Tensor, vectors: Vectors, memory: ImageMemory
    ) -> tuple[Tensor, Vectors, Tensor]:
        """Read one token: the input of the head (B, d_embedding), the new hidden state, and how
        much it looked at each place (B, N)."""
        state = vectors[0][-1]  # (B, D): what was written before this token
        x = self.dropout(self.embedding(token))  # (B, d_embedding)
        query = state if self.word_query is None else state + self.word_query(x)
        weights = self.attention.weights(query, memory.places)  # (images, beams, N)
        seen = attention.context_of(weights, memory.places)  # (B, D)
        if self.gate is not None:
            seen = self.gate(query).sigmoid() * seen
        output, vectors = self.decoder(torch.cat((x, seen), dim=-1)[:, None], start=vectors)
        summed = x + self.from_state(output[:, 0]) + self.from_image(seen)
        return self.dropout(summed), vectors, weights.flatten(0, 1)

    def start(self, memory: ImageMemory, padding: Tensor, capacity: int) -> MemoryState:
        return MemoryState(memory, RNNState(memory.first, padding))

    def step(self, ids: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        output, written = None, state.written
        for token in ids.unbind(dim=1):
            output, vectors, _ = self._read(token, written.vectors, state.memory)
            written.advance(vectors)
        if output is None:
            raise ValueError("ids has no tokens to read")
        return self.head(output), state
