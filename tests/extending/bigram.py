"""A model of a task that exists: the next token from the last one alone. One file and one row."""

from typing import Any

from torch import Tensor, nn

from glassformer.config import Config
from glassformer.models import MODELS, ModelRow
from glassformer.models.heads import LanguageModel
from glassformer.nn.linear import Linear


class BigramConfig(Config):
    vocab_size: int | None = None
    context_length: int = 32
    d_model: int = 16


class NoState:
    def reorder(self, indices: Tensor) -> "NoState":
        return self


class Bigram(LanguageModel):
    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size or 1, config.d_model)
        self.head = Linear(config.d_model, config.vocab_size or 1)

    @property
    def context_length(self) -> int:
        return self.config.context_length

    def hidden(self, ids: Tensor, state: Any = None) -> Tensor:
        return self.embedding(ids)

    def start(self, memory: None, padding: Tensor, capacity: int) -> NoState:
        return NoState()


def add_row() -> None:
    MODELS["bigram"] = ModelRow(
        "language",
        "the next token from the last one",
        lambda: (BigramConfig, Bigram),
        {"small": {}},
        ((0, "small"),),
    )
