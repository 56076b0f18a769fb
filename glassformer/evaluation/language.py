"""The loss of a language model on a text: the same function while training and afterwards.

The text is read in windows of the model's context, side by side, so that every token but the very
first is predicted exactly once. The very first is the end-of-text token before the first document;
in a vocabulary without one it is a token of text, whose bytes do not count.

    loss           mean of -log p(token | the tokens before it in its window)
    perplexity     e^loss
    bits per byte  (total loss / ln 2 + fallback bits) / bytes: comparable between tokenizers

The fallback bits are the cost of unknown words (`text/byte_count.py`): <|unk|> alone does not say
which word it was.
"""

import math
from dataclasses import dataclass

import torch

from glassformer.data.token_windows import Ids, ValidationWindows
from glassformer.evaluation.evaluating import held_out
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.result import Result
from glassformer.models.language_model import LanguageModel
from glassformer.text.byte_count import ByteCount
from glassformer.wording import counted

BATCH_TOKENS = 4096  # read at once


@dataclass(frozen=True)
class LanguageResult(Result):
    """How well a language model predicts a text."""

    score_names = ("bits_per_byte", "loss", "perplexity")
    details = ("num_tokens", "num_bytes", "num_unknown_bytes")
    loss: float
    num_tokens: int
    size: ByteCount
    """Size of the predicted text."""
    notes: tuple[str, ...] = ()

    @property
    def num_bytes(self) -> int:
        return self.size.total

    @property
    def num_unknown_bytes(self) -> int:
        return self.size.unknown

    @property
    def bits_per_byte(self) -> float:
        bits = self.loss * self.num_tokens / math.log(2) + self.size.fallback_bits
        return bits / max(1, self.size.total)

    def parts(self) -> list[str]:
        return [
            f"loss {self.loss:.4f} per token",
            f"perplexity {self.perplexity:.3f}",
            f"bits per byte {self.bits_per_byte:.4f}",
            counted(self.num_tokens, "token"),
        ]


def evaluate_language(
    model: LanguageModel, ids: Ids, size: ByteCount, context_length: int
) -> LanguageResult:
    """Read all of `ids` once."""
    total = 0.0
    windows = ValidationWindows(ids, context_length, max(1, BATCH_TOKENS // context_length))
    numbers = range(len(windows))
    for batch in held_out(model, numbers, lambda number: torch.from_numpy(windows[number])):
        inputs, targets = batch[:, :-1], batch[:, 1:]  # (B, T): each position predicts the next
        loss = next_token_loss(model.hidden(inputs), model.head, targets)
        total += loss.item() * targets.numel()
    num_tokens = len(ids) - 1
    return LanguageResult(total / num_tokens, num_tokens, size)
