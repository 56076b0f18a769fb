"""Masked token: tokens are hidden, and predicted from the text on both sides.

    loss = mean of -log p(t_n | the text with t_n hidden), over the hidden positions

Each time a window is read, different tokens are hidden.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.inspect.chapters import Examination
from glassformer.models.bert import Bert
from glassformer.nn.loss import next_token_loss
from glassformer.preprocessing.masking import (
    MaskedBatch,
    MaskedConfig,
    MaskedTextPreprocessing,
    Masking,
)
from glassformer.progress import Notify
from glassformer.tasks.evaluating import evaluating
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.tasks.masked.scores import MaskedResult, evaluate_masked, examine_masked
from glassformer.tasks.task import Command, Defaults, Objective, Task
from glassformer.tasks.text_windows import TextDataset, TextRecipe, TextSource, read_text
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.text.tokenizers import BERT_TOKENS, MASK
from glassformer.wording import as_argument

SHOWN = 12  # tokens on each side of a guess
TOKENIZER = TokenizerConfig(kind="wordpiece")  # where the recipe leaves it open


class MaskedRecipe(TextRecipe):
    """A recipe for plain text, and how much of it is hidden."""

    objective: MaskedConfig = MaskedConfig()


def read(recipe: MaskedRecipe, folder: Path, notify: Notify) -> TextSource:
    objective = recipe.objective
    if objective.whole_word_masking and recipe.tokenizer.kind == "char":
        raise UsageError(
            "objective.whole_word_masking needs tokens that show where a word begins, which "
            "characters do not. Choose another --tokenizer, such as wordpiece, or leave it out."
        )
    settings = objective.model_dump()
    return read_text(
        recipe, folder, notify, TOKENIZER, MaskedTextPreprocessing, settings, BERT_TOKENS
    )


class MaskedDataset(TextDataset):
    """Windows that leave room for the tokens around a text."""

    preprocessing: MaskedTextPreprocessing

    @property
    def window_length(self) -> int:
        return self.masking.room

    @cached_property
    def masking(self) -> Masking:
        return Masking(self.preprocessing, self.context_length)


class MaskedToken(Objective):
    """Guess hidden tokens."""

    dataset: MaskedDataset
    measures = ("loss", "accuracy")

    def batch(self, number: int, most: int | None = None) -> MaskedBatch:
        windows = self.batches.batch(number, most)
        return self.dataset.masking.batch(windows[:, :-1], (self.config.seed, number))

    def loss(self, model: Bert, batch: MaskedBatch) -> Tensor:
        hidden = model.hidden(batch.ids)[batch.is_asked]  # (N, D): the others are not predicted
        return next_token_loss(model.transform(hidden)[None], model.head, batch.targets[None])

    def num_targets(self, batch: MaskedBatch) -> float:
        return float(len(batch.targets))

    def validate(self, model: Bert) -> MaskedResult:
        return evaluate_masked(model, self.dataset.validation, self.dataset.masking)

    def sample(self, model: Bert, step: int) -> str:
        """A guess in the held-out text, and what stood there."""
        data, frame = self.dataset, self.dataset.masking.frame
        tokenizer = data.preprocessing.tokenizer
        room = min(2 * SHOWN + 1, data.window_length, data.num_validation_items)
        first = step % max(1, data.num_validation_items - room)
        ids = data.validation[first : first + room].astype(np.int64).tolist()
        middle = len(ids) // 2
        before, after = ids[:middle], ids[middle + 1 :]
        shown = frame.put([*before, tokenizer.special_tokens[MASK], *after])
        with evaluating(model):
            hidden = model.hidden(torch.tensor([shown], device=model.device))
            logits = model.predict(hidden[0, middle + len(frame.before)]).float()
        score, best = logits.softmax(-1).max(0)
        guess, truth = tokenizer.token(int(best)), tokenizer.token(ids[middle])
        answer = f"{_visible(guess)} {score:.2f}"
        answer += "" if guess == truth else f", not {_visible(truth)}"
        return f"{tokenizer.decode(before)} [{answer}] {tokenizer.decode(after)}"

    def examine(self, model: Bert) -> Examination:
        data = self.dataset
        tokenizer = data.preprocessing.tokenizer
        return examine_masked(model, data.validation, data.masking, tokenizer)

    def trials(self, folder: Path | str) -> Sequence[Command]:
        words = self.dataset.opening().split() or ["…"]
        return (("fill", folder, *as_argument(" ".join([*words[:-1], MASK]))),)


def _visible(token: str) -> str:
    """A token of blanks in quotes, since there would be nothing to see otherwise."""
    return token if token.strip() else repr(token)


TASK = Task(
    recipe=MaskedRecipe,
    read=read,
    dataset=MaskedDataset,
    objective=MaskedToken,
    predictor=MaskedPredictor,
    # Each time only a seventh of the tokens is learned.
    defaults=lambda recipe: Defaults(epochs=20),
)
