"""Masked text: tokens that are hidden, which an encoder learns to predict.

    the train left the station        the train [MASK] the station        target: left

Of the tokens to predict, usually 15%, 80% are hidden behind [MASK], 10% are replaced by a random
token, and 10% are left as they are, so that the model cannot rely on what it sees. Which ones
follows from the seed of a batch.
"""

from typing import ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.config import Config
from glassformer.data.rows import Array
from glassformer.preprocessing import TextInput, begins_word
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizers import MASKS


class MaskedConfig(Config):
    """How tokens are hidden in masked-token training."""

    mlm_probability: float = Field(0.15, gt=0, lt=1)
    """Share of the tokens to predict: 80% of them are hidden, 10% replaced by random tokens, and
    10% left as they are."""
    whole_word_masking: bool = False
    """Hide either all pieces of a word or none."""


class MaskedTextPreprocessing(MaskedConfig, TextPreprocessing):
    """Texts in which some tokens are hidden, and how many."""

    kind: ClassVar[str] = "masked_text"

    @model_validator(mode="after")
    def _has_mask(self) -> "MaskedTextPreprocessing":
        if not any(mask in self.tokenizer.special_tokens for mask in MASKS):
            raise ValueError(
                f"the tokenizer of a masked language model has no token {' or '.join(MASKS)}"
            )
        return self

    @property
    def mask_name(self) -> str:
        """How the vocabulary writes the token that hides another."""
        return next(mask for mask in MASKS if mask in self.tokenizer.special_tokens)

    @property
    def mask(self) -> int:
        """The token that hides another."""
        return self.tokenizer.special_tokens[self.mask_name]

    @property
    def mask_takes_blanks(self) -> bool:
        """Whether a mask stands for the blank before it, too: in training here, it does where
        tokens include that blank; a tokenizer of another tool says so."""
        tokenizer = self.tokenizer
        has_rule = tokenizer.own_frame is not None
        return tokenizer.takes_blanks_before(self.mask) if has_rule else tokenizer.carries_blanks

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        frame = self.frame(None)
        return (
            TextInput(
                tokenizer="tokenizer",
                before=tuple(frame.before),
                after=tuple(frame.after),
                mask=self.mask,
                mask_name=self.mask_name,
            ),
        )


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
            firsts = np.where(begins, np.arange(windows.shape[1]), 0)
            luck = np.take_along_axis(luck, np.maximum.accumulate(firsts, axis=1), axis=1)
        return luck < self.share
