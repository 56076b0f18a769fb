"""Beam search: the likeliest sequence as a whole, not the likeliest token at each step.

    candidates = log p(beam) + log p(token | beam)      of every beam and every token
    beams      = the best K of them                     repeated

A candidate that ends the sequence, with any of several tokens, is complete and leaves the beams;
its score is

    score = Σ log p(token) / length ^ length_penalty

The search of a sentence ends at `max_new_tokens`, or sooner, when no running beam can come among
the best `num_return_sequences`: each further token makes Σ log p smaller, so the score it can still
reach has a bound. With one beam, which is greedy decoding, the first end completes the search.

At `max_new_tokens`, beams are still running. A translation is a whole sentence, so any complete one
is preferred to them. A text that is continued may stop anywhere: there, beams that were cut off
compete with complete ones by their score, otherwise the empty text, which is complete at once,
would win against all that have no end within reach (`prefer_complete`).

At the end of the context the window moves on as in `sampling.py`, unless the decoder has a memory.

Many sentences are searched side by side; a finished one makes room at once. Scores add up the
model's own probabilities: a forbidden token changes what may be chosen, not how likely it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.config import Config, Count
from glassformer.generation.protocol import Decoder
from glassformer.generation.sampling import (
    NO_TOKEN,
    Sampling,
    never,
    read_again,
    read_on,
    read_prompts,
    warps,
)
from glassformer.machine.threads import check_wanted
from glassformer.nn.cache import is_in_order
from glassformer.nn.layers import refuse_nan

# --- how wide it looks, how it weighs length, and how different its results are ---

MOST_BEAMS = 1_000  # far more than has ever helped


class Beams(Config):
    """How to search. Names and meanings follow Hugging Face's."""

    num_beams: Count = Field(4, ge=1, le=MOST_BEAMS)
    num_return_sequences: Count = Field(1, ge=1)
    length_penalty: float = Field(1.0, ge=-10, le=10)
    """0: the likeliest sequence, which is often too short; above 0 favours longer ones."""
    no_repeat_ngram_size: Count | None = Field(None, ge=1)
    """No run of n tokens occurs twice."""
    num_beam_groups: Count = Field(1, ge=1)
    """Groups of beams that search separately, each avoiding what the groups before it chose."""
    diversity_penalty: float | None = Field(None, ge=0)
    """Subtracted from the score of a token for each group that has just chosen it (null: 0.5)."""

    @model_validator(mode="after")
    def _fits(self) -> "Beams":
        if self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"num_return_sequences {self.num_return_sequences} is more than num_beams "
                f"{self.num_beams}; use fewer sequences or more beams"
            )
        if self.num_beams % self.num_beam_groups:
            raise ValueError(
                f"num_beams {self.num_beams} is not a multiple of num_beam_groups "
                f"{self.num_beam_groups}; change one of them"
            )
        if self.diversity_penalty and self.num_beam_groups == 1:
            raise ValueError("diversity_penalty works between groups: set num_beam_groups as well")
        return self

    @property
    def group_size(self) -> int:
        """Beams in a group."""
        return self.num_beams // self.num_beam_groups

    @property
    def diversity(self) -> float:
        return 0.5 if self.diversity_penalty is None else self.diversity_penalty

    def score(self, logprob: float, length: int) -> float:
        return logprob / length**self.length_penalty


# --- what has been found for one sentence: the best hypotheses of each group of beams ---


@dataclass(frozen=True)
class Hypothesis:
    """A sequence that was found."""

    ids: tuple[int, ...]
    """Without the prompt and without the end."""
    logprob: float
    """Σ log p of its tokens and, if it is complete, of its end."""
    score: float
    is_complete: bool
    """It reached its end; otherwise it was cut off at max_new_tokens."""
    is_second_best: bool = False
    """A sequence with a better score was cut off at max_new_tokens."""

    @property
    def finish_reason(self) -> str:
        """stop: it is what the search looked for; length: the search ran out of tokens."""
        return "stop" if self.is_complete and not self.is_second_best else "length"


class Hypotheses:
    """The best sequences of each group so far, as many as a group has beams, best first."""

    def __init__(self, beams: Beams, prefer_complete: bool) -> None:
        self.beams = beams
        self.prefer_complete = prefer_complete
        self.groups: list[list[Hypothesis]] = [[] for _ in range(beams.num_beam_groups)]

    @property
    def share(self) -> int:
        """How many of the sequences that are returned each group contributes."""
        return -(-self.beams.num_return_sequences // self.beams.num_beam_groups)

    def has_enough(self, group: int) -> bool:
        return len(self.groups[group]) >= self.share

    def add(self, group: int, ids: Sequence[int], logprob: float, *, is_complete: bool) -> None:
        score = self.beams.score(logprob, len(ids) + is_complete)
        found = self.groups[group]
        found.append(Hypothesis(tuple(ids), logprob, score, is_complete))
        found.sort(key=self._rank)
        # A text that ends with one token or another is one text.
        distinct = {(each.ids, each.is_complete): each for each in reversed(found)}
        found[:] = sorted(distinct.values(), key=self._rank)[: self.beams.group_size]

    def beat(self, group: int, logprob: float, lengths: tuple[int, int]) -> bool:
        """Whether no running beam of this log-probability can still come among the best. If it ends
        after n tokens, its score is at most logprob / n^penalty: largest for the next or the last
        possible n, which are `lengths`."""
        if not self.has_enough(group):
            return False
        if self.beams.group_size == 1:
            return True
        bound = max(self.beams.score(logprob, length) for length in lengths)
        return self.groups[group][self.share - 1].score >= bound

    def cut_off(self, group: int, logprob: float, length: int) -> None:
        """Mark the sequences with a worse score than a running beam that is cut off now."""
        score = self.beams.score(logprob, length)
        self.groups[group] = [
            replace(each, is_second_best=True) if each.score < score else each
            for each in self.groups[group]
        ]

    def best(self) -> list[Hypothesis]:
        """The best of each group; where groups have found the same, their next best."""
        first = [each for found in self.groups for each in found[: self.share]]
        rest = [each for found in self.groups for each in found[self.share :]]
        distinct: dict[Any, Hypothesis] = {}
        for each in (*first, *sorted(rest, key=self._rank)):
            distinct.setdefault((each.ids, each.is_complete), each)
        return sorted([*distinct.values()][: self.beams.num_return_sequences], key=self._rank)

    def _rank(self, found: Hypothesis) -> tuple[bool, float]:
        """By score; if complete sequences are preferred, they come first."""
        return self.prefer_complete and not found.is_complete, -found.score


# --- the search ---

NEVER = -math.inf


@dataclass(frozen=True)
class SearchNode:
    """A token that beam search considered, after the tokens of its parents."""

    node: int
    parent: int | None
    """None: the prompt."""
    sentence: int
    step: int
    token: int
    logprob: float
    score: float
    fate: str
    """complete; kept: other nodes follow it; or why it was dropped: outscored by others, hopeless
    when the search ended, cut off at max_new_tokens."""


@dataclass
class Trace:
    """Every candidate that was ranked: at least twice as many in each step as there are beams."""

    nodes: list[SearchNode] = field(default_factory=list)

    def add(self, **values: Any) -> int:
        self.nodes.append(SearchNode(node=len(self.nodes), **values))
        return len(self.nodes) - 1

    def drop(self, node: int, fate: str) -> None:
        self.nodes[node] = replace(self.nodes[node], fate=fate)


class _Offer(NamedTuple):
    """The candidates of a group of k beams, best first: (B, C) each."""

    tokens: Tensor
    parents: Tensor
    logprobs: Tensor
    is_end: Tensor


@torch.inference_mode()
def beam_search(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    beams: Beams,
    *,
    max_new_tokens: int | Sequence[int],
    ends: Sequence[int],
    memory: Any = None,
    device: torch.device | None = None,
    trace: Trace | None = None,
    prefer_complete: bool = True,
    forbidden: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The best sequences after each prompt, best first. Each of the tokens `ends` completes one;
    `forbidden` tokens are never chosen."""
    if not prompts:
        return []
    limits = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else max_new_tokens
    if min(limits) < 1:
        raise ValueError("max_new_tokens must be at least 1")
    window = decoder.context_length
    if window is not None and memory is not None:
        room = window + 1 - max(map(len, prompts))
        limits = [min(limit, room) for limit in limits]
    logits, state, ids = read_prompts(decoder, prompts, memory, max(limits), device)
    search = _Search(beams, ids, limits, ends, trace, prefer_complete)
    if forbidden:
        search.warps.append(partial(never, forbidden))
    state = state.reorder(search.copies.to(device))
    logits = logits[search.copies]
    seen = (search.ids != NO_TOKEN).sum(dim=1)  # (B · K,): how many tokens are in the state
    width = ids.size(1)  # with padding, which stays when the longest rows are finished
    while True:
        check_wanted()
        rows = search.advance(logits)
        if not search.alive:
            return [search.results[number] for number in range(len(prompts))]
        seen, width = seen[rows] + 1, width + 1
        if window is not None and width > window:
            more = max(limits) - search.step
            logits, state, seen = read_again(decoder, search.ids, seen, window, more, device)
            width = int(seen.max())
            continue
        if not is_in_order(rows, len(logits)):
            state = state.reorder(rows.to(device))
        logits, state = read_on(decoder, search.ids[:, -1:], state, device)


class _Search:
    """The beams of all unfinished sentences: K consecutive rows for each."""

    def __init__(
        self,
        beams: Beams,
        prompts: Tensor,
        limits: Sequence[int],
        ends: Sequence[int],
        trace: Trace | None,
        prefer_complete: bool,
    ) -> None:
        self.beams = beams
        self.ends = torch.tensor([*ends], dtype=torch.long)
        # So that enough candidates are left if every beam offers all ends.
        self.reach = max(2, 1 + len(self.ends))
        self.trace = trace
        self.step = 0
        self.alive = list(range(len(prompts)))  # numbers of the sentences
        self.limits = list(limits)
        self.results: dict[int, list[Hypothesis]] = {}
        self.found = [Hypotheses(beams, prefer_complete) for _ in prompts]
        self.copies = torch.arange(len(prompts)).repeat_interleave(beams.num_beams)
        self.ids = prompts[self.copies]  # (B · K, T)
        self.num_prompt = prompts.size(1)
        # At first all beams of a group are equal: only one of them counts.
        self.logprobs = torch.full((len(prompts), beams.num_beams), NEVER)
        self.logprobs[:, :: self.beams.group_size] = 0.0
        self.nodes: list[list[int | None]] = [[None] * beams.num_beams for _ in prompts]
        self.warps = warps(
            Sampling(do_sample=False, no_repeat_ngram_size=beams.no_repeat_ngram_size)
        )

    def advance(self, logits: Tensor) -> Tensor:
        """Choose the next tokens. Returns the rows that continue, in their new order."""
        self.step += 1
        chosen, parents = self._choose(logits)  # (B, K) each
        base = torch.arange(len(self.alive))[:, None] * self.beams.num_beams
        rows = (base + parents).flatten()
        self.ids = torch.cat((self.ids[rows], chosen.flatten()[:, None]), dim=1)
        going_on = [place for place in range(len(self.alive)) if not self._settle(place)]
        if len(going_on) < len(self.alive):
            kept = torch.tensor(going_on, dtype=torch.long)
            self.alive = [self.alive[place] for place in going_on]
            self.logprobs = self.logprobs[kept]
            self.nodes = [self.nodes[place] for place in going_on]
            rows, self.ids = (
                each.unflatten(0, (-1, self.beams.num_beams))[kept].flatten(0, 1)
                for each in (rows, self.ids)
            )
        return rows

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The next tokens, and the beams that they continue: (B, K) each."""
        total = refuse_nan(logits.logsumexp(-1))  # NaN if any of the logits is
        shift = self.logprobs - total.view_as(self.logprobs)  # (B, K)
        logits = reduce(lambda found, warp: warp(self.ids, found), self.warps, logits)
        logits = logits.unflatten(0, (len(self.alive), -1))  # (B, K, V); + shift: Σ log p
        chosen, tokens, parents, logprobs = (list[Tensor]() for _ in range(4))
        nodes: list[list[int | None]] = [[] for _ in self.alive]
        for group in range(self.beams.num_beam_groups):
            offer = self._offer(group, logits, shift, chosen)
            kept = self._sort_out(group, offer, nodes)  # (B, k)
            chosen.append(offer.tokens[:, : self.beams.group_size])  # ends among them
            tokens.append(offer.tokens.gather(1, kept))
            parents.append(offer.parents.gather(1, kept))
            # A beam whose only candidate left is an end is dead.
            alive = offer.logprobs.masked_fill(offer.is_end, NEVER)
            logprobs.append(alive.gather(1, kept))
        self.logprobs = torch.cat(logprobs, dim=1)
        self.nodes = nodes
        return torch.cat(tokens, dim=1), torch.cat(parents, dim=1)

    def _offer(self, group: int, logits: Tensor, shift: Tensor, chosen: list[Tensor]) -> _Offer:
        """The best candidates of a group, after the groups before it have chosen."""
        size = self.beams.group_size
        number = self.reach * size  # C
        first, width = group * size, min(number, logits.size(-1))
        rank = logits[:, first : first + size]  # (B, k, V)
        if chosen and self.beams.diversity:
            rank = rank - self.beams.diversity * _counts(chosen, rank)[:, None]
        best = rank.topk(width)  # of each beam, then of all
        value = best.values + shift[:, first : first + size, None]
        order = value.flatten(1).topk(min(number, size * width)).indices  # (B, C)
        tokens = best.indices.flatten(1).gather(1, order)
        parents = order // width + first
        logprobs = logits.flatten(1).gather(1, parents * logits.size(-1) + tokens)
        logprobs = logprobs + shift.gather(1, parents)
        return _Offer(tokens, parents, logprobs, torch.isin(tokens, self.ends))

    def _sort_out(self, group: int, offer: _Offer, nodes: list[list[int | None]]) -> Tensor:
        """Ends among the first k are complete. Returns the places of the first k others."""
        size = self.beams.group_size
        others = offer.is_end.float().argsort(dim=1, stable=True)[:, :size]  # ends come last
        if self.trace is not None:
            self._record(self.trace, offer, others, nodes)
        for place, rank in offer.is_end[:, :size].nonzero().tolist():
            logprob = float(offer.logprobs[place, rank])
            if logprob > NEVER:
                written = self._written(place, int(offer.parents[place, rank]))
                self.found[self.alive[place]].add(group, written, logprob, is_complete=True)
        return others

    def _written(self, place: int, beam: int) -> list[int]:
        return self.ids[place * self.beams.num_beams + beam, self.num_prompt :].tolist()

    def _settle(self, place: int) -> bool:
        """Whether the search of a sentence is over; its results are stored then."""
        number, size = self.alive[place], self.beams.group_size
        found, limit = self.found[number], self.limits[number]
        is_last, settled = self.step >= limit, True
        for group in range(self.beams.num_beam_groups):
            running = self.logprobs[place, group * size : (group + 1) * size]
            if not is_last:
                best = float(running.max())
                settled &= best == NEVER or found.beat(group, best, (self.step + 1, limit))
                continue
            found.cut_off(group, float(running.max()), self.step)
            # If complete ones are preferred and there are enough, none that was cut off is needed.
            if not (found.prefer_complete and found.has_enough(group)):
                for beam, logprob in enumerate(running.tolist(), group * size):
                    if logprob > NEVER:
                        found.add(group, self._written(place, beam), logprob, is_complete=False)
        if settled:
            self.results[number] = found.best()
            if self.trace is not None:
                for node in self.nodes[place]:
                    if node is not None:
                        self.trace.drop(node, "cut off" if is_last else "hopeless")
        return settled

    def _record(
        self, trace: Trace, offer: _Offer, others: Tensor, nodes: list[list[int | None]]
    ) -> None:
        for place, number in enumerate(self.alive):
            kept, added = others[place].tolist(), dict[int, int]()
            rows = zip(*(each[place].tolist() for each in offer), strict=True)
            for rank, (token, parent, logprob, is_end) in enumerate(rows):
                if logprob == NEVER:
                    continue
                is_complete = is_end and rank < self.beams.group_size
                fate = "complete" if is_complete else "outscored"
                added[rank] = trace.add(
                    parent=self.nodes[place][parent],
                    sentence=number,
                    step=self.step,
                    token=token,
                    logprob=logprob,
                    score=self.beams.score(logprob, self.step),
                    fate="kept" if rank in kept and not is_end else fate,
                )
            is_end = offer.is_end[place].tolist()
            nodes[place] += [None if is_end[rank] else added.get(rank) for rank in kept]


def _counts(chosen: list[Tensor], like: Tensor) -> Tensor:
    """How often the groups before chose each token in this step: (B, V)."""
    tokens = torch.cat(chosen, dim=1)
    counts = like.new_zeros(len(tokens), like.size(-1))
    return counts.scatter_add_(1, tokens, torch.ones_like(tokens, dtype=counts.dtype))
