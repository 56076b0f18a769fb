"""Word vectors: words that occur among the same neighbours get similar vectors (skip-gram).

    score(word c, neighbour o) = v_c · u_o

Each word has two vectors: v as a word, which is what people use, and u as a neighbour, which is
needed only to learn v. Published vectors usually come without u. The loss is in
`tasks/word_vectors/scores.py`.
"""

import torch
from torch import Tensor, nn

from glassformer.config import Config
from glassformer.errors import GlassformerError
from glassformer.models.stack import VocabSize, Width


class WordVectorsConfig(Config):
    """The size of a table of word vectors."""

    vocab_size: VocabSize | None = None
    """Number of words; null in a recipe: the tokenizer's."""
    d_model: Width = 100
    """Number of dimensions."""
    has_contexts: bool = True
    """Whether each word also has a vector as a neighbour, which training and evaluation need."""


class WordVectors(nn.Module):
    """A vector for each word, without regard to the sentence that it stands in."""

    counts: Tensor

    def __init__(self, config: WordVectorsConfig) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise GlassformerError("word vectors need vocab_size, the number of words.")
        self.config = config
        size = (config.vocab_size, config.d_model)
        self.embedding = nn.Embedding(*size)
        self.contexts = nn.Embedding(*size) if config.has_contexts else None
        # How often each word occurs in the training data; 0 if that is unknown.
        self.register_buffer("counts", torch.zeros(config.vocab_size))
        reach = 0.5 / config.d_model
        nn.init.uniform_(self.embedding.weight, -reach, reach)
        if self.contexts is not None:
            nn.init.zeros_(self.contexts.weight)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def token_vectors(self) -> Tensor:
        """(V, D)"""
        return self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) → (B, T, D)."""
        return self.embedding(ids)
