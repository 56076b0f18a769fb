"""Captions: the settings of the search, and what it finds."""

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from glassformer.config import Count
from glassformer.generation.beam_settings import Beams
from glassformer.predict.written_texts import WrittenText, WrittenTexts


class CaptionSettings(Beams):
    """How to write captions. Names follow Hugging Face's."""

    max_new_tokens: Count | None = Field(None, ge=1)
    """The most tokens of a caption, with its end, up to the model's context (null: as many as the
    longest caption in training has)."""


class Caption(WrittenText):
    """A caption of an image, as a search found it."""


@dataclass(frozen=True)
class Captions(WrittenTexts):
    """The captions of an image, the best first."""

    image: str
    captions: list[Caption]

    @property
    def ranked(self) -> list[Caption]:
        return self.captions

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
