"""Translations: the settings of the search, and what it finds."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from glassformer.config import Count
from glassformer.generation.beam_settings import MOST_BEAMS, Beams
from glassformer.predict.written_texts import WrittenText, WrittenTexts


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


class Translation(WrittenText):
    """A translation of a text, as a search found it."""


@dataclass(frozen=True)
class Translations(WrittenTexts):
    """The translations of a text, the best first."""

    source: str
    translations: list[Translation]
    num_pieces: int = 1
    """More than one if the source is longer than the model's context."""

    @property
    def ranked(self) -> list[Translation]:
        return self.translations

    def as_json(self) -> dict[str, Any]:
        return {"source": self.source, "translations": [asdict(each) for each in self.translations]}


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
