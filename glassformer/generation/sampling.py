"""Greedy decoding and sampling, for every decoder and any number of rows at once.

Prompts of different lengths are padded on the left, so that all rows write their next token in the
same step. Each row draws its random numbers from (seed, row) alone: what it writes does not depend
on the rows decoded beside it.

At the end of the context: a model sees at most `context_length` tokens. It reads the last
`context_length` of a longer prompt. When a row's window is full, its older half is dropped: the
newer half is read again at the first positions, and writing continues from there. Rows whose window
is not full yet are read again beside it, whole. A decoder with a memory (a sentence to translate,
an image) stops there instead.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Config, Count
from glassformer.generation.protocol import Decoder
from glassformer.nn.layers import refuse_nan

# --- what shapes the choice of the next token: temperature, top-k, top-p ---
#
# Small pure functions, applied one after the other. Each takes the tokens so far, (B, T) with
# `NO_TOKEN` where a row has none, and the logits (B, V), and returns logits. A token that may not
# be chosen has the logit -∞.

NO_TOKEN = -1

Warp = Callable[[Tensor, Tensor], Tensor]


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
    row, run = repeats.nonzero(as_tuple=True)
    forbidden = torch.zeros_like(logits, dtype=torch.bool)
    forbidden[row, runs[row, run, -1]] = True
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


# --- decoding ---

FILLER = 0  # any token will do: the mask hides it
IsFinished = Callable[[int, int], bool]  # (row, its new token) → the row is complete


@torch.inference_mode()
def decode(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_new_tokens: int,
    seed: int,
    num_return_sequences: int = 1,
    is_finished: IsFinished = lambda row, token: False,
    memory: Any = None,
    device: torch.device | None = None,
) -> Iterator[list[int | None]]:
    """Each step's new token of every row; None for rows that are finished.

    Rows are the prompts in order, each `num_return_sequences` times.
    """
    if not prompts:
        return
    copies = torch.arange(len(prompts)).repeat_interleave(num_return_sequences)
    window = decoder.context_length
    logits, state, ids = read_prompts(decoder, prompts, memory, max_new_tokens, device)
    if num_return_sequences > 1:  # a prompt is read once, however many sequences continue it
        logits, state, ids = logits[copies], state.reorder(copies.to(device)), ids[copies]
    seen = (ids != NO_TOKEN).sum(dim=1)  # (B,): how many tokens of each row are in the state
    choose = _Chooser(sampling, len(copies), seed)
    running = [True] * len(copies)
    for step in range(max_new_tokens):
        chosen = choose(ids, refuse_nan(logits))  # (B,)
        tokens = chosen.tolist()
        written = [token if on else None for token, on in zip(tokens, running, strict=True)]
        running = [
            token is not None and not is_finished(row, token) for row, token in enumerate(written)
        ]
        yield written
        if not any(running) or step == max_new_tokens - 1:
            return
        ids = torch.cat((ids, chosen[:, None]), dim=1)
        seen = seen + 1
        if window is not None and seen.max() > window:
            if memory is not None:
                return  # an answer to a memory is not cut off from its beginning
            logits, state, seen = read_again(decoder, ids, seen, window, max_new_tokens, device)
        else:
            logits, state = read_on(decoder, chosen[:, None], state, device)


def read_prompts(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    memory: Any,
    max_new_tokens: int,
    device: torch.device | None,
) -> tuple[Tensor, Any, Tensor]:
    """Read the prompts: next logits (B, V), the state, and the tokens (B, T) left-padded."""
    window = decoder.context_length
    prompts = [prompt[-window:] if window else prompt for prompt in prompts]
    longest = max(len(prompt) for prompt in prompts)
    padded = [[NO_TOKEN] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    ids = torch.tensor(padded)
    capacity = longest + max_new_tokens if window is None else min(window, longest + max_new_tokens)
    padding = (ids == NO_TOKEN).sum(dim=1).to(device)
    state = decoder.start(memory, padding, capacity)
    logits, state = read_on(decoder, ids.masked_fill(ids == NO_TOKEN, FILLER), state, device)
    return logits, state, ids


def read_again(
    decoder: Decoder,
    ids: Tensor,
    seen: Tensor,
    window: int,
    max_new_tokens: int,
    device: torch.device | None,
) -> tuple[Tensor, Any, Tensor]:
    """Move the windows on: read the newer half of the rows that have seen more than `window` tokens
    and the others whole. Returns logits, state, and how many tokens of each row are in it."""
    seen = seen.where(seen <= window, max(1, window // 2))
    recent = [row[-count:] for row, count in zip(ids.tolist(), seen.tolist(), strict=True)]
    logits, state, _ = read_prompts(decoder, recent, None, max_new_tokens, device)
    return logits, state, seen


def read_on(
    decoder: Decoder, ids: Tensor, state: Any, device: torch.device | None
) -> tuple[Tensor, Any]:
    """One step on the model's device. Tokens are chosen on the CPU, the same way everywhere."""
    logits, state = decoder.step(ids.to(device), state)
    return logits.float().cpu(), state


class _Chooser:
    """Chooses each row's next token from its logits, with the row's own random numbers."""

    def __init__(self, sampling: Sampling, rows: int, seed: int) -> None:
        self.is_greedy = sampling.is_greedy
        self.warps: list[Warp] = warps(sampling)
        seeds = ((seed * 1_000_003 + row) % 2**63 for row in range(rows))
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        logits = reduce(lambda logits, warp: warp(ids, logits), self.warps, logits)
        if self.is_greedy:
            return logits.argmax(dim=-1)
        # Inverse transform sampling. Double precision: 50,000 small probabilities must add up.
        cumulated = logits.double().softmax(-1).cumsum(-1)
        drawn = [torch.rand(1, generator=rng, dtype=torch.float64) for rng in self.generators]
        uniform = torch.stack(drawn) * cumulated[:, -1:]  # (B, 1)
        return torch.searchsorted(cumulated, uniform, right=True).squeeze(1)
