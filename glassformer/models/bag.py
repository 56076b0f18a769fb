"""The bag of words: the mean of the embeddings, and a linear layer. No order, no attention.

    logits = head(mean(embed(ids)))        (B, C)

The baseline that every classifier must beat.
"""

from typing import Any

from pydantic import Field
from torch import Tensor, nn

from glassformer.config import Count
from glassformer.errors import GlassformerError
from glassformer.models.classifier import LabelsConfig, TextClassifier, pool
from glassformer.models.parts import WordDropout
from glassformer.nn.dropout import Dropout

STD = 0.02


class BagConfig(LabelsConfig):
    """The shape of a bag."""

    vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Count | None = Field(None, ge=1, le=2**24)
    """Of a longer text, how many tokens to read; null: all."""
    d_model: Count = Field(128, ge=1, le=2**17)
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the embeddings."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of tokens whose embedding is silenced in training."""


class Bag(TextClassifier):
    """What a text is about, from its words alone."""

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        if config.vocab_size is None:
            raise GlassformerError("a bag needs vocab_size: the number of tokens it knows.")
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        # Small: a word that was seldom seen should say little.
        nn.init.normal_(self.embedding.weight, std=STD)
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        x = self.dropout(self.word_dropout(self.embedding(ids)))  # (B, T, D)
        return pool(x, is_text)


BAG_PRESETS: dict[str, dict[str, Any]] = {"small": {"d_model": 128, "head_dropout": 0.5}}
BAG_SIZES = ((0, "small"),)
