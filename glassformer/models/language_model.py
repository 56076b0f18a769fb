"""What every language model offers, whatever it is made of."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn


class LanguageModel(nn.Module, ABC):
    """Predicts the next token at every position: hidden states, and a linear head on them.

    The two are apart so that a loss can make the logits in chunks, and decoding only the last.
    """

    head: nn.Linear

    @property
    @abstractmethod
    def context_length(self) -> int:
        """How many tokens it sees at once."""

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @abstractmethod
    def hidden(self, ids: Tensor, state: Any = None) -> Tensor:
        """What the head predicts from: (B, T) → (B, T, D). With a state, `ids` continue it."""

    @abstractmethod
    def start(self, memory: None, padding: Tensor, capacity: int) -> Any:
        """An empty state for `len(padding)` rows; row b begins with `padding[b]` fillers."""

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position: (B, T) → (B, T, V)."""
        return self.head(self.hidden(ids))

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read `ids` (B, T) after what the state holds; logits of the token to come: (B, V)."""
        return self.head(self.hidden(ids, state)[:, -1]), state
