"""Texts that a search wrote, the best first: what translations and captions share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class WrittenText:
    text: str
    score: float
    """Its log-probability, divided by its length to the power of length_penalty."""
    finish_reason: str = "stop"
    """stop: it is complete; length: it was cut off at max_new_tokens or at the end of the model's
    context, or a better one was."""


class WrittenTexts(ABC):
    """What was written for one input."""

    @property
    @abstractmethod
    def ranked(self) -> Sequence[WrittenText]:
        """The best first."""

    @property
    def text(self) -> str:
        return self.ranked[0].text

    @property
    def is_cut_off(self) -> bool:
        """Whether the best is incomplete."""
        return self.ranked[0].finish_reason == "length"
