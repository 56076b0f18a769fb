"""What beam search has found for one sentence: the best hypotheses of each group of beams."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.generation.beam_settings import Beams


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
