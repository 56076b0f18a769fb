"""A decoder that attends to a memory: what an encoder made of a source, in one pass.

memory = encode(source)                     read the source once
logits = head(hidden(target, memory))       each position predicts the next token

The base of all models that write text about something else: a sentence to translate, an image to
describe. What the source is and how it is encoded is up to the subclass.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from glassformer.models.heads import HeadedModel
from glassformer.nn.cache import is_in_order
from glassformer.nn.observe import Tap


class MemoryDecoder(HeadedModel, ABC):
    """An encoder, a decoder, and a linear head that predicts the next token of the target."""

    vocabulary_layers: ClassVar[tuple[str, ...]] = ("head",)
    can_read_its_own_words: ClassVar[bool] = False
    """`hidden` has the argument `own_share`, as scheduled sampling needs."""

    context_length: int
    """Maximum number of tokens of the target."""

    @property
    @abstractmethod
    def taps(self) -> list[Tap]:
        """The taps of the attention to the memory, one per layer."""

    @abstractmethod
    def encode(self, source: Tensor) -> Any:
        """Encode the sources of a batch."""

    @abstractmethod
    def hidden(self, target: Tensor, memory: Any) -> Tensor:
        """The input of the head, from all tokens up to each position: (B, T) → (B, T, D)."""

    @abstractmethod
    def start(self, memory: Any, padding: Tensor, capacity: int) -> Any:
        """A state for the rows of `memory`, before the first token."""

    @abstractmethod
    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Continue a state with `ids` (B, T); return the logits of the next token, (B, V)."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of the token after each token of `target`: (B, T) → (B, T, V)."""
        return self.head(self.hidden(target, self.encode(source)))


@dataclass(frozen=True)
class MemoryState:
    """What a decoder keeps between two decoding steps."""

    memory: Any
    """What `encode` returned: a row for each source, some of which can be taken with `take`."""
    written: Any
    """What the decoder has written so far: a cache, or a hidden state."""
    copies: int = 1
    """Consecutive rows that share one row of the memory, such as the beams of one sentence."""

    def reorder(self, indices: Tensor) -> "MemoryState":
        """Row b of the result continues row `indices[b]`.

        As long as beams stay with their sources, the memory is neither copied nor moved.
        """
        sources, written = indices // self.copies, self.written.reorder(indices)
        rows, counts = sources.unique_consecutive(return_counts=True)
        if (counts != counts[0]).any():
            return MemoryState(self.memory.take(sources), written)
        memory = self.memory if is_in_order(rows, len(self.memory)) else self.memory.take(rows)
        return MemoryState(memory, written, int(counts[0]))
