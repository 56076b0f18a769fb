"""What every translator offers, whatever it is made of: an encoder, and a decoder that answers it.

memory = encode(source)                     read the sentence once
logits = head(hidden(target, memory))       each position predicts the next token
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.nn.attention import Tap
from glassformer.nn.cache import is_in_order


class TranslatorConfig(Config):
    """What the configs of all translators have."""

    vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens of the source; null in a recipe: the tokenizer's."""
    target_vocab_size: Count | None = Field(None, ge=1, le=2**24)
    """Number of tokens of the target, if it has a vocabulary of its own; null: they share one."""
    context_length: Count = Field(128, ge=2, le=2**24)
    """How many tokens a sentence may have, on either side."""
    source_column: str | None = None
    """The columns (or languages) that it was trained on, to find them again …"""
    target_column: str | None = None
    reverse: bool = False
    """… and whether they were read the other way round."""


class Translator(nn.Module, ABC):
    """Encoder, decoder and a linear head that predicts the next token of the target."""

    head: nn.Linear

    def __init__(self, config: TranslatorConfig, d_embedding: int) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise GlassformerError("a translator needs vocab_size: the number of its tokens.")
        self.config = config
        self.num_targets = config.target_vocab_size or config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, d_embedding)
        is_shared = config.target_vocab_size is None
        self.target_embedding = (
            self.embedding if is_shared else nn.Embedding(self.num_targets, d_embedding)
        )

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    @abstractmethod
    def taps(self) -> list[Tap]:
        """Where the decoder looks at the source: one per layer."""

    @abstractmethod
    def encode(self, source: Tensor, is_text: Tensor | None = None) -> Any:
        """Read sentences (B, S), padded on the right; None for `is_text`: all of it is."""

    @abstractmethod
    def hidden(self, target: Tensor, memory: Any) -> Tensor:
        """What the head predicts from, given all tokens before: (B, T) → (B, T, D)."""

    @abstractmethod
    def start(self, memory: Any, padding: Tensor, capacity: int) -> Any:
        """A state for the rows of `memory`, before the first token."""

    @abstractmethod
    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read `ids` (B, T) after what the state holds; logits of the token to come: (B, V)."""

    def forward(self, source: Tensor, target: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Logits of the token after each of `target`: (B, S), (B, T) → (B, T, V)."""
        return self.head(self.hidden(target, self.encode(source, is_text)))

    def check_length(self, length: int) -> None:
        if length > self.context_length:
            raise GlassformerError(
                f"a sentence of {length:,} tokens does not fit in the model's context of "
                f"{self.context_length:,}."
            )


class Takeable(Protocol):
    """What an encoder has read: some rows of it can be taken."""

    def take(self, rows: Tensor) -> Self: ...

    def __len__(self) -> int: ...


TakeableT = TypeVar("TakeableT", bound=Takeable)


def followed(memory: TakeableT, indices: Tensor, copies: int) -> tuple[TakeableT, int]:
    """The memory of a state whose rows are reordered, and how many rows share each of its own.
    Before, `copies` rows in turn shared one; `indices` says which rows go on.

    While beams stay with their sentences, the memory is neither copied nor moved.
    """
    rows, counts = (indices // copies).unique_consecutive(return_counts=True)
    if (counts == counts[0]).all():
        kept = memory if is_in_order(rows, len(memory)) else memory.take(rows)
        return kept, int(counts[0])
    return memory.take(indices // copies), 1
