"""Masking: which tokens are hidden from an encoder that learns to predict them.

Of the tokens to predict, usually 15%, 80% are hidden behind [MASK], 10% are replaced by a random
token, and 10% are left as they are, so that the model cannot rely on what it sees.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.data.rows import Array
from glassformer.preprocessing.text import MaskedTextPreprocessing
from glassformer.preprocessing.word_starts import begins_word

HIDDEN, REPLACED = 0.8, 0.1  # the rest is left as it is


class MaskedBatch(NamedTuple):
    """Windows as the model sees them, the positions to predict, and the tokens hidden there."""

    ids: Tensor
    is_asked: Tensor
    targets: Tensor


class Masking:
    """Which tokens are hidden, and behind what; for a model that sees `limit` tokens at once."""

    def __init__(self, preprocessing: MaskedTextPreprocessing, limit: int) -> None:
        tokenizer = preprocessing.tokenizer
        self.share = preprocessing.mlm_probability
        self.frame = preprocessing.frame(limit)
        self.room = self.frame.room or limit
        special = set(tokenizer.special_tokens.values())
        self.mask = preprocessing.mask
        self._is_text = np.array([id not in special for id in range(tokenizer.vocab_size)])
        self._text = np.flatnonzero(self._is_text)
        self._continues = None
        if preprocessing.whole_word_masking:
            ids = range(tokenizer.vocab_size)
            self._continues = np.array([begins_word(tokenizer, id) is False for id in ids])

    def batch(self, windows: Array, seed: tuple[int, int]) -> MaskedBatch:
        """Windows (B, T) in their frame, with some of their tokens hidden."""
        shown, is_asked = self.hide(windows, np.random.default_rng(seed))
        before, after = self.frame.before, self.frame.after
        sides = ((0, 0), (len(before), len(after)))
        ids = np.pad(shown, sides)
        ids[:, : len(before)] = before
        ids[:, ids.shape[1] - len(after) :] = after
        return MaskedBatch(
            torch.from_numpy(ids),
            torch.from_numpy(np.pad(is_asked, sides)),
            torch.from_numpy(windows[is_asked]),
        )

    def hide(self, windows: Array, random: np.random.Generator) -> tuple[Array, Array]:
        """The windows as the model sees them, and the positions to predict; both (B, T)."""
        is_asked = self._drawn(windows, random) & self._is_text[windows]
        if not is_asked.any():  # a batch with nothing to predict would have no loss
            candidates = np.argwhere(self._is_text[windows])
            if len(candidates):
                is_asked[tuple(candidates[random.integers(len(candidates))])] = True
        luck = random.random(windows.shape)
        shown = windows.copy()
        shown[is_asked & (luck < HIDDEN)] = self.mask
        replaced = is_asked & (luck >= HIDDEN) & (luck < HIDDEN + REPLACED)
        shown[replaced] = random.choice(self._text, size=int(replaced.sum()))
        return shown, is_asked

    def _drawn(self, windows: Array, random: np.random.Generator) -> Array:
        luck = random.random(windows.shape)
        if self._continues is not None:  # the pieces of a word share the luck of its first
            begins = ~self._continues[windows]
            begins[:, 0] = True
            place = np.where(begins, np.arange(windows.shape[1]), 0)
            luck = np.take_along_axis(luck, np.maximum.accumulate(place, axis=1), axis=1)
        return luck < self.share
