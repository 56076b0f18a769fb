"""What beam search considered: every candidate with its parent, and the way to the winner."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from glassformer.generation.beam import Trace, beam_search
from glassformer.generation.beam_settings import Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.protocol import Decoder

BEAMS, STEPS = 4, 10  # of a tree that fits on a page


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a text is continued: by a few beams for the tree, greedily for a comparison."""

    decoder: Decoder
    prompt: Sequence[int]
    ends: Sequence[int]
    device: torch.device
    memory: Callable[[], Any] = lambda: None
    """Encodes the source, if there is one."""
    steps: int = STEPS
    forbidden: Sequence[int] = ()
    prefer_complete: bool = True

    def tree(self, name_of: Callable[[int], str]) -> dict[str, Any]:
        """The tree of a search, the winner, and what greedy decoding would write."""
        trace = Trace()
        best, greedy = self._best(BEAMS, trace), self._best(1)
        nodes = [asdict(node) | {"token": name_of(node.token)} for node in trace.nodes]
        return {
            "num_beams": BEAMS,
            "nodes": nodes,
            "winner": _way(trace, best, self.ends),
            "best": [name_of(id) for id in best.ids],
            "greedy": [name_of(id) for id in greedy.ids],
            "score": best.score,
            "greedy_score": greedy.score,
        }

    def greedy_ids(self) -> list[int]:
        """What greedy decoding writes, whether it comes to an end or not."""
        return list(replace(self, prefer_complete=False)._best(1).ids)

    @torch.inference_mode()
    def _best(self, num_beams: int, trace: Trace | None = None) -> Hypothesis:
        """The best sequence that a search finds."""
        ((best, *_),) = beam_search(
            self.decoder,
            [list(self.prompt)],
            Beams(num_beams=num_beams),
            max_new_tokens=self.steps,
            ends=self.ends,
            memory=self.memory(),
            device=self.device,
            trace=trace,
            prefer_complete=self.prefer_complete,
            forbidden=self.forbidden,
        )
        return best


def _way(trace: Trace, best: Hypothesis, ends: Sequence[int]) -> list[int]:
    """The nodes that spell a sequence, from the first token on; of several ends, the likeliest."""
    steps: list[Sequence[int]] = [*([id] for id in best.ids)]
    if best.is_complete:
        steps.append(ends)
    way: list[int] = []
    for ids in steps:
        parent = way[-1] if way else None
        next_ones = [n for n in trace.nodes if n.parent == parent and n.token in ids]
        if not next_ones:
            break
        way.append(max(next_ones, key=lambda node: node.logprob).node)
    return way
