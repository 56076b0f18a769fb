"""Captions: the settings of the search, and what it finds."""

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from glassformer.config import Count
from glassformer.generation.beam_settings import Beams


class CaptionSettings(Beams):
    """How to write captions. Names follow Hugging Face's."""

    max_new_tokens: Count | None = Field(None, ge=1)
    """The most tokens of a caption, with its end, up to the model's context (null: as many as the
    longest caption in training has)."""


@dataclass(frozen=True)
class Caption:
    text: str
    score: float
    """Its log-probability, divided by its length to the power of length_penalty."""
    finish_reason: str = "stop"
    """stop: it is complete; length: it was cut off at max_new_tokens or at the end of the model's
    context, or a better one was."""


@dataclass(frozen=True)
class Captions:
    """The captions of an image, the best first."""

    image: str
    captions: list[Caption]

    @property
    def text(self) -> str:
        return self.captions[0].text

    @property
    def is_cut_off(self) -> bool:
        """Whether the best caption is incomplete."""
        return self.captions[0].finish_reason == "length"

    def as_json(self) -> dict[str, Any]:
        return {"image": self.image, "captions": [asdict(each) for each in self.captions]}


@dataclass(frozen=True)
class PoorCaption:
    """A caption, and how close it is to its references."""

    image: str
    references: tuple[str, ...]
    caption: str
    cider_d: float
    """From 0 to 10, of this image alone."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"references": list(self.references)}

    def lines(self) -> list[str]:
        head = f"CIDEr-D {self.cider_d:.2f}  {self.image}"
        texts = [("caption", self.caption or "(empty)")]
        texts += [("reference", text) for text in self.references]
        return [head, *(f"  {name + ':':<11}{text}" for name, text in texts)]
