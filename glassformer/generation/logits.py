"""What shapes the choice of the next token: small pure functions, applied one after the other.

Each takes the tokens so far, (B, T) with `NO_TOKEN` where a row has none, and the logits (B, V),
and returns logits. A token that may not be chosen has the logit -∞.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError

NO_TOKEN = -1

Warp = Callable[[Tensor, Tensor], Tensor]


def refuse_nan(logits: Tensor) -> Tensor:
    """The logits; an error if any is NaN or ∞. -∞ is allowed: it means never."""
    if (
        logits.numel() and not logits.amax() < math.inf
    ):  # one pass: the largest of values with a NaN is NaN
        raise GlassformerError(
            "the model predicts NaN or infinity: its weights are damaged, or its training "
            "diverged. Use an earlier checkpoint."
        )
    return logits


class Sampling(Config):
    """How the next token is chosen. Names and meanings follow Hugging Face's."""

    do_sample: bool = True
    """False: always the likeliest token (greedy)."""
    temperature: float = Field(1.0, ge=0)
    """Below 1 sharpens the distribution, above 1 flattens it; 0 is greedy."""
    top_k: Count | None = Field(None, ge=1)
    """Choose among the k likeliest tokens."""
    top_p: float | None = Field(None, ge=0, le=1)
    """Choose among the likeliest tokens that together have probability p."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Choose among the tokens at least p times as likely as the likeliest."""
    repetition_penalty: float = Field(1.0, gt=0)
    """Above 1, tokens that occurred before become less likely."""
    no_repeat_ngram_size: Count | None = Field(None, ge=1)
    """No run of n tokens occurs twice."""

    @property
    def is_greedy(self) -> bool:
        return not self.do_sample or self.temperature == 0


def warps(sampling: Sampling) -> list[Warp]:
    """The functions that the settings need, in the order in which they are applied."""
    chosen: list[Warp] = []
    if sampling.repetition_penalty != 1:
        chosen.append(partial(repetition_penalty, sampling.repetition_penalty))
    if sampling.no_repeat_ngram_size is not None:
        chosen.append(partial(no_repeat_ngram, sampling.no_repeat_ngram_size))
    if sampling.is_greedy:
        return chosen  # the rest never changes which token is the likeliest
    if sampling.temperature != 1:
        chosen.append(partial(temperature, sampling.temperature))
    if sampling.top_k is not None:
        chosen.append(partial(top_k, sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1:
        chosen.append(partial(top_p, sampling.top_p))
    if sampling.min_p is not None:
        chosen.append(partial(min_p, sampling.min_p))
    return chosen


def repetition_penalty(penalty: float, ids: Tensor, logits: Tensor) -> Tensor:
    """Divide positive and multiply negative logits of tokens seen before."""
    batch, vocabulary = logits.shape
    # NO_TOKEN is counted in a column of its own, which is removed again.
    column = torch.where(ids == NO_TOKEN, vocabulary, ids)
    seen = torch.zeros(batch, vocabulary + 1, dtype=torch.bool, device=logits.device)
    seen = seen.scatter(1, column, True)[:, :vocabulary]
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def no_repeat_ngram(size: int, ids: Tensor, logits: Tensor) -> Tensor:
    """Forbid every token that would complete a run of `size` tokens seen before."""
    if ids.size(1) < size:
        return logits
    runs = ids.unfold(1, size, 1)  # (B, T - size + 1, size)
    begin = ids[:, ids.size(1) - size + 1 :]  # (B, size - 1): the run being written
    repeats = (runs[..., :-1] == begin[:, None]).all(-1) & (runs != NO_TOKEN).all(-1)
    row, place = repeats.nonzero(as_tuple=True)
    forbidden = torch.zeros_like(logits, dtype=torch.bool)
    forbidden[row, runs[row, place, -1]] = True
    left = logits.masked_fill(forbidden, -math.inf)
    has_choice = (left > -math.inf).any(-1, keepdim=True)
    return torch.where(has_choice, left, logits)


def never(tokens: Sequence[int], ids: Tensor, logits: Tensor) -> Tensor:
    """Forbid these tokens."""
    return logits.index_fill(-1, torch.tensor(tokens, device=logits.device), -math.inf)


def temperature(value: float, ids: Tensor, logits: Tensor) -> Tensor:
    """Divide, with the largest logit shifted to 0: so no temperature is too small."""
    return (logits - logits.max(-1, keepdim=True).values) / max(value, 1e-30)


def top_k(k: int, ids: Tensor, logits: Tensor) -> Tensor:
    smallest = logits.topk(min(k, logits.size(-1))).values[:, -1:]
    return logits.masked_fill(logits < smallest, -math.inf)


def top_p(p: float, ids: Tensor, logits: Tensor) -> Tensor:
    """Keep the likeliest tokens until they reach p together; the first is always kept."""
    ordered, order = logits.sort(descending=True, stable=True)
    probability = ordered.softmax(-1)
    before = probability.cumsum(-1) - probability  # of the likelier tokens together
    drop = before >= p
    drop[:, 0] = False
    return logits.masked_fill(drop.scatter(1, order, drop), -math.inf)


def min_p(p: float, ids: Tensor, logits: Tensor) -> Tensor:
    likeliest = logits.max(-1, keepdim=True).values
    return logits.masked_fill(logits < likeliest + math.log(max(p, 1e-38)), -math.inf)
