"""The bag of words: a weighted sum of embeddings and a linear layer. No attention.

    h = ∑ weight(w) · embed(w)        over the distinct words, pairs of adjacent words, and
                                      sequences of three to five characters within a word
    logits = head(h)                  (B, C)

    mean     weight(w) = count(w) / length                              the lecture's
    tfidf    weight(w) = (1 + log count(w)) · idf(w) / norm             a rare word says more

The baseline that every classifier must beat. Pairs and character sequences are hashed into a fixed
number of embeddings, as fastText does, and count less than words, because there are so many.
Character sequences let a rare word share what was learned of words that are spelled alike.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import Count
from glassformer.models.heads import LabelsConfig, TextClassifier
from glassformer.models.stack import Rate, VocabSize, Width
from glassformer.nn.layers import Dropout
from glassformer.nn.pooling import inverse_document_frequency

PRIME = 1_000_003  # spreads the hashes of n-grams over the buckets
SHORTEST = 3  # sequence of characters that has an embedding, as in fastText
MOST_PER_WORD = 40  # sequences of characters: all of a word of up to 14 letters
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
    """Number of embeddings that sequences of tokens and of characters share."""
    char_ngrams: Count = Field(0, ge=0, le=8)
    """Longest sequence of characters within a word that has an embedding (the shortest has 3
    characters); 0: none. Only with a vocabulary of words."""
    ngram_weight: float = Field(0.3, ge=0, le=1)
    """How much a sequence of tokens or characters counts beside a single token."""
    word_dropout: Rate = 0.0
    """Share of words and n-grams that are left out in training."""


class Bag(TextClassifier):
    """Labels a text by its words, regardless of their order."""

    default_words = 2**16  # however rare
    reads_words_alone = True
    default_context = None  # a long text takes no more parameters than a short one
    config: BagConfig
    idf: Tensor
    spelling: Tensor
    """(V, MOST_PER_WORD) the embeddings of the character sequences of each word, then -1."""

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.vocab_size = self.needed(config.vocab_size, "a bag")
        has_ngrams = config.ngrams > 1 or config.char_ngrams > 0
        num_terms = self.vocab_size + (config.num_buckets if has_ngrams else 0)
        self.embedding = nn.Embedding(num_terms, config.d_model)
        self.word_dropout = Dropout(config.word_dropout)
        nn.init.normal_(self.embedding.weight, std=0.01)  # small: a rare word has little influence
        nn.init.orthogonal_(self.head.weight, gain=HEAD)
        self.register_buffer("idf", torch.ones(num_terms))
        if config.char_ngrams:
            empty = torch.full((self.vocab_size, MOST_PER_WORD), -1, dtype=torch.int32)
            self.register_buffer("spelling", empty)

    def see(self, texts: Sequence[Tensor], words: Sequence[str] = ()) -> None:
        """Look up how each word is spelled, and count in how many texts each term occurs."""
        if self.config.char_ngrams:
            for id, word in enumerate(words):
                buckets = [
                    self.vocab_size + zlib.crc32(part.encode()) % self.config.num_buckets
                    for part in character_ngrams(word, self.config.char_ngrams)
                ]
                buckets = buckets[:MOST_PER_WORD]
                self.spelling[id, : len(buckets)] = torch.tensor(buckets, dtype=torch.int32)
        terms = (self._terms(ids[None], None)[1] for ids in texts)
        self.idf.copy_(inverse_document_frequency(terms, len(self.idf)))

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        if torch.compiler.is_exporting():
            return self.dense(ids, is_text)
        row, term, count = self._terms(ids, is_text)
        weight = self.word_dropout(self._weights(row, term, count, len(ids)))
        starts = torch.searchsorted(row, torch.arange(len(ids), device=ids.device))
        return F.embedding_bag(
            term,
            self.embedding.weight,
            starts,
            mode="sum",
            sparse=self.embedding.sparse,
            per_sample_weights=weight.to(self.embedding.weight.dtype),
        )

    def dense(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """The bag as a vector with an entry for every term, not as a list of those that occur:
        slower, but the shapes do not depend on the words, as in an exported graph."""
        real = torch.ones_like(ids, dtype=torch.bool) if is_text is None else is_text
        nowhere = self.embedding.num_embeddings
        counts = torch.zeros(ids.size(0), nowhere + 1, device=ids.device)

        def count(terms: Tensor, occurs: Tensor) -> Tensor:
            columns = terms.where(occurs, nowhere).flatten(1)  # (B, occurrences)
            return counts.scatter_add(1, columns, torch.ones_like(columns, dtype=counts.dtype))

        counts = count(ids, real)
        hashed = ids
        for length in range(2, self.config.ngrams + 1):
            hashed = self._joined(hashed, ids[:, length - 1 :])
            counts = count(self._bucket(hashed), real[:, length - 1 :])
        if self.config.char_ngrams:
            spelled = self.spelling[ids].long()  # (B, T, MOST_PER_WORD)
            counts = count(spelled, (spelled >= 0) & real[..., None])
        counts = counts[:, :-1]  # (B, terms)
        is_ngram = torch.arange(nowhere, device=ids.device) >= self.vocab_size
        share = torch.where(is_ngram, self.config.ngram_weight, 1.0)
        if self.config.weighting == "mean":
            weight = counts * share
            norm = weight.sum(dim=1, keepdim=True)
        else:
            damped = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0)
            weight = damped * self.idf * share
            norm = weight.square().sum(dim=1, keepdim=True).sqrt()
        return (weight / norm.where(norm > 0, 1.0)) @ self.embedding.weight  # (B, D)

    @torch.inference_mode()
    def contributions(self, ids: Tensor) -> Tensor:
        """What a pair or a sequence of characters adds is divided equally among the tokens that it
        comes from."""
        row, term, count = self._terms(ids[None], None)
        weight = self._weights(row, term, count, 1)  # (terms,)
        adds = (weight[:, None] * self.embedding.weight[term]) @ self.head.weight.T  # (terms, C)
        position, terms, share = self._occurrences(ids)
        index = torch.searchsorted(term, terms)  # terms are sorted
        parts = adds[index] * (share / count[index])[:, None]  # (occurrences, C)
        return parts.new_zeros(len(ids), len(self.labels)).index_add_(0, position, parts)

    def _occurrences(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each position of a text (T,) that a term comes from, the term, and the position's share
        of this occurrence. All shares of a term sum to its count."""
        positions = torch.arange(len(ids), device=ids.device)
        occurrences = [(positions, ids, torch.ones_like(ids, dtype=torch.float32))]
        hashed = ids
        for length in range(2, min(self.config.ngrams, len(ids)) + 1):
            hashed = self._joined(hashed[None], ids[None, length - 1 :])[0]
            bucket = self._bucket(hashed)
            for offset in range(length):
                share = torch.full_like(bucket, 1 / length, dtype=torch.float32)
                occurrences.append((positions[: len(bucket)] + offset, bucket, share))
        if self.config.char_ngrams:
            spelled = self.spelling[ids].long()  # (T, MOST_PER_WORD)
            position, column = (spelled >= 0).nonzero(as_tuple=True)
            share = torch.ones_like(position, dtype=torch.float32)
            occurrences.append((position, spelled[position, column], share))
        position, term, share = (torch.cat(parts) for parts in zip(*occurrences, strict=True))
        return position, term, share

    def _joined(self, hashed: Tensor, ids: Tensor) -> Tensor:
        """The hashes of sequences that are one token longer: (B, T) and (B, T - 1) → (B, T - 1)."""
        return (hashed[:, :-1] * PRIME + ids + 1) % (2**31 - 1)

    def _bucket(self, hashed: Tensor) -> Tensor:
        """The number of the embedding of a sequence of tokens."""
        return self.vocab_size + hashed % self.config.num_buckets

    def _terms(self, ids: Tensor, is_text: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The distinct words and n-grams of each row of a batch, sorted: the row, the number of the
        embedding, and how often it occurs there."""
        real = torch.ones_like(ids, dtype=torch.bool) if is_text is None else is_text
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
        row, word, count = self._distinct(rows[real], ids[real])
        terms = [(row, word, count)]
        hashed = ids
        for length in range(2, self.config.ngrams + 1):
            later = length - 1
            hashed = self._joined(hashed, ids[:, later:])
            whole = real[:, later:]  # padding is on the right
            bucket = self._bucket(hashed[whole])
            terms.append((rows[:, later:][whole], bucket, torch.ones_like(bucket)))
        if self.config.char_ngrams:
            spelled = self.spelling[word].long()  # (distinct words, MOST_PER_WORD)
            index, column = (spelled >= 0).nonzero(as_tuple=True)
            terms.append((row[index], spelled[index, column], count[index]))
        if len(terms) == 1:
            return terms[0]
        return self._distinct(*(torch.cat(parts) for parts in zip(*terms, strict=True)))

    def _distinct(
        self, row: Tensor, term: Tensor, count: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Each term of a row once, with the sum of its counts."""
        num_terms = self.embedding.num_embeddings
        both = row * num_terms + term
        if count is None:
            both, count = both.unique(return_counts=True)
        else:
            both, index = both.unique(return_inverse=True)
            count = torch.zeros_like(both).index_add_(0, index, count)
        return both // num_terms, both % num_terms, count

    def _weights(self, row: Tensor, term: Tensor, count: Tensor, num_rows: int) -> Tensor:
        """weight(w) of every term of a batch."""
        is_ngram = term >= self.vocab_size
        share = torch.where(is_ngram, self.config.ngram_weight, 1.0)
        zeros = torch.zeros(num_rows, device=row.device)
        if self.config.weighting == "mean":
            weight = count * share
            return weight / zeros.index_add(0, row, weight)[row]
        weight = (1 + count.log()) * self.idf[term] * share
        return weight / zeros.index_add(0, row, weight.square()).sqrt()[row]


def character_ngrams(word: str, longest: int) -> Iterator[str]:
    """Sequences of characters within <word>, where the brackets mark its beginning and its end."""
    marked = f"<{word}>" if word else ""
    for length in range(SHORTEST, longest + 1):
        for start in range(len(marked) - length + 1):
            yield marked[start : start + length]
