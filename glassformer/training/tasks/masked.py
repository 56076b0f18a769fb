"""Masked token: words are hidden, and guessed from both sides.

    loss = mean of -log p(t_n | the text with t_n hidden), over the hidden positions

Of the 15 % of tokens that are to be guessed, 80 % are hidden behind [MASK], 10 % are replaced by
another token, 10 % stay: so the model cannot rely on what it sees, whatever it sees. Every time a
window is read, other tokens are hidden.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.data.corpus import Document
from glassformer.data.sequences import Array
from glassformer.data.tokens import Ids, ValidationWindows, Windows
from glassformer.errors import UsageError
from glassformer.models.bert import Bert
from glassformer.text.framing import BERT_TOKENS, MASK, Frame
from glassformer.text.tokenizers import Tokenizer, TokenizerConfig
from glassformer.training.evaluate import evaluating
from glassformer.training.losses import next_token_loss
from glassformer.training.recipe import MaskedRecipe, Recipe
from glassformer.training.sections import MaskedConfig
from glassformer.training.tasks.task import Habits, Say
from glassformer.training.tasks.text import BATCH_TOKENS, TextTask

HIDDEN, REPLACED = 0.8, 0.1  # the rest is left as it is
VALIDATION_SEED = 2**31  # one that no training can have
SHOWN = 12  # tokens on each side of a guess


class MaskedBatch(NamedTuple):
    """Windows as they are shown, where something is to be guessed, and what stood there."""

    ids: Tensor
    is_asked: Tensor
    targets: Tensor


@dataclass(frozen=True)
class MaskedFound:
    loss: float
    accuracy: float
    num_tokens: int

    def columns(self) -> dict[str, float]:
        return {"val_loss": self.loss, "val_accuracy": self.accuracy}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        return self.headline()

    def headline(self) -> str:
        return (
            f"loss {self.loss:.4f} per hidden token, {self.accuracy:.1%} of {self.num_tokens:,} "
            "guessed right"
        )


@dataclass(frozen=True)
class Masked(TextTask):
    """Teaches an encoder to guess hidden tokens."""

    special_tokens: ClassVar[tuple[str, ...]] = BERT_TOKENS

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        whole_words = isinstance(recipe, MaskedRecipe) and recipe.objective.whole_word_masking
        if whole_words and recipe.tokenizer.kind == "char":
            raise UsageError(
                "objective.whole_word_masking needs tokens that show where a word begins, and "
                "characters do not. Say another --tokenizer, such as wordpiece, or leave it out."
            )
        return super().prepare(recipe, folder, say)

    @property
    def habits(self) -> Habits:
        return Habits(epochs=20)  # each time only a seventh of the tokens is learned from

    @property
    def columns(self) -> tuple[str, ...]:
        return "val_loss", "val_accuracy"

    @classmethod
    def choose_kind(
        cls, config: TokenizerConfig, documents: list[Document], num_bytes: int, say: Say
    ) -> TokenizerConfig:
        if config.kind != "auto":
            return config
        return config.model_copy(update={"kind": "wordpiece"})

    @property
    def _objective(self) -> MaskedConfig:
        if not isinstance(self.recipe, MaskedRecipe):
            raise TypeError("a recipe for another task")
        return self.recipe.objective

    @cached_property
    def _frame(self) -> Frame:
        return Frame.of(self.tokenizer, self.context_length, is_causal=False)

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self.training, self._room, self.recipe.training.seed)

    @property
    def _room(self) -> int:
        return self._frame.room or self.context_length

    @cached_property
    def masking(self) -> "Masking":
        return Masking(
            self.tokenizer, self._objective.mlm_probability, self._objective.whole_word_masking
        )

    def batch(self, number: int, most: int | None = None) -> MaskedBatch:
        windows = self._windows.__getitems__(self.window_numbers(number, most))
        seed = (self.recipe.training.seed, number)
        return masked(windows[:, :-1], self.masking, self._frame, seed)

    def loss(self, model: Bert, batch: MaskedBatch) -> Tensor:
        hidden = model.hidden(batch.ids)[batch.is_asked]  # (N, D): the others are not predicted
        return next_token_loss(model.transform(hidden)[None], model.head, batch.targets[None])

    def validate(self, model: Bert) -> MaskedFound:
        return evaluate_masked(model, self.validation, self.masking, self._frame)

    def sample(self, model: Bert, step: int) -> str:
        """A guess in the held-out text, and what stood there."""
        room = min(2 * SHOWN + 1, self._room, self.num_validation_tokens)
        first = step % max(1, self.num_validation_tokens - room)
        ids = self.validation[first : first + room].astype(np.int64).tolist()
        place, mask = len(ids) // 2, self.tokenizer.special_tokens[MASK]
        shown = self._frame.put([*ids[:place], mask, *ids[place + 1 :]])
        with evaluating(model):
            hidden = model.hidden(torch.tensor([shown], device=model.device))
            logits = model.predict(hidden[0, place + len(self._frame.before)]).float()
        score, best = logits.softmax(-1).max(0)
        guess, truth = self.tokenizer.token(int(best)), self.tokenizer.token(ids[place])
        before, after = self.tokenizer.decode(ids[:place]), self.tokenizer.decode(ids[place + 1 :])
        said = f"{_visible(guess)} {score:.2f}"
        said += "" if guess == truth else f", not {_visible(truth)}"
        return f"{before} [{said}] {after}"

    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        words = self.opening().split() or ["…"]
        return (("fill", folder, " ".join([*words[:-1], MASK])),)


def masked(windows: Array, masking: "Masking", frame: Frame, seed: tuple[int, int]) -> MaskedBatch:
    """Windows (B, T) in their frame, with some of their tokens hidden."""
    shown, is_asked = masking.hide(windows, np.random.default_rng(seed))
    sides = ((0, 0), (len(frame.before), len(frame.after)))
    ids = np.pad(shown, sides)
    ids[:, : len(frame.before)] = frame.before
    ids[:, ids.shape[1] - len(frame.after) :] = frame.after
    return MaskedBatch(
        torch.from_numpy(ids),
        torch.from_numpy(np.pad(is_asked, sides)),
        torch.from_numpy(windows[is_asked]),
    )


def evaluate_masked(model: Bert, ids: Ids, masking: "Masking", frame: Frame) -> MaskedFound:
    """Read all of `ids` once, in windows side by side; the same tokens are hidden each time."""
    room = frame.room or model.context_length
    windows = ValidationWindows(ids, room, max(1, BATCH_TOKENS // room))
    total, right, count = 0.0, 0, 0
    with evaluating(model):
        for number in range(len(windows)):
            batch = masked(windows[number][:, :-1], masking, frame, (VALIDATION_SEED, number))
            if not len(batch.targets):
                continue
            hidden = model.hidden(batch.ids.to(model.device))[batch.is_asked.to(model.device)]
            logits = model.predict(hidden).float().cpu()
            total += F.cross_entropy(logits, batch.targets, reduction="sum").item()
            right += int((logits.argmax(-1) == batch.targets).sum())
            count += len(batch.targets)
    return MaskedFound(total / max(1, count), right / max(1, count), count)


class Masking:
    """Which tokens are hidden, and behind what."""

    def __init__(self, tokenizer: Tokenizer, share: float, whole_words: bool) -> None:
        self.share = share
        special = set(tokenizer.special_tokens.values())
        self.mask = tokenizer.special_tokens[MASK]
        self._is_text = np.array([id not in special for id in range(tokenizer.vocab_size)])
        self._text = np.flatnonzero(self._is_text)
        self._continues = None
        if whole_words:
            tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
            self._continues = np.array([_continues(token, tokenizer) for token in tokens])

    def hide(self, windows: Array, random: np.random.Generator) -> tuple[Array, Array]:
        """The windows as they are shown, and where something is to be guessed; both (B, T)."""
        is_asked = self._drawn(windows, random) & self._is_text[windows]
        if not is_asked.any():  # a batch without a question would have no loss
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


def _visible(token: str) -> str:
    """A token of blanks in quotes, for else there would be nothing to see."""
    return token if token.strip() else repr(token)


def _continues(token: str, tokenizer: Tokenizer) -> bool:
    if tokenizer.kind == "wordpiece":
        return token.startswith("##")
    return tokenizer.carries_blanks and token[:1].isalnum()
