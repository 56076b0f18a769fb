"""What beam search considered: every candidate with its parent, and the way to the winner."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from glassformer.generation.beam import Trace, beam_search
from glassformer.generation.beam_settings import Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.protocol import Decoder

BEAMS, STEPS = 4, 10  # of a tree that fits on a page


def search_tree(
    decoder: Decoder,
    prompt: Sequence[int],
    name_of: Callable[[int], str],
    *,
    end: int | None,
    device: torch.device,
    memory: Callable[[], Any] = lambda: None,
    steps: int = STEPS,
    prefer_complete: bool = True,
    forbidden: Sequence[int] = (),
) -> dict[str, Any]:
    """The tree of a search with a few beams, the winner, and what greedy decoding would write.
    `memory` encodes the source, if there is one."""

    search = partial(
        _found,
        decoder,
        prompt,
        end=end,
        device=device,
        memory=memory,
        steps=steps,
        forbidden=forbidden,
    )
    trace = Trace()
    best = search(BEAMS, trace=trace, prefer_complete=prefer_complete)
    greedy = search(1, prefer_complete=prefer_complete)
    nodes = [asdict(each) | {"token": name_of(each.token)} for each in trace.nodes]
    return {
        "num_beams": BEAMS,
        "nodes": nodes,
        "winner": _way(trace, best, end),
        "best": [name_of(id) for id in best.ids],
        "greedy": [name_of(id) for id in greedy.ids],
        "score": best.score,
        "greedy_score": greedy.score,
    }


def greedy_ids(
    decoder: Decoder,
    prompt: Sequence[int],
    *,
    end: int | None,
    device: torch.device,
    memory: Callable[[], Any] = lambda: None,
    steps: int,
    forbidden: Sequence[int] = (),
) -> list[int]:
    """What greedy decoding writes, in at most so many steps."""
    found = _found(
        decoder,
        prompt,
        1,
        end=end,
        device=device,
        memory=memory,
        steps=steps,
        forbidden=forbidden,
    )
    return list(found.ids)


def _found(
    decoder: Decoder,
    prompt: Sequence[int],
    num_beams: int,
    *,
    end: int | None,
    device: torch.device,
    memory: Callable[[], Any],
    steps: int,
    trace: Trace | None = None,
    prefer_complete: bool = False,
    forbidden: Sequence[int] = (),
) -> Hypothesis:
    """The best sequence that a search finds."""
    found = beam_search(
        decoder,
        [list(prompt)],
        Beams(num_beams=num_beams),
        max_new_tokens=steps,
        end=end,
        memory=memory(),
        device=device,
        trace=trace,
        prefer_complete=prefer_complete,
        forbidden=forbidden,
    )
    return found[0][0]


def _way(trace: Trace, found: Hypothesis, end: int | None) -> list[int]:
    """The nodes that spell a sequence, from the first token on."""
    ids = [*found.ids, *([end] if found.is_complete and end is not None else [])]
    way: list[int] = []
    for id in ids:
        parent = way[-1] if way else None
        same = (n.node for n in trace.nodes if (n.parent, n.token) == (parent, id))
        node = next(same, None)
        if node is None:
            break
        way.append(node)
    return way
