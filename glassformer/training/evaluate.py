"""The loss of a language model on a text: the same function while training and afterwards.

The text is read in windows of the model's context, side by side, so that every token but the very
first is predicted exactly once.

    loss           mean of -log p(token | the tokens before it in its window)
    perplexity     e^loss
    bits per byte  total loss / ln 2 / bytes of text: comparable between tokenizers
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from glassformer.data.tokens import Ids, ValidationWindows
from glassformer.models.language_model import LanguageModel
from glassformer.training.losses import next_token_loss

BATCH_TOKENS = 4096  # read at once


@dataclass(frozen=True)
class Evaluation:
    loss: float
    num_tokens: int
    num_bytes: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))  # e^709 is the largest number there is

    @property
    def bits_per_byte(self) -> float:
        return self.loss * self.num_tokens / math.log(2) / self.num_bytes

    def columns(self) -> dict[str, float]:
        return {"val_loss": self.loss, "val_bits_per_byte": self.bits_per_byte}

    def headline(self) -> str:
        return (
            f"loss {self.loss:.4f} per token, perplexity {self.perplexity:.3f}, "
            f"{self.bits_per_byte:.4f} bits per byte"
        )

    def text(self) -> str:
        return (
            f"loss {self.loss:.4f}  perplexity {self.perplexity:.3f}  "
            f"bits per byte {self.bits_per_byte:.4f}  ({self.num_tokens:,} tokens)"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
            "num_tokens": self.num_tokens,
        }


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients; then the model is in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def evaluate(model: LanguageModel, ids: Ids, num_bytes: int, context_length: int) -> Evaluation:
    """Read all of `ids` once. Leaves the model in the mode it was in."""
    total = 0.0
    windows = ValidationWindows(ids, context_length, max(1, BATCH_TOKENS // context_length))
    with evaluating(model):
        for number in range(len(windows)):
            batch = torch.from_numpy(windows[number]).to(model.device)
            inputs, targets = batch[:, :-1], batch[:, 1:]  # (B, T): each position predicts the next
            loss = next_token_loss(model.hidden(inputs), model.head, targets)
            total += loss.item() * targets.numel()
    num_tokens = len(ids) - 1
    return Evaluation(total / num_tokens, num_tokens, num_bytes)
