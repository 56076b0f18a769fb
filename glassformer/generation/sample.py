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

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from glassformer.generation.logits import NO_TOKEN, Sampling, Warp, refuse_nan, warps
from glassformer.generation.protocol import Decoder

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
        self.generators = [torch.Generator().manual_seed(each) for each in seeds]

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        logits = reduce(lambda logits, warp: warp(ids, logits), self.warps, logits)
        if self.is_greedy:
            return logits.argmax(dim=-1)
        # Inverse transform sampling. Double precision: 50,000 small probabilities must add up.
        cumulated = logits.double().softmax(-1).cumsum(-1)
        drawn = [torch.rand(1, generator=each, dtype=torch.float64) for each in self.generators]
        uniform = torch.stack(drawn) * cumulated[:, -1:]  # (B, 1)
        return torch.searchsorted(cumulated, uniform, right=True).squeeze(1)
