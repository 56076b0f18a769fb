"""What a model needs for decoding: a start, and steps.

    state         = decoder.start(memory, padding, capacity)
    logits, state = decoder.step(ids, state)        repeated
    state         = state.reorder(rows)             row b continues row rows[b] of the old state

A Transformer keeps keys and values in its state, a recurrent network its hidden vectors; the
samplers need not know. A step and `reorder` may write into the state that they are given: continue
with the one that they return.
`memory` is what the decoder sees besides its own words: an encoded sentence, an image, or None.
"""

from typing import Any, Protocol

from torch import Tensor


class Decoder(Protocol):
    @property
    def context_length(self) -> int | None:
        """How many tokens it sees at once; None if there is no limit."""

    def start(self, memory: Any, padding: Tensor, capacity: int) -> Any:
        """An empty state: row b will begin with `padding[b]` fillers, to be ignored."""

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read `ids` (B, T); return the logits (B, V) of the token to come."""
