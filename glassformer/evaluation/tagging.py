"""The quality of predicted tags, word by word and entity by entity.

An entity is (type, first word, last word). It counts as found only if all three are right: a wrong
boundary counts as a false entity and a missed one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.data.padded_batches import IGNORED, LabelledRows
from glassformer.errors import GlassformerError
from glassformer.evaluation.classification import judge
from glassformer.evaluation.entities import Tags, f1_interval, has_entities, numbered_spans
from glassformer.evaluation.labelled_reading import read_batches
from glassformer.evaluation.precision_recall import ClassScore, by_label, shown, table, wilson
from glassformer.evaluation.result import Result
from glassformer.models.labeller import Labeller
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.words_and_subwords import spelled
from glassformer.wording import counted


@dataclass(frozen=True)
class Tagging(Result):
    """How good a tagger is. Tags that mark no entities are scored one by one."""

    score_names = ("f1", "accuracy", "loss", "expected_calibration_error")
    details = ("expected_calibration_error", "num_words", "num_sentences")
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
    interval: tuple[float, float]
    """95% interval: of F1 by the bootstrap, of accuracy by Wilson's score."""
    expected_calibration_error: float | None = None
    """Of the words whose tag the model knows."""
    unknown_tags: dict[str, int] = field(default_factory=dict)
    """Tags of the data that the model does not have, and how often they occur."""
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        names = ("accuracy", "precision", "recall", "f1")
        first: dict[str, Any] = {name: getattr(self, name) for name in names}
        first["f1_interval"] = None if self.f1 is None else list(self.interval)
        last = {"types": by_label(self.types), "unknown_tags": self.unknown_tags}
        return first | super().as_json() | last

    def headline(self) -> str:
        f1 = "" if self.f1 is None else f"entity F1 {self.f1:.4f}, "
        return f"{f1}accuracy {self.accuracy:.4f}, {counted(self.num_words, 'word')}"

    def text(self) -> str:
        of_entities = calibration = ""
        if self.f1 is not None:
            of_entities = (
                f"precision {self.precision:.4f}  recall {self.recall:.4f}  F1 {self.f1:.4f} "
                f"{shown(self.interval)}  "
            )
        if self.expected_calibration_error is not None:
            calibration = f"calibration error {self.expected_calibration_error:.4f}  "
        return (
            f"{of_entities}accuracy {self.accuracy:.4f}  loss {self.loss:.4f}  {calibration}"
            f"{counted(self.num_words, 'word')} in {counted(self.num_sentences, 'sentence')}\n"
            f"{table('tag' if self.f1 is None else 'type', self.types)}"
        )


@dataclass(frozen=True)
class SpelledSentences:
    """Sentences as rows of tokens that fit into a model; a long sentence has several."""

    rows: LabelledRows
    """The token that speaks for a word has the target 0, the others are ignored."""
    owners: list[int]
    """The sentence of each row."""
    num_sentences: int

    @classmethod
    def of(
        cls, sentences: Sequence[Sequence[str]], preprocessing: TextPreprocessing, limit: int | None
    ) -> "SpelledSentences":
        frame = preprocessing.frame(limit)
        items: list[int] = []
        targets: list[int] = []
        lengths: list[int] = []
        owners: list[int] = []
        for number, words in enumerate(sentences):
            for ids, speaks in spelled(preprocessing.tokenizer, words, frame) if words else ():
                items += ids
                targets += [0 if is_word else IGNORED for is_word in speaks]
                lengths.append(len(ids))
                owners.append(number)
        rows = LabelledRows(
            np.array(items, dtype=preprocessing.dtype),
            np.array(lengths, dtype=np.int64),
            np.array(targets, dtype=np.int64),
            is_per_item=True,
        )
        return cls(rows, owners, len(sentences))

    @property
    def num_pieces(self) -> list[int]:
        """How many rows each sentence has."""
        return np.bincount(self.owners, minlength=self.num_sentences).tolist()


def read_words(model: Labeller, sentences: SpelledSentences) -> list[Tensor]:
    """The logits of the words of every sentence: (words, tags), before the temperature."""
    parts: list[Tensor] = [torch.empty(0)] * len(sentences.rows)
    for numbers, batch, logits in read_batches(model, sentences.rows):
        is_word = batch.targets != IGNORED
        for place, row in enumerate(numbers):
            parts[row] = logits[place][is_word[place]]
    none = torch.zeros(0, len(model.labels))  # for a sentence without words
    found = [[none] for _ in range(sentences.num_sentences)]
    for owner, part in zip(sentences.owners, parts, strict=True):
        found[owner].append(part)
    return [torch.cat(each) for each in found]


def known_words(
    logits: Sequence[Tensor], gold: Sequence[Tags], labels: Tags
) -> tuple[Tensor, Tensor]:
    """Logits and targets of the words whose tag is one of `labels`: (N, C), (N,)."""
    number = {label: index for index, label in enumerate(labels)}
    flat = torch.cat(list(logits)) if logits else torch.zeros(0, len(labels))
    tags = [number.get(tag, IGNORED) for each in gold for tag in each]
    targets = torch.tensor(tags, dtype=torch.long)
    return flat[targets != IGNORED], targets[targets != IGNORED]


def evaluate_tags(
    logits: Sequence[Tensor], gold: Sequence[Tags], labels: Tags, temperature: float
) -> Tagging:
    """Judge the likeliest tag of every word. Tags that are not among `labels` count as wrong."""
    known, targets = known_words(logits, gold, labels)
    loss = calibration_error = 0.0
    if len(targets):
        found = judge(known, targets, labels, temperature=temperature)
        loss, calibration_error = found.loss, found.expected_calibration_error
    predicted = [[labels[best] for best in rows.argmax(-1)] for rows in logits]
    return judge_tags(gold, predicted, loss, labels, calibration_error)


def judge_tags(
    gold: Sequence[Tags],
    predicted: Sequence[Tags],
    loss: float,
    labels: Tags = (),
    calibration_error: float | None = None,
) -> Tagging:
    """Compare the tags of sentences, given and predicted. `labels` are all the tags of a model:
    they show whether it marks entities, even if there are none in these sentences."""
    pairs = [pair for both in zip(gold, predicted, strict=True) for pair in zip(*both, strict=True)]
    if not pairs:
        raise GlassformerError("there are no words to score.")
    num_right = sum(given == found for given, found in pairs)
    marks_entities = has_entities((*labels, *(tag for pair in pairs for tag in pair)))
    # Tags that mark no entities are scored as if each word were one.
    true, claimed = (numbered_spans(tags, marks_entities) for tags in (gold, predicted))
    parts = (true & claimed, claimed, true)
    total = ClassScore.of("all", *map(len, parts)) if marks_entities else None
    right, found, given = (Counter(kind for _, (kind, *_) in part) for part in parts)
    types = (ClassScore.of(kind, right[kind], found[kind], given[kind]) for kind in found | given)
    return Tagging(
        loss=loss,
        accuracy=num_right / len(pairs),
        precision=total.precision if total else None,
        recall=total.recall if total else None,
        f1=total.f1 if total else None,
        num_words=len(pairs),
        num_sentences=len(gold),
        types=tuple(sorted(types, key=lambda score: score.label)),
        interval=f1_interval(gold, predicted) if total else wilson(num_right, len(pairs)),
        expected_calibration_error=calibration_error,
    )
