"""Translations: the settings of the search, and what it finds."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from glassformer.config import Count
from glassformer.data.pair_files import one_line
from glassformer.errors import UsageError
from glassformer.generation.beam_settings import MOST_BEAMS, Beams
from glassformer.predict.written_texts import WrittenText, WrittenTexts
from glassformer.preprocessing.pair import PairPreprocessing


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


def prefix_ids(text: str, preprocessing: PairPreprocessing, context: int) -> list[int]:
    """The tokens that every translation begins with, for a model with this context."""
    if not text:
        return []
    prefix, target = one_line(text), preprocessing.target
    if target.kind == "char" and (unknown := target.unknown_characters(prefix)):
        raise UsageError(
            f"the prefix has characters that the model does not know: {' '.join(unknown[:10])}"
        )
    _, *ids, _ = preprocessing.encode_target([prefix])[0]
    room = context - 2
    if len(ids) > room:
        raise UsageError(
            f"the prefix has {len(ids):,} tokens, but the model has room for {room:,}. Use a "
            "shorter one."
        )
    return ids


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
