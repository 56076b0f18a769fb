"""The worst of a model's answers, for people to read: `evaluate --errors N`, and the report."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from glassformer.wording import shortened

SHOWN = 200  # characters of a text on the terminal


class Mistake(Protocol):
    """An input that a model got wrong."""

    def as_json(self) -> dict[str, Any]: ...
    def lines(self) -> list[str]:
        """For people: what is wrong, then the input."""


@dataclass(frozen=True)
class WrongLabel:
    """An input with another label than the model's."""

    text: str
    labels: tuple[str, ...]
    predicted: tuple[str, ...]
    probability: float
    """That of the prediction. With several labels per input: that of the surest wrong answer."""
    source: str
    is_multi_label: bool = False

    def as_json(self) -> dict[str, Any]:
        several = self.is_multi_label
        true = {"labels": list(self.labels)} if several else {"label": self.labels[0]}
        predicted = list(self.predicted) if several else self.predicted[0]
        found = {"text": self.text, **true, "predicted": predicted}
        return found | {"probability": self.probability, "source": self.source}

    def lines(self) -> list[str]:
        predicted, true = (", ".join(each) or "none" for each in (self.predicted, self.labels))
        head = f"{self.probability:6.1%}  predicted {predicted}, labelled {true}  {self.source}"
        if self.text == self.source:  # an image is shown by the name of its file
            return [head]
        return [head.rstrip(), f"        {shortened(self.text, SHOWN)}"]


@dataclass(frozen=True)
class WrongTags:
    """A sentence with other tags than the model's."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    predicted: tuple[str, ...]
    scores: tuple[float, ...]
    """The probability of each predicted tag."""
    source: str

    @property
    def share_right(self) -> float:
        return (len(self.tags) - len(self.wrong)) / len(self.tags)

    @property
    def wrong(self) -> list[int]:
        """The places of the wrong tags, the surest first."""
        places = [n for n, tag in enumerate(self.tags) if tag != self.predicted[n]]
        return sorted(places, key=lambda place: -self.scores[place])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        head = f"{self.scores[self.wrong[0]]:6.1%}  "
        marked = [
            f"{word} [{self.predicted[place]}, tagged {self.tags[place]}]"
            if self.tags[place] != self.predicted[place]
            else word
            for place, word in enumerate(self.words)
        ]
        return [f"{head}{' '.join(marked)}  {self.source}".rstrip()]


def wrong_sentences(
    sentences: Sequence[WrongTags], most: int | None = None
) -> tuple[WrongTags, ...]:
    """Those with a wrong tag, the ones with the surest wrong tag first."""
    wrong = [each for each in sentences if each.tags != each.predicted]
    wrong.sort(key=lambda each: -each.scores[each.wrong[0]])
    return tuple(wrong[:most])
