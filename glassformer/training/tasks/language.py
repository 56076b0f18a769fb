"""Next token: loss = mean of -log p(t_n | t_<n), at all positions of all windows at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from glassformer.data.tokens import Windows
from glassformer.generation.logits import Sampling
from glassformer.generation.sample import decode
from glassformer.models.language_model import LanguageModel
from glassformer.text.streaming import continuation
from glassformer.training.evaluate import Evaluation, evaluate, evaluating
from glassformer.training.losses import next_token_loss
from glassformer.training.tasks.text import TextTask

SAMPLE_TOKENS = 80


@dataclass(frozen=True)
class Language(TextTask):
    """Teaches a language model to predict each token from those before it."""

    @property
    def columns(self) -> tuple[str, ...]:
        return "val_loss", "val_bits_per_byte"

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self.training, self.context_length, self.recipe.training.seed)

    def batch(self, number: int, most: int | None = None) -> Tensor:
        return torch.from_numpy(self._windows.__getitems__(self.window_numbers(number, most)))

    def loss(self, model: LanguageModel, batch: Tensor) -> Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]  # (B, T): the targets are one further on
        return next_token_loss(model.hidden(inputs), model.head, targets)

    def validate(self, model: LanguageModel) -> Evaluation:
        return evaluate(model, self.validation, self.validation_bytes, model.context_length)

    def sample(self, model: LanguageModel, step: int) -> str:
        """A continuation of the validation text, so that it is never something learned by heart."""
        opening, end = self.opening(), self.tokenizer.end_of_text
        prompt = self.tokenizer.encode(opening) or self.validation[:1].tolist()
        with evaluating(model):
            steps = decode(
                model,
                [prompt],
                sampling=Sampling(temperature=0.8),
                max_new_tokens=SAMPLE_TOKENS,
                seed=step,
                is_finished=lambda row, token: token == end,
                device=model.device,
            )
            tokens = (token for (token,) in steps if token is not None)
            return opening + continuation(self.tokenizer, prompt, tokens)

    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        return ("generate", folder, self.opening()), ("score", folder, self.opening())
