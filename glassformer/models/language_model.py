"""What all language models have in common."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from glassformer.models.headed_model import HeadedModel


class LanguageModel(HeadedModel, ABC):
    """Predicts the next token at every position: hidden states, and a linear head on them.

    The two are separate so that a loss can compute logits in chunks, and decoding only the last.
    """

    vocabulary_layers: ClassVar[tuple[str, ...]] = ("head",)
    is_causal: ClassVar[bool] = True
    """Each position sees only itself and the past."""

    context_length: int
    """Maximum number of tokens."""

    @abstractmethod
    def hidden(self, ids: Tensor, state: Any = None) -> Tensor:
        """The input of the head: (B, T) → (B, T, D). With a state, `ids` continue it."""

    @abstractmethod
    def start(self, memory: None, padding: Tensor, capacity: int) -> Any:
        """An empty state for `len(padding)` rows; row b starts with `padding[b]` padding tokens."""

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position: (B, T) → (B, T, V)."""
        return self.head(self.hidden(ids))

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Continue a state with `ids` (B, T); return the logits of the next token, (B, V)."""
        return self.head(self.hidden(ids, state)[:, -1]), state
