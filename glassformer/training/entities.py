"""How good predictions of tags are, word by word and entity by entity.

An entity is (type, first word, last word), and it is found only if all three are right, so that a
wrong boundary costs twice: a false entity, and a missed one.

    Angela Merkel visited Paris        entities
    B-PER  I-PER  O       B-LOC        (PER, 0, 1) (LOC, 3, 3)

The rules are those of conlleval, the script of the CoNLL shared tasks (Tjong Kim Sang and
De Meulder, 2003): B- begins an entity, and so does I- after O or after another type. The E- and S-
of IOBES end one, and are one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import GlassformerError
from glassformer.training.scores import ClassScore, table
from glassformer.wording import counted

DRAWS = 1000  # of sentences, to see how F1 might have come out
PREFIXES = "BIES"
BEGINS, ENDS = "BS", "ES"

Entity = tuple[str, int, int]  # type, first, last
Tags = Sequence[str]


@dataclass(frozen=True)
class Tagging:
    """An evaluation of a tagger. Tags that mark no entities are scored by themselves."""

    loss: float
    accuracy: float
    """The share of words with the right tag."""
    precision: float | None
    recall: float | None
    f1: float | None
    """Of entities, all types together; None where the tags mark none."""
    num_words: int
    num_sentences: int
    types: tuple[ClassScore, ...]
    """Per type of entity; per tag where there are no entities."""
    f1_interval: tuple[float, float] | None = None
    """95 % interval of F1, where it was asked for."""
    expected_calibration_error: float | None = None
    """Of the words whose tag the model knows."""

    def as_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "f1_interval": None if self.f1_interval is None else list(self.f1_interval),
            "loss": self.loss,
            "expected_calibration_error": self.expected_calibration_error,
            "num_words": self.num_words,
            "num_sentences": self.num_sentences,
            "types": {score.label: score.as_json() for score in self.types},
        }

    def text(self) -> str:
        of_entities = interval = calibration = ""
        if self.f1_interval is not None:
            interval = "(95 % interval {:.4f} to {:.4f})  ".format(*self.f1_interval)
        if self.f1 is not None:
            of_entities = (
                f"precision {self.precision:.4f}  recall {self.recall:.4f}  F1 {self.f1:.4f}"
                f"{' ' if interval else '  '}{interval}"
            )
        if self.expected_calibration_error is not None:
            calibration = f"calibration error {self.expected_calibration_error:.4f}  "
        return (
            f"{of_entities}accuracy {self.accuracy:.4f}  loss {self.loss:.4f}  {calibration}"
            f"{counted(self.num_words, 'word')} in {counted(self.num_sentences, 'sentence')}\n"
            f"{table('tag' if self.f1 is None else 'type', self.types)}"
        )


def entities(tags: Tags) -> set[Entity]:
    """The entities of one sentence."""
    found: set[Entity] = set()
    first, before = 0, ("", "")  # the prefix and the type of the word before
    for place, tag in enumerate([*tags, "O"]):
        now = _split(tag)
        goes_on = bool(now[0]) and now[1] == before[1]
        goes_on = goes_on and before[0] not in ENDS and now[0] not in BEGINS
        if not goes_on:
            if before[0]:
                found.add((before[1], first, place - 1))
            first = place
        before = now
    return found


def has_entities(tags: Iterable[str]) -> bool:
    """Whether any tag is part of an entity: B-PER is, NOUN is not."""
    return any(_split(tag)[0] for tag in tags)


def judge_tags(gold: Sequence[Tags], predicted: Sequence[Tags], loss: float) -> Tagging:
    """Compare the tags of sentences, given and predicted, word for word."""
    pairs = [
        pair
        for given, found in zip(gold, predicted, strict=True)
        for pair in zip(given, found, strict=True)
    ]
    if not pairs:
        raise GlassformerError("There are no words to score.")
    num_right = sum(given == found for given, found in pairs)
    total: ClassScore | None = None
    if has_entities(tag for pair in pairs for tag in pair):
        true, claimed = _numbered(gold), _numbered(predicted)
        total = ClassScore.of("all", len(true & claimed), len(claimed), len(true))
        types = _per_label(
            [entity[0] for _, entity in true & claimed],
            [entity[0] for _, entity in claimed],
            [entity[0] for _, entity in true],
        )
    else:
        types = _per_label(
            [given for given, found in pairs if given == found],
            [found for _, found in pairs],
            [given for given, _ in pairs],
        )
    return Tagging(
        loss=loss,
        accuracy=num_right / len(pairs),
        precision=total.precision if total else None,
        recall=total.recall if total else None,
        f1=total.f1 if total else None,
        num_words=len(pairs),
        num_sentences=len(gold),
        types=types,
    )


def f1_interval(gold: Sequence[Tags], predicted: Sequence[Tags]) -> tuple[float, float]:
    """The 95 % interval of F1, by the bootstrap: as many sentences are drawn again and again, with
    replacement. F1 is no share of independent answers, so that Wilson's interval does not fit; the
    entities of a sentence are drawn together, because they are alike. The draws are always the
    same."""
    pairs = [
        (entities(given), entities(found)) for given, found in zip(gold, predicted, strict=True)
    ]
    counts = np.array([(len(a & b), len(a) + len(b)) for a, b in pairs])  # (sentences, 2)
    draw = np.random.default_rng(0)
    found = []
    for _ in range(DRAWS):
        right, total = counts[draw.integers(len(counts), size=len(counts))].sum(0)
        found.append(2 * right / max(total, 1))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def _split(tag: str) -> tuple[str, str]:
    """B-PER → (B, PER); what marks no entity → ("", "")."""
    prefix, hyphen, kind = tag.partition("-")
    return (prefix, kind) if hyphen and len(prefix) == 1 and prefix in PREFIXES else ("", "")


def _numbered(sentences: Sequence[Tags]) -> set[tuple[int, Entity]]:
    return {(n, entity) for n, tags in enumerate(sentences) for entity in entities(tags)}


def _per_label(right: Tags, predicted: Tags, true: Tags) -> tuple[ClassScore, ...]:
    rights, predicteds, trues = Counter(right), Counter(predicted), Counter(true)
    return tuple(
        ClassScore.of(label, rights[label], predicteds[label], trues[label])
        for label in sorted(predicteds | trues)
    )
