"""Texts that a search wrote about a source, and what translators and captioners share: the
settings of the search, and how likely a given text is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Count
from glassformer.errors import UsageError
from glassformer.generation.beam_settings import MOST_BEAMS, Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import refuse_nan


class TranslationSettings(Beams):
    """How to translate. Names follow Hugging Face's."""

    num_beams: Count = Field(5, ge=1, le=MOST_BEAMS)
    prefix: str = ""
    """The beginning of every translation. The score is that of the rest."""
    copy_unknown: bool = True
    """Copy words that the model does not know from the source."""
    max_new_tokens: Count | None = Field(None, ge=1)
    """The most tokens of a translation, with its end, up to the model's context (null: as many as
    the training data suggests)."""


class CaptionSettings(Beams):
    """How to write captions. Names follow Hugging Face's."""

    max_new_tokens: Count | None = Field(None, ge=1)
    """The most tokens of a caption, with its end, up to the model's context (null: as many as the
    longest caption in training has)."""


@dataclass(frozen=True)
class WrittenText:
    """A translation or a caption, as a search found it."""

    text: str
    score: float
    """Its log-probability, divided by its length to the power of length_penalty."""
    finish_reason: str = "stop"
    """stop: it is complete; length: it was cut off at max_new_tokens or at the end of the model's
    context, or a better one was."""


@dataclass(frozen=True)
class WrittenTexts(ABC):
    """What was written about one source, the best first."""

    source: str
    ranked: list[WrittenText]

    @property
    def text(self) -> str:
        return self.ranked[0].text

    @property
    def is_cut_off(self) -> bool:
        """Whether the best is incomplete."""
        return self.ranked[0].finish_reason == "length"

    @abstractmethod
    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Translations(WrittenTexts):
    """The translations of a text, the best first."""

    num_pieces: int = 1
    """More than one if the source is longer than the model's context."""

    @property
    def translations(self) -> list[WrittenText]:
        return self.ranked

    def as_json(self) -> dict[str, Any]:
        return {"source": self.source, "translations": [asdict(each) for each in self.ranked]}


class Captions(WrittenTexts):
    """The captions of an image, the best first. The source is what the image is called."""

    @property
    def image(self) -> str:
        return self.source

    @property
    def captions(self) -> list[WrittenText]:
        return self.ranked

    def as_json(self) -> dict[str, Any]:
        return {"image": self.source, "captions": [asdict(each) for each in self.ranked]}


@dataclass(frozen=True)
class TranslationScore:
    """How likely a given translation is, token by token, with its end. Logarithms are natural."""

    tokens: list[str]
    logprobs: list[float]

    @property
    def total(self) -> float:
        return math.fsum(self.logprobs)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"total": self.total}


@torch.inference_mode()
def logprobs_about(memory: Any, model: Any, ids: Sequence[int]) -> Tensor:
    """log p of each token of a text but the first, given the ones before it and the source."""
    row = torch.tensor([ids], device=model.device)
    logits = refuse_nan(model.head(model.hidden(row[:, :-1], memory))[0].float())
    return logits.log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]


def whole_ids(preprocessing: Any, found: Hypothesis, prefix: Sequence[int] = ()) -> list[int]:
    """The ids of a text that was found, from its start to its end, if it came to one."""
    end = [preprocessing.end] if found.is_complete else []
    return [preprocessing.start, *prefix, *found.ids, *end]


def check_room(what: str, length: int, room: int) -> None:
    """Raise if a text of this length does not fit into the model."""
    if length > room:
        raise UsageError(
            f"the {what} has {length:,} tokens including its end token, but the model reads at "
            f"most {room:,}. Use a shorter one."
        )
