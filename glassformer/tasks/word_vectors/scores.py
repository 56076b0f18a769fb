"""How well word vectors tell the neighbours of a word from random words: skip-gram with negative
sampling, whose loss is in `nn/loss.py`.

The pairs of a row are computed as one matrix product, as in attention, and the row shares its
random words. A neighbour at distance d of a window w counts (w − d + 1) / w: word2vec draws the
reach of each window at random instead, with the same mean.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.data.batches import ValidationWindows
from glassformer.models.word_vectors import WordVectors
from glassformer.nn.loss import negative_sampling_loss
from glassformer.preprocessing.skip_gram import OUTSIDE, SkipGram, SkipGramBatch
from glassformer.tasks.evaluating import EVALUATION_SEED, Result, held_out
from glassformer.text.word_cache import Ids

# Skip-gram is our own, not gensim's: as gradient steps it resumes, verifies, obeys time limits and
# has curves and a report like every model. gensim is reproducible only on a single thread, cannot
# continue a run exactly, saves pickle, and takes two seconds to import. A run takes twice the CPU
# time of gensim, for vectors of the same quality (docs/word-vectors.md).

ROW = 64  # tokens
ROWS = 64  # read at once
NEGATIVES = 32  # random words that the pairs of a row share


@dataclass(frozen=True)
class SkipGramResult(Result):
    """How well word vectors predict neighbours."""

    score_names = ("loss", "accuracy")
    details = ("num_pairs",)
    loss: float
    accuracy: float
    """How often a neighbour scores higher than a random word; 0.5 is chance."""
    num_pairs: int
    notes: tuple[str, ...] = ()

    def parts(self) -> list[str]:
        return [
            f"loss {self.loss:.4f} per pair",
            f"{self.accuracy:.1%} of neighbours score above a random word",
            f"{self.num_pairs:,} pairs",
        ]


class Pairs(NamedTuple):
    """The pairs of a batch: their scores, their weights, and the scores of random words."""

    scores: Tensor
    """(B, T, T): the score of each word with each other word of its row."""
    weights: Tensor
    """(B, T, T): the weight of each pair; 0 for words that are no neighbours."""
    random: Tensor
    """(B, T, K): the score of each word with the random words of its row."""


def pairs_of(model: WordVectors, batch: SkipGramBatch, window: int) -> Pairs:
    if model.contexts is None:
        raise TypeError("these word vectors cannot be trained or evaluated")
    texts, length = batch.texts, batch.ids.size(1)
    words = model.embedding(batch.ids)  # (B, T, D)
    # One look-up for both: the gradient of each is as large as the table.
    others = model.contexts(torch.cat((batch.ids, batch.negatives), dim=1))  # (B, T + K, D)
    neighbours, random = others[:, :length], others[:, length:]
    is_pair = (texts[:, :, None] == texts[:, None, :]) & (texts != OUTSIDE)[:, :, None]
    weights = nearness(length, window, texts.device) * is_pair  # (B, T, T)
    return Pairs(words @ neighbours.mT, weights, words @ random.mT)


def nearness(length: int, window: int, device: torch.device | None = None) -> Tensor:
    """(T, T): (w − d + 1) / w for positions at distance d; 0 for a position itself and beyond w."""
    positions = torch.arange(length, device=device)
    distance = (positions[:, None] - positions[None, :]).abs()
    return ((window + 1 - distance).clamp(min=0) / window) * (distance > 0)


def evaluate_skip_gram(model: WordVectors, ids: Ids, skip_gram: SkipGram) -> SkipGramResult:
    """Read all of `ids` once; the same words are left out and drawn each time."""
    windows = ValidationWindows(ids, min(ROW, max(1, len(ids) - 1)), ROWS)
    total, right, weight, count = 0.0, 0.0, 0.0, 0

    def draw(number: int) -> SkipGramBatch:
        return skip_gram.batch(windows[number][:, 1:], (EVALUATION_SEED, number), NEGATIVES)

    for batch in held_out(model, range(len(windows)), draw):
        pairs = pairs_of(model, batch, skip_gram.window)
        weight_here = pairs.weights.sum().item()
        total += negative_sampling_loss(*pairs, skip_gram.num_negatives).item() * weight_here
        is_pair = pairs.weights > 0
        row, word, _ = is_pair.nonzero(as_tuple=True)
        gaps = pairs.scores[is_pair][:, None] - pairs.random[row, word]  # (pairs, K)
        wins = (gaps > 0).float().mean(-1) + (gaps == 0).float().mean(-1) / 2
        right += (pairs.weights[is_pair] * wins).sum().item()
        weight, count = weight + weight_here, count + len(row)
    whole = max(weight, 1e-9)
    return SkipGramResult(total / whole, right / whole, count)
