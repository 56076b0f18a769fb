"""What a model must offer to be decoded from: begin, and read some more.

    state         = decoder.start(memory, padding, capacity)
    logits, state = decoder.step(ids, state)        again and again
    state         = state.reorder(rows)             to keep, repeat or drop rows

A Transformer keeps keys and values in its state, a recurrent network its hidden vectors; the
samplers need not know. A step may write into the state it is given: go on with the one it returns.
`memory` is what the decoder looks at besides its own words: an encoded sentence, an image, or None.
"""

from typing import Any, Protocol

from torch import Tensor


class State(Protocol):
    def reorder(self, indices: Tensor) -> Any:
        """Row b of the result continues row `indices[b]`."""


class Decoder(Protocol):
    @property
    def context_length(self) -> int | None:
        """How many tokens it can look back on; None if there is no limit."""

    def start(self, memory: Any, padding: Tensor, capacity: int) -> Any:
        """An empty state: row b will begin with `padding[b]` fillers, to be ignored."""

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read `ids` (B, T); return the logits (B, V) of the token to come."""
