"""The encoder: every position attends to every other, before and after it.

    x = embed(ids) + segment + position       (B, T, D)
    x = dropout(norm(x))                      (B, T, D)
    x = block(x)   for every block            (B, T, D)

The body of BERT and of the classifiers. Shorter rows are padded on the right; `is_text` marks the
real positions, and no position attends to padding. Numbers instead of tokens, (B, T, F), go through
a linear layer in place of the embedding.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.config import Count
from glassformer.models import stack
from glassformer.models.stack import Context, Features, Layers, Rate, StackConfig, VocabSize
from glassformer.nn.layers import Dropout, WordDropout, make_embedding
from glassformer.nn.masks import if_padded


class EncoderConfig(StackConfig):
    """The shape of an encoder. The defaults are BERT's, at the size of a small experiment."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    num_features: Features | None = None
    """Values per time step, for series of numbers instead of tokens."""
    context_length: Context = 128
    """Maximum number of tokens."""
    num_segments: Count = Field(0, ge=0, le=2**16)
    """Number of segment embeddings, which mark the parts of an input (BERT: 2); 0: none."""
    embedding_norm: bool = True
    """Normalise the sum of the embeddings."""
    word_dropout: Rate = 0.0
    """Share of tokens whose embedding is zeroed in training; helps with little data."""
    initialization: Literal["bert", "torch", "zero_output"] = "bert"
    """bert: normal(0.02); torch: PyTorch's defaults; zero_output: normal(0.02) with residual
    outputs of zero, so that every block starts as the identity."""

    num_layers: Layers = 2
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    norm_eps: float = Field(1e-12, gt=0)
    pre_norm: bool = False
    final_norm: bool = False


class Encoder(nn.Module):
    """A stack of blocks that see the whole text."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = make_embedding(config.vocab_size, config.num_features, config.d_model)
        segments = config.num_segments
        self.segments = nn.Embedding(segments, config.d_model) if segments else None
        self.positions = stack.make_positions(config, config.context_length)
        self.embedding_norm = stack.make_norm(config) if config.embedding_norm else nn.Identity()
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)
        self.blocks = stack.make_stack(config)
        self.final_norm = stack.make_final_norm(config)
        stack.initialize(self, config.initialization, config.num_layers)

    def wired(self, name: str) -> stack.StreamWiring:
        """The names of its modules, in a model that has it as the attribute `name`."""
        return stack.StreamWiring(
            stack=f"{name}.blocks",
            embedding=f"{name}.embedding",
            segments=None if self.segments is None else f"{name}.segments",
            positions=f"{name}.positions",
            embedding_norm=f"{name}.embedding_norm",
            final_norm=f"{name}.final_norm",
            is_causal=False,
        )

    def forward(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) tokens or (B, T, F) numbers → (B, T, D). `is_text` None: there is no padding."""
        stack.check_length(ids.size(1), self.config.context_length)
        x = self.word_dropout(self.embedding(ids))  # (B, T, D)
        if self.segments is not None:
            first = torch.zeros(ids.size(1), dtype=torch.long, device=ids.device)  # (T,)
            x = x + self.segments(first if segments is None else segments)
        x, rules = self.positions.both_ways(x, if_padded(is_text))
        x = self.dropout(self.embedding_norm(x))
        return self.final_norm(self.blocks(x, rules))
