"""How good a tagger is: the quality of its tags, word by word and entity by entity.

    sentences → SpelledSentences → read_words → evaluate_tags → Tagging
                                              → compare_tags → examine_tagger

An entity is (type, first word, last word). It counts as found only if all three are right: a wrong
boundary counts as a false entity and a missed one. A scheme (`data/tag_schemes.py`) defines which
tags mark one. It is determined once, from the training data, and saved with the preprocessing: a
part of the data may not contain the prefixes that identify it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import IGNORED, LabelledRows
from glassformer.data.tag_schemes import Entity, Scheme, Tags, find_scheme
from glassformer.data.tagged_sentences import Sentence
from glassformer.errors import GlassformerError
from glassformer.inspect import chapters
from glassformer.inspect.chapters import ClassScore, shown, wilson
from glassformer.models.heads import Labeller
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.evaluating import Mistake, Result, WrongTags, wrong_sentences
from glassformer.tasks.labels.scores import (
    MOST_CHARACTERS,
    MOST_SHOWN,
    Counts,
    calibration_chapter,
    classes_chapter,
    confusion,
    confusion_chapter,
    judge,
    read_batches,
)
from glassformer.text.words import spelled
from glassformer.wording import counted, shortened


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
    """The scores of each type of entity, or of each tag if tags mark no entities."""
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
    """The confusion matrix of tags."""
    errors: tuple[Mistake, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        names = ("accuracy", "precision", "recall", "f1")
        first: dict[str, Any] = {name: getattr(self, name) for name in names}
        first["f1_interval"] = None if self.f1 is None else list(self.interval)
        last = {
            "types": chapters.by_label(self.types),
            "confusion_matrix": self.confusion,
            "unknown_tags": self.unknown_tags,
        }
        return first | super().as_json() | last

    def parts(self) -> list[str]:
        scores = {
            "precision": self.precision,
            "recall": self.recall,
            "F1": self.f1,
            "accuracy": self.accuracy,
            "loss": self.loss,
            "calibration error": self.expected_calibration_error,
        }
        parts = {name: f"{score:.4f}" for name, score in scores.items() if score is not None}
        if "F1" in parts:
            parts["F1"] += f" {shown(self.interval)}, scheme {self.scheme}"
        return [
            *(f"{name} {score}" for name, score in parts.items()),
            f"{counted(self.num_words, 'word')} in {counted(self.num_sentences, 'sentence')}",
        ]

    def lines(self) -> list[str]:
        return chapters.table("tag" if self.f1 is None else "type", self.types)


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
        for owner, words in enumerate(sentences):
            for ids, speaks in spelled(preprocessing.tokenizer, words, frame) if words else ():
                items += ids
                targets += [0 if is_word else IGNORED for is_word in speaks]
                lengths.append(len(ids))
                owners.append(owner)
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
        for row, row_logits, mask in zip(numbers, logits, is_word, strict=True):
            parts[row] = row_logits[mask]
    none = torch.zeros(0, len(model.labels))  # for a sentence without words
    pieces = [[none] for _ in range(sentences.num_sentences)]
    for owner, part in zip(sentences.owners, parts, strict=True):
        pieces[owner].append(part)
    return [torch.cat(parts) for parts in pieces]


def likeliest_tags(model: Labeller, logits: Tensor) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The tag of each word of a sentence, from logits (words, tags), and its probability."""
    scores, best = model.probabilities(logits.to(model.device)).cpu().max(dim=-1)
    return tuple(model.labels[index] for index in best.tolist()), tuple(scores.tolist())


def compare_tags(
    model: Labeller, sentences: Sequence[Sentence], logits: Sequence[Tensor]
) -> list[WrongTags]:
    """The tags of sentences beside those that the model predicts, be they wrong or right."""
    return [
        WrongTags(sentence.words, sentence.tags, *likeliest_tags(model, rows), sentence.source)
        for sentence, rows in zip(sentences, logits, strict=True)
    ]


def known_words(
    logits: Sequence[Tensor], gold: Sequence[Tags], labels: Tags
) -> tuple[Tensor, Tensor]:
    """Logits and targets of the words whose tag is one of `labels`: (N, C), (N,)."""
    index = {label: index for index, label in enumerate(labels)}
    flat = torch.cat(list(logits)) if logits else torch.zeros(0, len(labels))
    targets = torch.tensor([index.get(tag, IGNORED) for tags in gold for tag in tags]).long()
    return flat[targets != IGNORED], targets[targets != IGNORED]


def evaluate_tags(
    logits: Sequence[Tensor],
    gold: Sequence[Tags],
    labels: Tags,
    temperature: float,
    scheme: Scheme | None,
) -> Tagging:
    """Judge the likeliest tag of every word. Tags that are not among `labels` count as wrong."""
    word_logits, targets = known_words(logits, gold, labels)
    loss = calibration_error = 0.0
    if len(targets):
        scores = judge(word_logits, targets, labels, temperature=temperature)
        loss, calibration_error = scores.loss, scores.expected_calibration_error
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
    num_right = sum(true == answer for true, answer in pairs)
    of_data = _scheme_of(gold, scheme)
    true, claimed = _spans(gold, of_data), _spans(predicted, scheme)
    parts = [(a & b, b, a) for a, b in zip(true, claimed, strict=True)]
    counts = [
        Counter(kind for spans in part for kind, *_ in spans) for part in zip(*parts, strict=True)
    ]  # by type: right, predicted, true
    kinds = counts[1] | counts[2]
    types = (ClassScore.of(kind, *(count[kind] for count in counts)) for kind in kinds)
    total = ClassScore.of("all", *(count.total() for count in counts)) if scheme else None
    interval = wilson(num_right, len(pairs))
    if total:
        interval = chapters.f1_interval([(len(both), len(b) + len(a)) for both, b, a in parts])
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
    tags = {tag for sentence in gold for tag in sentence}
    return scheme if scheme is None or scheme.covers(tags) else find_scheme(tags, gold) or scheme


def _spans(sentences: Sequence[Tags], scheme: Scheme | None) -> list[set[Entity]]:
    """The entities of each sentence; if tags mark none, each word is scored as if it were one."""
    if scheme is not None:
        return [scheme.entities(tags) for tags in sentences]
    return [{(tag, word, word) for word, tag in enumerate(tags)} for tags in sentences]


def _notes(of_data: Scheme | None, scheme: Scheme | None) -> tuple[str, ...]:
    if of_data is None or scheme is None or of_data == scheme:
        return ()
    return (
        f"the data is tagged in {of_data.name}, but the model in {scheme.name}: entities are "
        "compared by their words, but accuracy compares the tags as they are",
    )


# --- the chapters of the report ---


def examine_tagger(
    scores: Tagging, sentences: Sequence[WrongTags], num_held_out: int
) -> chapters.Examination:
    """What a tagger answers to held-out sentences, and its scores on these."""
    note = chapters.of_rows(len(sentences), num_held_out, "sentence")
    if scores.scheme:
        note += f" Entities are marked in {scores.scheme}."
    confidence = torch.tensor([score for sentence in sentences for score in sentence.scores])
    is_right = torch.tensor(
        [tag == made for s in sentences for tag, made in zip(s.tags, s.predicted, strict=True)]
    )
    parts = [
        *confusion_chapter(scores.confusion, "word", note),
        *classes_chapter("Tags" if scores.f1 is None else "Entities", scores.types, note),
        *calibration_chapter(confidence, is_right, note),
        *chapters.trend(
            "Right tags by length of the sentence",
            [len(sentence.words) for sentence in sentences],
            [sentence.share_right for sentence in sentences],
            ("words", "share of right tags"),
            f"{note} Each point is a tenth of them, with its 95% interval.",
            "sentence",
        ),
    ]
    if wrong := wrong_sentences(sentences):
        worst = [asdict(sentence) | {"source": ""} for sentence in wrong[:MOST_SHOWN]]
        how = f"The {len(worst)} of {len(wrong):,} sentences with the most confident wrong "
        how += "tags. Below a word: the predicted tag, and the right one."
        parts.append(chapters.Chapter("Mistakes", "tagged", {"sentences": worst}, how))
    answers = tuple(
        chapters.Answer(
            shortened(" ".join(sentence.words), MOST_CHARACTERS),
            " ".join(sentence.tags),
            " ".join(sentence.predicted),
            sentence.share_right,
        )
        for sentence in sentences
    )
    return chapters.Examination(tuple(parts), "share of right tags", answers)
