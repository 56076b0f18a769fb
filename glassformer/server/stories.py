"""The stories of one model: what a reader asks, and what the page shows of it."""

from collections.abc import Callable, Iterator, Mapping
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
from glassformer.story.story import SLOW, story_data

VIEW = "story"
SIZES = {"beams": 3_000_000, "effects": 3_000_000, "attribution": 0, "history": 0}
"""Parts of a story that run the model many times, and the number of parameters up to which they are
computed at once. Larger models are asked for them separately."""


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
        self,
        name: str,
        kind: str,
        predictor: Predictor,
        view: View,
        sizes: Mapping[str, int] = SIZES,
    ) -> None:
        self.name = name
        """Unique among the models of a server."""
        self.kind = kind
        """Such as gpt or bert."""
        self.reads_image = view.reads_file
        self._inspect = getattr(predictor, view.method)
        self._channels: int | None = getattr(predictor.preprocessing, "num_channels", None)
        size = sum(each.numel() for each in predictor.model.parameters())
        self._slow = [part for part, most in sizes.items() if size > most]
        self._last: tuple[Question, Inspection, list[str]] | None = None
        self._history: tuple[Question, dict[str, Any]] | None = None

    def story(self, question: Question) -> dict[str, Any]:
        """What the page shows, without the parts that take long; `later` names these."""
        seen, notes = self._seen(question)
        with switched_off(seen, question.off):
            found = story_data(_watched(seen), without={"live", *self._slow})
        missing = {
            "beams": seen.subject.search is None,
            "effects": not (seen.has_layers or seen.windows()),
            "attribution": seen.subject.run_rows is None,
            "history": seen.subject.history is None,
        }
        later = [part for part in self._slow if not missing.get(part)]
        if self.reads_image:
            found["text"] = question.image_name
        return found | {"notes": [*notes, *found["notes"]], "later": later}

    def part(self, question: Question, name: str) -> dict[str, Any]:
        """What one of the parts that take long adds to the story."""
        seen, _ = self._seen(question)
        if name not in SLOW:
            return {}
        if name == "history":
            found = self._past(seen, question)
        else:
            with switched_off(seen, question.off):
                found = SLOW[name](_watched(seen))
        return {key: value for key, value in found.items() if value is not None}

    def _past(self, seen: Inspection, question: Question) -> dict[str, Any]:
        """The snapshots of the training are loaded once for an input: all of their heads are on,
        whichever heads of the model the reader switches off."""
        asked = replace(question, off=())
        if self._history is None or self._history[0] != asked:
            self._history = None
            self._history = asked, SLOW["history"](seen)
        return self._history[1]

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


def _watched(seen: Inspection) -> Inspection:
    """The same, but before each run of the model it looks whether somebody still waits."""
    subject, found = seen.subject, copy(seen)

    def watched(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def run_if_wanted() -> Tensor:
            check_wanted()
            return run()

        return run_if_wanted

    found.subject = replace(
        subject,
        run=watched(subject.run),
        run_rows=None if subject.run_rows is None else watched(subject.run_rows),
    )
    return found


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
