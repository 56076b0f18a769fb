"""A record of beam search: the tree of everything that it considered."""

from dataclasses import dataclass, field, replace
from typing import Any


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
    """Every candidate that was ranked: twice as many in each step as there are beams."""

    nodes: list[SearchNode] = field(default_factory=list)

    def add(self, **values: Any) -> int:
        self.nodes.append(SearchNode(node=len(self.nodes), **values))
        return len(self.nodes) - 1

    def drop(self, node: int, fate: str) -> None:
        self.nodes[node] = replace(self.nodes[node], fate=fate)
