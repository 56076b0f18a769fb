"""The loss of a language model on a text: the same function while training and afterwards.

The text is read in windows of the model's context, side by side, so that every token but the very
first is predicted exactly once. The very first is the end-of-text token before the first document;
in a vocabulary without one it is a token of text, whose bytes do not count.

    loss           mean of -log p(token | the tokens before it in its window)
    perplexity     e^loss
    bits per byte  (total loss / ln 2 + fallback bits) / bytes: comparable between tokenizers

The fallback bits are the cost of unknown words (`text/words.py`): <|unk|> alone does not say
which word it was.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import ValidationWindows
from glassformer.data.rows import Array
from glassformer.inspect.chapters import NORMAL_95, Chapter, Examination, affordable
from glassformer.models.heads import LanguageModel
from glassformer.nn.loss import next_token_loss
from glassformer.tasks.evaluating import Result, held_out
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.word_cache import Ids
from glassformer.text.words import ByteCount
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


# --- chapters of the report: the loss by position, and a passage token by token ---

MOST_TOKENS, LEAST_TOKENS = 16_000, 1_024
MOST_LOGITS = 2**24  # held in memory at a time
PASSAGE = 400  # tokens
GUESSES = 3
POINTS = 24  # positions are binned, wider towards the end
ENOUGH = 8  # losses of a bin; from fewer, a mean would be noise


class Predictions(NamedTuple):
    """Predictions of some tokens: for each, its place in the text and in its window, its loss, and
    the likeliest tokens instead."""

    places: Array
    positions: Array
    losses: Array
    guesses: Array
    """(N, 3) ids"""
    chances: Array
    """(N, 3) probabilities"""

    @classmethod
    def of(cls, logits: Tensor, targets: Tensor, places: Array, positions: Array) -> Self:
        """Logits (N, V) and the tokens that stood there (N,)."""
        logprobs = logits.log_softmax(-1)
        losses = -logprobs.gather(-1, targets[:, None])[:, 0]
        best = logprobs.topk(min(GUESSES, logprobs.size(-1)), dim=-1)
        arrays = (losses, best.indices, best.values.exp())
        return cls(places, positions, *(array.cpu().numpy() for array in arrays))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return cls(*(columns or [np.zeros(0)] * len(cls._fields)))


def examine_language(model: LanguageModel, ids: Ids, tokenizer: Tokenizer) -> Examination:
    """Examine the model on the beginning of the held-out text."""
    windows = first_windows(model, ids, model.context_length)
    predictions = Predictions.joined(_predict(model, windows))
    count, total = len(predictions.losses), len(ids) - 1
    some = f"all {total:,}" if count == total else f"the first {count:,} of {total:,}"
    note = "Mean of −log p of a token at each position of the context, with its 95% interval: "
    note += f"{some} held-out tokens."
    shown = "The beginning of the held-out text; each window of the context starts without memory."
    passage = passage_chapter(predictions, ids, tokenizer, "Surprising tokens", shown)
    return Examination((*loss_by_position(predictions, note), passage))


def first_windows(model: Any, ids: Ids, length: int) -> ValidationWindows:
    """The beginning of a text, as much of it as a report has time for."""
    count = affordable(sum(p.numel() for p in model.parameters()), MOST_TOKENS, LEAST_TOKENS)
    at_once = max(1, MOST_LOGITS // (model.head.out_features * length))
    return ValidationWindows(ids[: count + 1], length, min(at_once, 16))


def _predict(model: LanguageModel, windows: ValidationWindows) -> Iterator[Predictions]:
    first = 1
    numbers = range(len(windows))
    for batch in held_out(model, numbers, lambda number: torch.from_numpy(windows[number])):
        logits = model.head(model.hidden(batch[:, :-1])).float()  # (B, T, V)
        targets = batch[:, 1:]
        positions = np.tile(np.arange(1, targets.size(1) + 1), len(targets))
        places = first + np.arange(targets.numel())
        first += targets.numel()
        yield Predictions.of(logits.flatten(0, 1), targets.flatten(), places, positions)


def loss_by_position(predictions: Predictions, note: str) -> list[Chapter]:
    """Mean loss in bins of positions, wider and wider; nothing if there is only one bin."""
    positions = predictions.positions
    last = int(positions.max())
    edges = np.unique(np.geomspace(1, last + 1, POINTS + 1).round().astype(int))
    points = []
    for low, high in pairwise(edges):
        losses = predictions.losses[(positions >= low) & (positions < high)].astype(float)
        if len(losses) < ENOUGH:
            continue
        mean, reach = losses.mean(), NORMAL_95 * losses.std(ddof=1) / np.sqrt(len(losses))
        middle = float(np.sqrt(low * (high - 1)))
        points.append(
            {
                "x": middle,
                "y": float(mean),
                "low": float(mean - reach),
                "high": float(mean + reach),
                "count": len(losses),
            }
        )
    if len(points) < 2:
        return []
    data = {"x": "position", "y": "loss", "points": points, "is_share": False, "is_log": True}
    data["what"] = "token"
    return [Chapter("Loss by position in the context", "trend", data, note)]


def passage_chapter(
    predictions: Predictions, ids: Ids, tokenizer: Tokenizer, title: str, shown: str
) -> Chapter:
    """The beginning of the text; tokens that were predicted come with their surprise in bits."""
    token = tokenizer.token
    texts: list[dict[str, Any]] = [{"text": token(int(id))} for id in ids[:PASSAGE]]
    for number, place in enumerate(predictions.places.tolist()):
        if place >= len(texts):
            continue
        guesses: Sequence[int] = predictions.guesses[number].tolist()
        texts[place] |= {
            "bits": float(predictions.losses[number] / np.log(2)),
            "guesses": [
                [token(guess), chance]
                for guess, chance in zip(guesses, predictions.chances[number].tolist(), strict=True)
            ],
        }
    how = f"{shown} The darker a token, the more it surprised the model: its surprise is −log₂ p "
    how += "bits. Point at a token to see what the model expected."
    data = {"tokens": texts, "is_spaced": not tokenizer.keeps_spacing}
    return Chapter(title, "tokens", data, how)
