"""Skip-gram: which words of a text are neighbours, and random words that are not, for negative
sampling.

    the train left the old station        train: (train, left) (train, old) (train, station) …

Punctuation, unknown words and a part of the frequent words are left out first, so that a window
reaches over them. Which random words are drawn follows from the seed of a batch.
"""

from typing import ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Config, Count
from glassformer.data.rows import Array
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizers import Tokenizer

OUTSIDE = -1  # the text number of places that contain no word


class SkipGramConfig(Config):
    """Which words are neighbours, and what they are compared with."""

    window: Count = Field(5, ge=1, le=64)
    """How many words away a neighbour may be, on each side; near ones count more."""
    num_negatives: Count = Field(5, ge=1, le=1024)
    """Random words that each pair is weighed against."""
    subsampling: float = Field(1e-3, ge=0, le=1)
    """Words with a larger share of the text are left out at random, the more often the more
    frequent they are; 0: none."""
    smoothing: float = Field(0.75, ge=0, le=1)
    """Random words are drawn by their frequency to this power."""


class SkipGramPreprocessing(SkipGramConfig, TextPreprocessing):
    """Texts as words and their neighbours."""

    kind: ClassVar[str] = "skip_gram"


class SkipGramBatch(NamedTuple):
    """Rows of words, the text that each word belongs to, and random words for each row."""

    ids: Tensor
    """(B, T)"""
    texts: Tensor
    """(B, T) numbers of texts: words of two texts are no neighbours; -1: not a word."""
    negatives: Tensor
    """(B, K)"""


class SkipGram:
    """Rows of neighbours from windows of text; `counts` is how often each token occurs."""

    def __init__(self, preprocessing: SkipGramPreprocessing, counts: Array) -> None:
        tokenizer = preprocessing.tokenizer
        self.window, self.num_negatives = preprocessing.window, preprocessing.num_negatives
        self._end = tokenizer.end_of_text
        is_word = are_words(tokenizer, len(counts))
        words = np.where(is_word, counts, 0).astype(np.float64)
        share = words / max(words.sum(), 1.0)
        # Mikolov et al. 2013, as in their program: √(t / f) + t / f.
        ratio = preprocessing.subsampling / np.maximum(share, 1e-12)
        share_kept = np.sqrt(ratio) + ratio if preprocessing.subsampling else np.ones_like(share)
        self._kept = np.where(is_word, share_kept, 0.0)
        smooth = np.where(words > 0, words**preprocessing.smoothing, 0.0)
        if not smooth.any():  # nothing was counted: all words alike
            smooth = is_word.astype(np.float64)
        self._drawn = np.cumsum(smooth) / max(smooth.sum(), 1.0)

    def batch(self, windows: Array, seed: tuple[int, ...], num_negatives: int) -> SkipGramBatch:
        """Windows (B, T) of ids, and `num_negatives` random words for each row."""
        random = np.random.default_rng(seed)
        is_kept = random.random(windows.shape) < self._kept[windows]
        texts = np.cumsum(windows == self._end, axis=1)  # (B, T)
        order = np.argsort(~is_kept, axis=1, kind="stable")  # what is kept moves to the left
        positions = np.where(np.take_along_axis(is_kept, order, 1), order, -1)
        longest = max(1, int((positions >= 0).sum(axis=1).max()))
        order, positions = order[:, :longest], positions[:, :longest]  # (B, T') the rest is empty
        drawn = random.random((len(windows), num_negatives))
        negatives = np.searchsorted(self._drawn, drawn, side="right")
        return SkipGramBatch(
            torch.from_numpy(np.take_along_axis(windows, order, 1)),
            torch.from_numpy(np.where(positions < 0, OUTSIDE, np.take_along_axis(texts, order, 1))),
            torch.from_numpy(np.minimum(negatives, len(self._drawn) - 1)),
        )


def are_words(tokenizer: Tokenizer, size: int) -> Array:
    """(V,) whether each token is a word or a part of one: known, with a letter or a digit."""
    others = {*tokenizer.special_tokens.values(), tokenizer.unknown}

    def spelled(id: int) -> str:
        if tokenizer.is_byte_level:  # half a character is no letter
            return tokenizer.token_bytes(id).decode(errors="ignore")
        return tokenizer.token(id)

    num_known = min(size, tokenizer.vocab_size)
    flags = [id not in others and any(map(str.isalnum, spelled(id))) for id in range(num_known)]
    return np.array(flags + [False] * (size - num_known))
