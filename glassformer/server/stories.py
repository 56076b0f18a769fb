"""The stories of one model: what a reader asks, and what the page shows of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from glassformer.data.images import decode_image, report_conversions
from glassformer.data.reading_report import collecting
from glassformer.errors import UsageError
from glassformer.inspection.inspection import Inspection
from glassformer.nn.observe import without_heads
from glassformer.predict.predictor import Predictor, View
from glassformer.story.story import MOST_SWITCHED, story_data

VIEW = "story"


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

    def __init__(self, name: str, kind: str, predictor: Predictor, view: View) -> None:
        self.name = name
        """Unique among the models of a server."""
        self.kind = kind
        """Such as gpt or bert."""
        self.reads_image = view.reads_file
        self._inspect = getattr(predictor, view.method)
        self._last: tuple[Question, Inspection, list[str]] | None = None

    def story(self, question: Question) -> dict[str, Any]:
        """What the page shows, without the parts that take long; `later` names these."""
        seen, notes = self._seen(question)
        slow = slow_parts(seen)
        with switched_off(seen, question.off):
            found = story_data(_without_search(seen), without=slow)
        if question.image is not None:
            found["text"] = question.image_name
        return found | {"notes": [*notes, *found["notes"]], "later": list(slow)}

    def part(self, question: Question, name: str) -> Any:
        """One of the parts that take long; None if this model has no such part."""
        seen, _ = self._seen(question)
        compute = slow_parts(seen).get(name)
        if compute is None:
            return None
        with switched_off(seen, question.off):
            return compute()

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
        image = decode_image(question.image, question.image_name)
        report_conversions(question.image_name, image)
        return image.pixels


def slow_parts(seen: Inspection) -> dict[str, Callable[[], Any]]:
    """Parts of the story that run the model many times, by name: those that this model has."""
    parts: dict[str, Callable[[], Any]] = {}
    if seen.subject.search is not None:
        parts["beams"] = seen.subject.search
    if seen.has_layers:
        capture = seen.capture()
        if len(capture.layers) * len(capture.heads) <= MOST_SWITCHED:
            parts["effects"] = lambda: _effects(seen)
    return parts


def _effects(seen: Inspection) -> dict[str, Any]:
    effects = seen.effects()
    return {"divergence": effects.divergence.tolist(), "change": effects.change.tolist()}


def _without_search(seen: Inspection) -> Inspection:
    """The same without what a page would search, or carry to run the model itself."""
    plain = copy(seen)
    plain.subject = replace(seen.subject, search=None, module=None)
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
