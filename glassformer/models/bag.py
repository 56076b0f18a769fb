"""The bag of words: a weighted sum of embeddings and a linear layer. No attention.

    h = ∑ weight(w) · embed(w)        over the distinct words and pairs of adjacent words
    logits = head(h)                  (B, C)

    mean     weight(w) = count(w) / length                              the lecture's
    tfidf    weight(w) = (1 + log count(w)) · idf(w) / norm             a rare word says more

    idf(w) = 1 + log((1 + texts) / (1 + texts with w))

The baseline that every classifier must beat. Pairs of words are hashed into a fixed number of
embeddings, as fastText does, and count less than words: there are so many that each is rarely seen.
"""

from collections.abc import Iterable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import Count
from glassformer.models.fields import Rate, VocabSize, Width
from glassformer.models.labeller import LabelsConfig, TextClassifier
from glassformer.nn.dropout import Dropout

PRIME = 1_000_003  # spreads the hashes of n-grams over the buckets
HEAD = 3.0  # length of the head's rows, orthogonal at first: no label starts out like another


class BagConfig(LabelsConfig):
    """The shape of a bag."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Count | None = Field(None, ge=1, le=2**24)
    """Maximum number of tokens to read; null: all."""
    d_model: Width = 32
    weighting: Literal["mean", "tfidf"] = "tfidf"
    """How much each word counts: all the same, or rare ones more."""
    ngrams: Count = Field(2, ge=1, le=5)
    """Longest sequence of adjacent tokens that has an embedding; 1: single tokens only."""
    num_buckets: Count = Field(2**16, ge=1, le=2**24)
    """Number of embeddings that sequences of two or more tokens share."""
    ngram_weight: float = Field(0.3, ge=0, le=1)
    """How much a sequence of tokens counts beside a single token."""
    word_dropout: Rate = 0.0
    """Share of words and n-grams that are left out in training."""


class Bag(TextClassifier):
    """Labels a text by its words, regardless of their order."""

    default_words = 2**16  # however rare
    default_context = None  # a long text takes no more parameters than a short one
    config: BagConfig
    idf: Tensor

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.vocab_size = self.needed(config.vocab_size, "a bag")
        num_terms = self.vocab_size + (config.num_buckets if config.ngrams > 1 else 0)
        self.embedding = nn.Embedding(num_terms, config.d_model)
        self.word_dropout = Dropout(config.word_dropout)
        nn.init.normal_(self.embedding.weight, std=0.01)  # small: a rare word has little influence
        nn.init.orthogonal_(self.head.weight, gain=HEAD)
        self.register_buffer("idf", torch.ones(num_terms))

    def see(self, texts: Iterable[Tensor]) -> None:
        """Count in how many texts each word occurs."""
        count, total = torch.zeros_like(self.idf), 0
        for ids in texts:
            count[self._terms(ids[None], None)[1].unique()] += 1
            total += 1
        self.idf.copy_(1 + ((1 + total) / (1 + count)).log())

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        num_terms = self.embedding.num_embeddings
        row, term = self._terms(ids, is_text)
        both, count = torch.unique(row * num_terms + term, return_counts=True)
        row, term = both // num_terms, both % num_terms  # sorted, each term of a row once
        weight = self.word_dropout(self._weights(row, term, count.float(), len(ids)))
        starts = torch.searchsorted(row, torch.arange(len(ids), device=ids.device))
        return F.embedding_bag(
            term,
            self.embedding.weight,
            starts,
            mode="sum",
            sparse=self.embedding.sparse,
            per_sample_weights=weight.to(self.embedding.weight.dtype),
        )

    def _terms(self, ids: Tensor, is_text: Tensor | None) -> tuple[Tensor, Tensor]:
        """Every token and n-gram of a batch: the row it is in, and the number of its embedding."""
        real = torch.ones_like(ids, dtype=torch.bool) if is_text is None else is_text
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
        found_rows, found_terms = [rows[real]], [ids[real]]
        hashed = ids
        for length in range(2, self.config.ngrams + 1):
            later = length - 1
            hashed = (hashed[:, :-1] * PRIME + ids[:, later:] + 1) % (2**31 - 1)
            whole = real[:, later:]  # padding is on the right
            found_rows.append(rows[:, later:][whole])
            found_terms.append(self.vocab_size + hashed[whole] % self.config.num_buckets)
        return torch.cat(found_rows), torch.cat(found_terms)

    def _weights(self, row: Tensor, term: Tensor, count: Tensor, num_rows: int) -> Tensor:
        is_ngram = term >= self.vocab_size
        share = torch.where(is_ngram, self.config.ngram_weight, 1.0)
        zeros = torch.zeros(num_rows, device=row.device)
        if self.config.weighting == "mean":
            weight = count * share
            return weight / zeros.index_add(0, row, weight)[row]
        weight = (1 + count.log()) * self.idf[term] * share
        return weight / zeros.index_add(0, row, weight.square()).sqrt()[row]
