"""The quality of predicted tags, word by word and entity by entity.

An entity is (type, first word, last word). It counts as found only if all three are right: a wrong
boundary counts as a false entity and a missed one. `tag_schemes.py` defines which tags mark one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import IGNORED, LabelledRows
from glassformer.data.tag_schemes import Entity, Scheme, Tags, find_scheme
from glassformer.data.tagged_sentences import Sentence
from glassformer.errors import GlassformerError
from glassformer.inspect.chapters import ClassScore, by_label, f1_interval, shown, table, wilson
from glassformer.models.heads import Labeller
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.scores import Counts, confusion, judge, read_batches
from glassformer.tasks.evaluating import Mistake, Result, WrongTags
from glassformer.text.words import spelled
from glassformer.wording import counted


@dataclass(frozen=True)
class Tagging(Result):
    """How good a tagger is. Tags that mark no entities are scored one by one."""

    score_names = ("f1", "accuracy", "loss", "expected_calibration_error")
    details = ("scheme", "expected_calibration_error", "num_words", "num_sentences")
    loss: float
    accuracy: float
    """The share of words with the right tag."""
    precision: float | None
    recall: float | None
    f1: float | None
    """Precision, recall and F1 of entities of all types; None if the tags do not mark entities."""
    num_words: int
    num_sentences: int
    types: tuple[ClassScore, ...]
    """Per type of entity; per tag where there are no entities."""
    interval: tuple[float, float]
    """95% interval: of F1 by the bootstrap, of accuracy by Wilson's score."""
    scheme: str | None = None
    """How the tags of the model mark entities: IOB1, IOB2, BIOES, BILOU or BMES."""
    expected_calibration_error: float | None = None
    """Calibration error on the words whose tag the model knows."""
    unknown_tags: dict[str, int] = field(default_factory=dict)
    """Tags of the data that the model does not have, and how often they occur."""
    notes: tuple[str, ...] = ()
    confusion: Counts = field(default_factory=dict)
    """How often each tag was predicted as which."""
    errors: tuple[Mistake, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        names = ("accuracy", "precision", "recall", "f1")
        first: dict[str, Any] = {name: getattr(self, name) for name in names}
        first["f1_interval"] = None if self.f1 is None else list(self.interval)
        last = {"types": by_label(self.types), "confusion_matrix": self.confusion}
        last["unknown_tags"] = self.unknown_tags
        return first | super().as_json() | last

    def parts(self) -> list[str]:
        names = {"precision": self.precision, "recall": self.recall, "F1": self.f1}
        names |= {"accuracy": self.accuracy, "loss": self.loss}
        names["calibration error"] = self.expected_calibration_error
        found = {name: f"{value:.4f}" for name, value in names.items() if value is not None}
        if "F1" in found:
            found["F1"] += f" {shown(self.interval)}, scheme {self.scheme}"
        return [
            *(f"{name} {value}" for name, value in found.items()),
            f"{counted(self.num_words, 'word')} in {counted(self.num_sentences, 'sentence')}",
        ]

    def lines(self) -> list[str]:
        return table("tag" if self.f1 is None else "type", self.types)


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
        is_word = (batch.targets != IGNORED).cpu()
        for place, row in enumerate(numbers):
            parts[row] = logits[place][is_word[place]]
    none = torch.zeros(0, len(model.labels))  # for a sentence without words
    found = [[none] for _ in range(sentences.num_sentences)]
    for owner, part in zip(sentences.owners, parts, strict=True):
        found[owner].append(part)
    return [torch.cat(each) for each in found]


def likeliest_tags(model: Labeller, logits: Tensor) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The tag of each word of a sentence, from logits (words, tags), and its probability."""
    scores, best = model.probabilities(logits.to(model.device)).cpu().max(dim=-1)
    return tuple(model.labels[index] for index in best.tolist()), tuple(scores.tolist())


def compare_tags(
    model: Labeller, sentences: Sequence[Sentence], logits: Sequence[Tensor]
) -> list[WrongTags]:
    """The tags of sentences beside those that the model predicts, be they wrong or right."""
    return [
        WrongTags(each.words, each.tags, *likeliest_tags(model, rows), each.source)
        for each, rows in zip(sentences, logits, strict=True)
    ]


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
    logits: Sequence[Tensor],
    gold: Sequence[Tags],
    labels: Tags,
    temperature: float,
    scheme: Scheme | None,
) -> Tagging:
    """Judge the likeliest tag of every word. Tags that are not among `labels` count as wrong."""
    known, targets = known_words(logits, gold, labels)
    loss = calibration_error = 0.0
    if len(targets):
        found = judge(known, targets, labels, temperature=temperature)
        loss, calibration_error = found.loss, found.expected_calibration_error
    predicted = [[labels[best] for best in rows.argmax(-1)] for rows in logits]
    return judge_tags(gold, predicted, loss, scheme, calibration_error)


def judge_tags(
    gold: Sequence[Tags],
    predicted: Sequence[Tags],
    loss: float,
    scheme: Scheme | None,
    calibration_error: float | None = None,
) -> Tagging:
    """Compare the tags of sentences, given and predicted. `scheme` is that of all the tags of the
    model, whatever part of them these sentences have; None if they mark no entities."""
    pairs = [pair for both in zip(gold, predicted, strict=True) for pair in zip(*both, strict=True)]
    if not pairs:
        raise GlassformerError("there are no words to score.")
    num_right = sum(given == found for given, found in pairs)
    of_data = _scheme_of(gold, scheme)
    true, claimed = _spans(gold, of_data), _spans(predicted, scheme)
    parts = [(a & b, b, a) for a, b in zip(true, claimed, strict=True)]
    right, found, given = (
        Counter(kind for spans in part for kind, *_ in spans) for part in zip(*parts, strict=True)
    )
    types = (ClassScore.of(kind, right[kind], found[kind], given[kind]) for kind in found | given)
    total = ClassScore.of("all", right.total(), found.total(), given.total()) if scheme else None
    interval = wilson(num_right, len(pairs))
    if total:
        interval = f1_interval([(len(both), len(b) + len(a)) for both, b, a in parts])
    return Tagging(
        loss=loss,
        accuracy=num_right / len(pairs),
        precision=total.precision if total else None,
        recall=total.recall if total else None,
        f1=total.f1 if total else None,
        num_words=len(pairs),
        num_sentences=len(gold),
        types=tuple(sorted(types, key=lambda score: score.label)),
        interval=interval,
        scheme=scheme.name if scheme else None,
        expected_calibration_error=calibration_error,
        notes=_notes(of_data, scheme),
        confusion=confusion(pairs, sorted({name for pair in pairs for name in pair})),
    )


def _scheme_of(gold: Sequence[Tags], scheme: Scheme | None) -> Scheme | None:
    """The model's scheme if the data can be read in it, so that a part of the data is read like all
    of it; otherwise that of the data."""
    tags = {tag for each in gold for tag in each}
    return scheme if scheme is None or scheme.covers(tags) else find_scheme(tags, gold) or scheme


def _spans(sentences: Sequence[Tags], scheme: Scheme | None) -> list[set[Entity]]:
    """The entities of each sentence; if tags mark none, each word is scored as if it were one."""
    if scheme is not None:
        return [scheme.entities(tags) for tags in sentences]
    return [{(tag, place, place) for place, tag in enumerate(tags)} for tags in sentences]


def _notes(of_data: Scheme | None, scheme: Scheme | None) -> tuple[str, ...]:
    if of_data is None or scheme is None or of_data == scheme:
        return ()
    return (
        f"the data is tagged in {of_data.name}, but the model in {scheme.name}: entities are "
        "compared by their words, but accuracy compares the tags as they are",
    )
