"""The bag of words: the mean of the embeddings and a linear layer. No order, no attention.

    logits = head(mean(embed(ids)))        (B, C)

The baseline that every classifier must beat.
"""

from pydantic import Field
from torch import Tensor, nn

from glassformer.config import Count
from glassformer.errors import GlassformerError
from glassformer.models.fields import Rate, VocabSize, Width
from glassformer.models.labeller import LabelsConfig, TextClassifier
from glassformer.nn.dropout import Dropout, WordDropout
from glassformer.nn.pooling import pool


class BagConfig(LabelsConfig):
    """The shape of a bag."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Count | None = Field(None, ge=1, le=2**24)
    """Maximum number of tokens to read; null: all."""
    d_model: Width = 128
    dropout: Rate = 0.0
    """Dropout on the embeddings."""
    word_dropout: Rate = 0.0
    """Share of tokens whose embedding is zeroed in training."""


class Bag(TextClassifier):
    """Labels a text by its words, regardless of their order."""

    default_context = None  # a long text takes no more parameters than a short one

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        if config.vocab_size is None:
            raise GlassformerError("a bag needs vocab_size, the number of tokens.")
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)  # small: a rare word has little influence
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        x = self.dropout(self.word_dropout(self.embedding(ids)))  # (B, T, D)
        return pool(x, is_text)
