"""Beam search: the likeliest sequence as a whole, not the likeliest token at each step.

    candidates = log p(beam) + log p(token | beam)      of every beam and every token
    beams      = the best K of them                     again and again

A candidate that ends the sequence is complete and leaves the race; its score is

    score = Σ log p(token) / length ^ length_penalty

The search of a sentence is over at `max_new_tokens`, or sooner, when nothing that is still running
can come among the best `num_return_sequences`: each further token makes Σ log p smaller, so the
score it can still reach has a bound. With one beam, which is greedy decoding, the first end is it.

Many sentences are searched side by side; those that are done make room at once. What is added up
is what the model itself says: a forbidden token changes what may be chosen, not how likely it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.config import Config, Count
from glassformer.generation.logits import Sampling, checked, warps
from glassformer.generation.protocol import Decoder
from glassformer.generation.sample import read_on, read_prompts
from glassformer.nn.cache import is_in_order
from glassformer.runtime.threads import check_wanted

NEVER = -math.inf
MOST_BEAMS = 1_000  # far more than ever did any good


class Beams(Config):
    """How to search. Names and meanings follow Hugging Face's."""

    num_beams: Count = Field(4, ge=1, le=MOST_BEAMS)
    num_return_sequences: Count = Field(1, ge=1)
    length_penalty: float = Field(1.0, ge=-10, le=10)
    """0: the likeliest sequence, which is often too short; above 0, longer ones gain."""
    no_repeat_ngram_size: Count | None = Field(None, ge=1)
    """No run of n tokens occurs twice."""
    num_beam_groups: Count = Field(1, ge=1)
    """Groups of beams that search apart, each shying away from what the ones before it chose."""
    diversity_penalty: float | None = Field(None, ge=0)
    """How much: taken from the score of a token for each time it was just chosen; null: 0.5."""

    @model_validator(mode="after")
    def _fits(self) -> "Beams":
        if self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"num_return_sequences {self.num_return_sequences} is more than num_beams "
                f"{self.num_beams}; ask for fewer sequences or more beams"
            )
        if self.num_beams % self.num_beam_groups:
            raise ValueError(
                f"num_beams {self.num_beams} is no multiple of num_beam_groups "
                f"{self.num_beam_groups}; change one of them"
            )
        if self.diversity_penalty and self.num_beam_groups == 1:
            raise ValueError("diversity_penalty is between groups: say num_beam_groups, too")
        return self

    @property
    def diversity(self) -> float:
        return 0.5 if self.diversity_penalty is None else self.diversity_penalty

    def score(self, logprob: float, length: int) -> float:
        return logprob / length**self.length_penalty


@dataclass(frozen=True)
class Hypothesis:
    """A sequence that was found."""

    ids: tuple[int, ...]
    """Without the prompt and without the end."""
    logprob: float
    """Σ log p of its tokens and, if it is complete, of its end."""
    score: float
    is_complete: bool
    """It came to its end; else it was cut off at max_new_tokens."""


@dataclass(frozen=True)
class Candidate:
    """A node of the tree that a search has walked."""

    node: int
    parent: int | None
    """None: the prompt."""
    sentence: int
    step: int
    token: int
    logprob: float
    score: float
    fate: str
    """complete; kept: others follow it; or why it was dropped: outscored by others, hopeless when
    the search was over, cut off at max_new_tokens."""


@dataclass
class Trace:
    """Every candidate that came near enough to be looked at: twice as many as there are beams."""

    candidates: list[Candidate] = field(default_factory=list)

    def add(self, **values: Any) -> int:
        self.candidates.append(Candidate(node=len(self.candidates), **values))
        return len(self.candidates) - 1

    def drop(self, node: int, fate: str) -> None:
        self.candidates[node] = replace(self.candidates[node], fate=fate)


class _Offer(NamedTuple):
    """The candidates of a group of k beams, best first: (B, 2k) each."""

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
    end: int | None,
    memory: Any = None,
    device: torch.device | None = None,
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The best sequences after each prompt, best first. `end` is the token that completes one."""
    if not prompts:
        return []
    limits = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else max_new_tokens
    longest = max(map(len, prompts))
    if min(limits) < 1:
        raise ValueError("at least one token must be asked for")
    if decoder.context_length is not None:
        limits = [min(limit, decoder.context_length + 1 - longest) for limit in limits]
    logits, state, ids = read_prompts(decoder, prompts, memory, max(limits), device)
    search = _Search(beams, ids, limits, end, trace)
    state = state.reorder(search.copies.to(device))
    logits = logits[search.copies]
    while True:
        check_wanted()
        rows = search.advance(logits)
        if not search.alive:
            return [search.results[number] for number in range(len(prompts))]
        if not is_in_order(rows, len(logits)):
            state = state.reorder(rows.to(device))
        logits, state = read_on(decoder, search.ids[:, -1:], state, device)


class _Search:
    """The beams of all sentences that are not done: K rows, one after the other, for each."""

    def __init__(
        self,
        beams: Beams,
        prompts: Tensor,
        limits: Sequence[int],
        end: int | None,
        trace: Trace | None,
    ) -> None:
        self.beams = beams
        self.end = end
        self.trace = trace
        self.step = 0
        self.alive = list(range(len(prompts)))  # numbers of the sentences
        self.limits = list(limits)
        self.results: dict[int, list[Hypothesis]] = {}
        self.complete: list[list[list[Hypothesis]]] = [
            [[] for _ in range(beams.num_beam_groups)] for _ in prompts
        ]
        self.copies = torch.arange(len(prompts)).repeat_interleave(beams.num_beams)
        self.ids = prompts[self.copies]  # (B · K, T)
        self.num_prompt = prompts.size(1)
        # At first all beams of a group are the same: only one of them counts.
        self.logprobs = torch.full((len(prompts), beams.num_beams), NEVER)
        self.logprobs[:, :: self.group_size] = 0.0
        self.nodes: list[list[int | None]] = [[None] * beams.num_beams for _ in prompts]
        self.warps = warps(
            Sampling(do_sample=False, no_repeat_ngram_size=beams.no_repeat_ngram_size)
        )

    @property
    def group_size(self) -> int:
        return self.beams.num_beams // self.beams.num_beam_groups

    def advance(self, logits: Tensor) -> Tensor:
        """Choose the next tokens; returns which rows go on, in their new order."""
        self.step += 1
        chosen, parents = self._choose(logits)  # (B, K) each
        base = torch.arange(len(self.alive))[:, None] * self.beams.num_beams
        rows = (base + parents).flatten()
        self.ids = torch.cat((self.ids[rows], chosen.flatten()[:, None]), dim=1)
        going_on = [place for place, number in enumerate(self.alive) if not self._settle(place)]
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
        """The tokens that the beams go on with, and which beams those are: (B, K) each."""
        total = checked(logits.logsumexp(-1))  # which is no number if any of the logits is none
        shift = self.logprobs - total.view_as(self.logprobs)  # (B, K)
        logits = reduce(lambda found, warp: warp(self.ids, found), self.warps, logits)
        logits = logits.unflatten(0, (len(self.alive), -1))  # (B, K, V); + shift: Σ log p
        chosen, tokens, parents, logprobs = (list[Tensor]() for _ in range(4))
        nodes: list[list[int | None]] = [[] for _ in self.alive]
        for group in range(self.beams.num_beam_groups):
            offer = self._offer(group, logits, shift, chosen)
            kept = self._sort_out(group, offer, nodes)  # (B, k)
            chosen.append(offer.tokens[:, : self.group_size])  # ends among them
            tokens.append(offer.tokens.gather(1, kept))
            parents.append(offer.parents.gather(1, kept))
            # Where only an end was left to be offered, that beam is dead.
            alive = offer.logprobs.masked_fill(offer.is_end, NEVER)
            logprobs.append(alive.gather(1, kept))
        self.logprobs = torch.cat(logprobs, dim=1)
        self.nodes = nodes
        return torch.cat(tokens, dim=1), torch.cat(parents, dim=1)

    def _offer(self, group: int, logits: Tensor, shift: Tensor, chosen: list[Tensor]) -> _Offer:
        """The best candidates of a group, after the groups before it have chosen."""
        size = self.group_size
        first, width = group * size, min(2 * size, logits.size(-1))
        rank = logits[:, first : first + size]  # (B, k, V)
        if chosen and self.beams.diversity:
            rank = rank - self.beams.diversity * _counts(chosen, rank)[:, None]
        best = rank.topk(width)  # of each beam, then of all
        value = best.values + shift[:, first : first + size, None]
        order = value.flatten(1).topk(min(2 * size, size * width)).indices  # (B, 2k)
        tokens = best.indices.flatten(1).gather(1, order)
        parents = order // width + first
        logprobs = logits.flatten(1).gather(1, parents * logits.size(-1) + tokens)
        logprobs = logprobs + shift.gather(1, parents)
        is_end = torch.zeros_like(tokens, dtype=torch.bool)
        return _Offer(tokens, parents, logprobs, is_end if self.end is None else tokens == self.end)

    def _sort_out(self, group: int, offer: _Offer, nodes: list[list[int | None]]) -> Tensor:
        """Ends among the first k are complete; the places of the first k others are returned."""
        size = self.group_size
        others = offer.is_end.float().argsort(dim=1, stable=True)[:, :size]  # ends come last
        if self.trace is not None:
            self._record(self.trace, offer, others, nodes)
        for place, rank in offer.is_end[:, :size].nonzero().tolist():
            logprob = float(offer.logprobs[place, rank])
            if logprob > NEVER:
                written = self._written(place, int(offer.parents[place, rank]))
                self._finish(place, group, written, logprob, is_complete=True)
        return others

    def _finish(
        self, place: int, group: int, ids: list[int], logprob: float, *, is_complete: bool
    ) -> None:
        score = self.beams.score(logprob, len(ids) + is_complete)
        found = self.complete[self.alive[place]][group]
        found.append(Hypothesis(tuple(ids), logprob, score, is_complete))
        found.sort(key=_rank)
        del found[self.group_size :]

    def _written(self, place: int, beam: int) -> list[int]:
        return self.ids[place * self.beams.num_beams + beam, self.num_prompt :].tolist()

    def _settle(self, place: int) -> bool:
        """Is the search of a sentence over? Then its results are put down."""
        number, size = self.alive[place], self.group_size
        is_last, settled = self.step >= self.limits[number], True
        for group, found in enumerate(self.complete[number]):
            running = self.logprobs[place, group * size : (group + 1) * size]
            if is_last and len(found) < self.share:  # something cut off is better than nothing
                for beam, logprob in enumerate(running.tolist(), group * size):
                    if logprob > NEVER:
                        written = self._written(place, beam)
                        self._finish(place, group, written, logprob, is_complete=False)
            elif not is_last:
                settled &= self._is_hopeless(number, found, float(running.max()))
        if settled:
            self.results[number] = self._best(self.complete[number])
            if self.trace is not None:
                for node in self.nodes[place]:
                    if node is not None:
                        self.trace.drop(node, "cut off" if is_last else "hopeless")
        return settled

    @property
    def share(self) -> int:
        """Of what is returned, how many each group contributes."""
        return -(-self.beams.num_return_sequences // self.beams.num_beam_groups)

    def _best(self, groups: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The best of each group; where groups have found the same, their next best."""
        first = [each for found in groups for each in found[: self.share]]
        rest = sorted((each for found in groups for each in found[self.share :]), key=_rank)
        distinct: dict[Any, Hypothesis] = {}
        for each in (*first, *rest):
            distinct.setdefault((each.ids, each.is_complete), each)
        return sorted([*distinct.values()][: self.beams.num_return_sequences], key=_rank)

    def _is_hopeless(self, number: int, found: list[Hypothesis], logprob: float) -> bool:
        """Can no beam of this log-probability come among the best any more? Its score, if it ends
        after n tokens, is at most logprob / n^penalty: largest for the next or the last n."""
        if logprob == NEVER:
            return True
        if len(found) < self.share:
            return False
        if self.group_size == 1:
            return True
        bound = max(self.beams.score(logprob, n) for n in (self.step + 1, self.limits[number]))
        return found[self.share - 1].score >= bound

    def _record(
        self, trace: Trace, offer: _Offer, others: Tensor, nodes: list[list[int | None]]
    ) -> None:
        for place, number in enumerate(self.alive):
            kept, added = others[place].tolist(), dict[int, int]()
            rows = zip(*(each[place].tolist() for each in offer), strict=True)
            for rank, (token, parent, logprob, is_end) in enumerate(rows):
                if logprob == NEVER:
                    continue
                is_complete = is_end and rank < self.group_size
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


def _rank(found: Hypothesis) -> tuple[bool, float]:
    """What came to its end before what was cut off, then by score."""
    return not found.is_complete, -found.score


def _counts(chosen: list[Tensor], like: Tensor) -> Tensor:
    """How often each token was chosen in this step by the groups before: (B, V)."""
    tokens = torch.cat(chosen, dim=1)
    counts = like.new_zeros(len(tokens), like.size(-1))
    return counts.scatter_add_(1, tokens, torch.ones_like(tokens, dtype=counts.dtype))
