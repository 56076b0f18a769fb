"""The stories of one model: what a reader asks, and what the page shows of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from glassformer.data.images import decode_image, report_conversions
from glassformer.data.reading_report import collecting
from glassformer.errors import UsageError
from glassformer.inspection.inspection import Inspection
from glassformer.nn.observe import without_heads
from glassformer.predict.predictor import Predictor, View
from glassformer.runtime.threads import check_wanted
from glassformer.story.story import story_data

VIEW = "story"
SMALL = 3_000_000  # parameters, up to which a model tells all of a story at once


@dataclass(frozen=True)
class Question:
    """An input of a model, and the heads that contribute nothing to its answer."""

    text: str | None = None
    image: bytes | None = None
    """The content of an image file."""
    image_name: str = "image"
    """What the reader calls it."""
    off: tuple[tuple[int, int], ...] = ()
    """Layers and heads that are switched off."""


class StoryModel:
    """A model that can be asked for stories. Not for two threads at the same time."""

    def __init__(
        self, name: str, kind: str, predictor: Predictor, view: View, small: int = SMALL
    ) -> None:
        self.name = name
        """Unique among the models of a server."""
        self.kind = kind
        """Such as gpt or bert."""
        self.reads_image = view.reads_file
        self._inspect = getattr(predictor, view.method)
        self._channels: int | None = getattr(predictor.preprocessing, "num_channels", None)
        size = sum(each.numel() for each in predictor.model.parameters())
        self._tells_all = size <= small
        self._last: tuple[Question, Inspection, list[str]] | None = None

    def story(self, question: Question) -> dict[str, Any]:
        """What the page shows, without the parts that take long; `later` names these."""
        seen, notes = self._seen(question)
        later = {"beams": seen.subject.search is not None, "effects": seen.has_layers}
        slow = [] if self._tells_all else [name for name, is_there in later.items() if is_there]
        with switched_off(seen, question.off):
            found = story_data(_alone(seen, "beams" not in slow), without=slow)
        if self.reads_image:
            found["text"] = question.image_name
        return found | {"notes": [*notes, *found["notes"]], "later": slow}

    def part(self, question: Question, name: str) -> dict[str, Any]:
        """What one of the parts that take long adds to the story."""
        seen, _ = self._seen(question)
        with switched_off(seen, question.off):
            if name == "beams" and seen.subject.search is not None:
                return {"beams": seen.subject.search()}
            if name != "effects":
                return {}
            known = story_data(_alone(seen), without=("effects",))
            whole = story_data(_alone(seen))
        added = {key: value for key, value in whole.items() if known.get(key) is None}
        return {key: value for key, value in added.items() if value is not None}

    def _seen(self, question: Question) -> tuple[Inspection, list[str]]:
        """What the model computes, kept until another question is asked, and notes on the input."""
        if self._last is not None and self._last[0] == question:
            return self._last[1:]
        self._last = None  # two at a time would need twice the memory
        with collecting() as happened:
            seen: Inspection = self._inspect(self._input(question))
        if question.off:
            with switched_off(seen, question.off):
                seen = Inspection(seen.subject)
        self._last = question, seen, happened.notes()
        return self._last[1:]

    def _input(self, question: Question) -> Any:
        if not self.reads_image:
            if question.text is None:
                raise UsageError(f"{self.name} reads a text.")
            return question.text
        if question.image is None:
            raise UsageError(f"{self.name} reads an image. Choose an image file.")
        image = decode_image(question.image, question.image_name, self._channels)
        report_conversions(question.image_name, image)
        return image.pixels


def _alone(seen: Inspection, searches: bool = False) -> Inspection:
    """The same without the model, which a page would carry, and perhaps without a search. Between
    two runs of the model, it looks whether somebody still waits."""

    def run() -> Tensor:
        check_wanted()
        return seen.subject.run()

    plain = copy(seen)
    search = seen.subject.search if searches else None
    plain.subject = replace(seen.subject, search=search, module=None, run=run)
    return plain


@contextmanager
def switched_off(seen: Inspection, heads: tuple[tuple[int, int], ...]) -> Iterator[None]:
    """Switch off heads of the sequence that predictions are made from."""
    if not heads:
        yield
        return
    seen.capture()  # an error if there are no layers
    attentions = [] if seen.stream.stack is None else seen.stream.stack.attentions
    silent: dict[Any, list[int]] = {}
    for layer, head in heads:
        if layer >= len(attentions) or head >= attentions[layer].num_heads:
            shape = f"{len(attentions)} layers of {attentions[0].num_heads} heads"
            raise UsageError(f"there is no head {head} in layer {layer}: the model has {shape}.")
        silent.setdefault(attentions[layer].tap, []).append(head)
    with without_heads(silent):
        yield
