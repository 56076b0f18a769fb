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


# --- the hypotheses of one sentence: the best of each group of beams ---


@dataclass(frozen=True)
class Hypothesis:
    """A sequence that the search may return."""

    ids: tuple[int, ...]
    """The tokens, without the prompt and the end."""
    logprob: float
    """Σ log p of its tokens and, if it is complete, of its end."""
    score: float
    is_complete: bool
    """Whether it reached its end; otherwise it was cut off at max_new_tokens."""
    is_second_best: bool = False
    """Whether a sequence with a better score was cut off at max_new_tokens."""

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
        hypotheses = self.groups[group]
        hypotheses.append(Hypothesis(tuple(ids), logprob, score, is_complete))
        hypotheses.sort(key=self._rank)
        # A text that ends with one token or another is one text.
        distinct = {(one.ids, one.is_complete): one for one in reversed(hypotheses)}
        hypotheses[:] = sorted(distinct.values(), key=self._rank)[: self.beams.group_size]

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
            replace(one, is_second_best=True) if one.score < score else one
            for one in self.groups[group]
        ]

    def best(self) -> list[Hypothesis]:
        """The best of each group; where groups have the same, their next best."""
        first = [one for group in self.groups for one in group[: self.share]]
        rest = [one for group in self.groups for one in group[self.share :]]
        distinct: dict[Any, Hypothesis] = {}
        for one in (*first, *sorted(rest, key=self._rank)):
            distinct.setdefault((one.ids, one.is_complete), one)
        return sorted([*distinct.values()][: self.beams.num_return_sequences], key=self._rank)

    def _rank(self, hypothesis: Hypothesis) -> tuple[bool, float]:
        """A sort key: by score, but complete sequences first if they are preferred."""
        return self.prefer_complete and not hypothesis.is_complete, -hypothesis.score


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


class _Candidates(NamedTuple):
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
        if not search.unfinished:
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
        self.unfinished = list(range(len(prompts)))  # sentences, by number
        self.limits = list(limits)
        self.results: dict[int, list[Hypothesis]] = {}
        self.hypotheses = [Hypotheses(beams, prefer_complete) for _ in prompts]
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
        base = torch.arange(len(self.unfinished))[:, None] * self.beams.num_beams
        rows = (base + parents).flatten()
        self.ids = torch.cat((self.ids[rows], chosen.flatten()[:, None]), dim=1)
        remaining = [index for index in range(len(self.unfinished)) if not self._finish(index)]
        if len(remaining) < len(self.unfinished):
            kept = torch.tensor(remaining, dtype=torch.long)
            self.unfinished = [self.unfinished[index] for index in remaining]
            self.logprobs = self.logprobs[kept]
            self.nodes = [self.nodes[index] for index in remaining]
            rows, self.ids = (
                tensor.unflatten(0, (-1, self.beams.num_beams))[kept].flatten(0, 1)
                for tensor in (rows, self.ids)
            )
        return rows

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The next tokens, and the beams that they continue: (B, K) each."""
        total = refuse_nan(logits.logsumexp(-1))  # NaN if any of the logits is
        shift = self.logprobs - total.view_as(self.logprobs)  # (B, K)
        logits = reduce(lambda logits, warp: warp(self.ids, logits), self.warps, logits)
        logits = logits.unflatten(0, (len(self.unfinished), -1))  # (B, K, V); + shift: Σ log p
        chosen, tokens, parents, logprobs = (list[Tensor]() for _ in range(4))
        nodes: list[list[int | None]] = [[] for _ in self.unfinished]
        for group in range(self.beams.num_beam_groups):
            candidates = self._best_candidates(group, logits, shift, chosen)
            kept = self._collect_complete(group, candidates, nodes)  # (B, k)
            chosen.append(candidates.tokens[:, : self.beams.group_size])  # ends among them
            tokens.append(candidates.tokens.gather(1, kept))
            parents.append(candidates.parents.gather(1, kept))
            # A beam whose only candidate left is an end is dead.
            alive = candidates.logprobs.masked_fill(candidates.is_end, NEVER)
            logprobs.append(alive.gather(1, kept))
        self.logprobs = torch.cat(logprobs, dim=1)
        self.nodes = nodes
        return torch.cat(tokens, dim=1), torch.cat(parents, dim=1)

    def _best_candidates(
        self, group: int, logits: Tensor, shift: Tensor, chosen: list[Tensor]
    ) -> _Candidates:
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
        return _Candidates(tokens, parents, logprobs, torch.isin(tokens, self.ends))

    def _collect_complete(
        self, group: int, candidates: _Candidates, nodes: list[list[int | None]]
    ) -> Tensor:
        """Store the ends among the first k, which are complete. Returns the ranks of the first k
        others."""
        size = self.beams.group_size
        others = candidates.is_end.float().argsort(dim=1, stable=True)[:, :size]  # ends come last
        if self.trace is not None:
            self._record(self.trace, candidates, others, nodes)
        for index, rank in candidates.is_end[:, :size].nonzero().tolist():
            logprob = float(candidates.logprobs[index, rank])
            if logprob > NEVER:
                ids = self._written(index, int(candidates.parents[index, rank]))
                self.hypotheses[self.unfinished[index]].add(group, ids, logprob, is_complete=True)
        return others

    def _written(self, index: int, beam: int) -> list[int]:
        return self.ids[index * self.beams.num_beams + beam, self.num_prompt :].tolist()

    def _finish(self, index: int) -> bool:
        """Store the results of a sentence if its search is over. Returns whether it is."""
        sentence, size = self.unfinished[index], self.beams.group_size
        hypotheses, limit = self.hypotheses[sentence], self.limits[sentence]
        is_last, is_over = self.step >= limit, True
        for group in range(self.beams.num_beam_groups):
            running = self.logprobs[index, group * size : (group + 1) * size]
            if not is_last:
                best = float(running.max())
                is_over &= best == NEVER or hypotheses.beat(group, best, (self.step + 1, limit))
                continue
            hypotheses.cut_off(group, float(running.max()), self.step)
            # If complete ones are preferred and there are enough, none that was cut off is needed.
            if not (hypotheses.prefer_complete and hypotheses.has_enough(group)):
                for beam, logprob in enumerate(running.tolist(), group * size):
                    if logprob > NEVER:
                        ids = self._written(index, beam)
                        hypotheses.add(group, ids, logprob, is_complete=False)
        if is_over:
            self.results[sentence] = hypotheses.best()
            if self.trace is not None:
                for node in self.nodes[index]:
                    if node is not None:
                        self.trace.drop(node, "cut off" if is_last else "hopeless")
        return is_over

    def _record(
        self, trace: Trace, candidates: _Candidates, others: Tensor, nodes: list[list[int | None]]
    ) -> None:
        for index, sentence in enumerate(self.unfinished):
            kept, added = others[index].tolist(), dict[int, int]()
            rows = zip(*(values[index].tolist() for values in candidates), strict=True)
            for rank, (token, parent, logprob, is_end) in enumerate(rows):
                if logprob == NEVER:
                    continue
                is_complete = is_end and rank < self.beams.group_size
                fate = "complete" if is_complete else "outscored"
                added[rank] = trace.add(
                    parent=self.nodes[index][parent],
                    sentence=sentence,
                    step=self.step,
                    token=token,
                    logprob=logprob,
                    score=self.beams.score(logprob, self.step),
                    fate="kept" if rank in kept and not is_end else fate,
                )
            is_end = candidates.is_end[index].tolist()
            nodes[index] += [None if is_end[rank] else added.get(rank) for rank in kept]


def _counts(chosen: list[Tensor], like: Tensor) -> Tensor:
    """How often the groups before chose each token in this step: (B, V)."""
    tokens = torch.cat(chosen, dim=1)
    counts = like.new_zeros(len(tokens), like.size(-1))
    return counts.scatter_add_(1, tokens, torch.ones_like(tokens, dtype=counts.dtype))
