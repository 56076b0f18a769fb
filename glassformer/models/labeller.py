"""What all models that predict labels have in common: a linear head on a representation.

logits = head(dropout(represent(ids)))        (B, C) per text, (B, T, C) per token
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from glassformer.config import Config
from glassformer.errors import GlassformerError
from glassformer.models.fields import Rate
from glassformer.models.headed_model import HeadedModel
from glassformer.models.stack import initialize
from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear


class LabelsConfig(Config):
    """The labels that a model can predict."""

    labels: tuple[str, ...] = ()
    """Names of the labels; empty in a recipe: taken from the data."""
    multi_label: bool = False
    """Any number of labels may apply at once: a yes/no decision for each."""
    head_dropout: Rate = 0.1
    """Dropout on the input of the head."""

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        for label, count in Counter(self.labels).most_common(1):
            if count > 1:
                raise ValueError(f'the label "{label}" is given twice')
        return self


class Labeller(HeadedModel, ABC):
    """A linear head with one output per label, on what `represent` returns."""

    default_context: ClassVar[int | None] = 512
    """Longest context that is chosen for it by default; None: texts of any length."""
    default_words: ClassVar[int | None] = None
    """Number of words in its vocabulary by default; None: as the amount of text suggests."""
    is_causal: ClassVar[bool] = False
    """Each position sees only itself and the past."""
    reads_words_alone: ClassVar[bool] = False
    """What a token adds depends on its own words only, not on what it took up from the others."""
    body_name: ClassVar[str | None] = None
    """Name of the attribute that holds the part that may come pre-trained."""

    temperature: Tensor
    """Logits are divided by it to give calibrated probabilities."""

    def __init__(self, config: LabelsConfig, width: int, context_length: int | None) -> None:
        super().__init__()
        if not config.labels:
            raise GlassformerError("a classifier needs labels, the names of its classes.")
        self.config = config
        self.labels = config.labels
        self.context_length = context_length
        self.head_dropout = Dropout(config.head_dropout)
        self.head = Linear(width, len(config.labels))
        initialize(self.head, "bert", 1)
        self.register_buffer("temperature", torch.tensor(1.0))

    def see(self, texts: Sequence[Tensor], words: Sequence[str] = ()) -> None:
        """Learn what follows from the texts alone, before the first step. `words` is the vocabulary
        if it consists of words, with "" for special tokens."""

    @abstractmethod
    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """The input of the head."""

    @property
    def body(self) -> nn.Module | None:
        """The part that may come pre-trained, if there is one."""
        return None if self.body_name is None else self.get_submodule(self.body_name)

    def forward(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Logits of the labels. Padding is on the right, where `is_text` is False."""
        return self.head(self.head_dropout(self.represent(ids, is_text)))

    def contributions(self, ids: Tensor) -> Tensor | None:
        """How much each token of a text (T,) adds to each logit: (T, C). With the bias of the head,
        they sum to the logits. None: the logits are no sum over tokens."""
        return None

    def probabilities(self, logits: Tensor) -> Tensor:
        """One per label. They sum to one, unless any number of labels may apply."""
        scaled = logits / self.temperature
        return scaled.sigmoid() if self.config.multi_label else scaled.softmax(dim=-1)


class TextClassifier(Labeller):
    """Labels a text: `represent` returns (B, D), `forward` (B, C)."""


class TokenTagger(Labeller):
    """Labels every token: `represent` returns (B, T, D), `forward` (B, T, C)."""
