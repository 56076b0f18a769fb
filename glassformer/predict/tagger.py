"""A tagger with its tokenizer: a sentence in, a tag for every word out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from glassformer.data.sequences import IGNORED, Sequences
from glassformer.data.splits import listed_with_counts
from glassformer.data.tagged import read_sentences
from glassformer.errors import GlassformerError
from glassformer.models.classifier import TokenTagger
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.words import spelled, split_words
from glassformer.training.entities import Tagging, entities, f1_interval, judge_tags
from glassformer.training.scores import expected_calibration_error
from glassformer.training.tasks.labelled import LabelledTask, dtype_of, frame_of
from glassformer.wording import counted


@dataclass(frozen=True)
class Tagged:
    """A sentence and what the tagger says of its words."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    """The probability of each tag."""
    is_in_pieces: bool = False
    """It was longer than the model's context: the pieces knew nothing of each other."""

    @property
    def entities(self) -> list[dict[str, Any]]:
        """What the tags B-… and I-… mark, in order."""
        return [
            {"type": kind, "text": " ".join(self.words[first : last + 1]), "words": [first, last]}
            for kind, first, last in sorted(entities(self.tags), key=lambda found: found[1])
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "tags": list(self.tags),
            "scores": list(self.scores),
            "entities": self.entities,
        }


class TagPredictor:
    """The verbs of a tagger: tag and evaluate."""

    def __init__(self, model: TokenTagger, tokenizer: Tokenizer) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer

    def tag(self, sentence: str | Sequence[str]) -> Tagged:
        """A text, which is split into words, or the words themselves."""
        (found,) = self.tag_batch([sentence])
        return found

    def tag_batch(self, sentences: Sequence[str | Sequence[str]]) -> list[Tagged]:
        """Every sentence, in order; a long one is read in pieces."""
        words = [split_words(each) if isinstance(each, str) else list(each) for each in sentences]
        found, pieces = self._logits(words)
        return [self._said(*each) for each in zip(words, found, pieces, strict=True)]

    def _said(self, words: list[str], logits: torch.Tensor, pieces: int) -> Tagged:
        device = self.model.device
        scores, best = self.model.probabilities(logits.to(device)).cpu().max(dim=-1)
        tags = tuple(self.model.labels[index] for index in best.tolist())
        return Tagged(tuple(words), tags, tuple(scores.tolist()), pieces > 1)

    def in_pieces(self, number: int, total: int) -> str:
        """A remark on sentences that were read so."""
        return (
            f"too long for the model's context of {self.model.context_length:,} tokens, and read "
            f"in pieces: {number:,} of {counted(total, 'sentence')}"
        )

    def _logits(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[list[torch.Tensor], Sequence[int]]:
        """(words, tags) of every sentence, and the number of pieces that it was read in."""
        frame = frame_of(self.tokenizer, self.model.config)
        rows: list[list[int]] = []
        marks: list[int] = []
        owners: list[int] = []  # the sentence that each row is of
        for number, words in enumerate(sentences):
            for ids, begins in spelled(self.tokenizer, words, frame) if words else ():
                rows.append(ids)
                marks += [0 if is_first else IGNORED for is_first in begins]
                owners.append(number)
        found: list[list[torch.Tensor]] = [[] for _ in sentences]
        if rows:
            kind = dtype_of(self.tokenizer)
            sequences = Sequences.of(rows, np.array(marks), kind, is_per_item=True)
            parts: list[torch.Tensor] = [torch.empty(0)] * len(rows)
            for numbers, batch, logits in LabelledTask.read(self.model, sequences):
                is_word = batch.targets != IGNORED
                for place, row in enumerate(numbers):
                    parts[row] = logits[place][is_word[place]]
            for owner, part in zip(owners, parts, strict=True):
                found[owner].append(part)
        none = torch.zeros(0, len(self.model.labels))
        joined = [torch.cat(parts) if parts else none for parts in found]
        if not all(logits.isfinite().all() for logits in joined):
            raise GlassformerError("the model's weights are damaged: its scores are no numbers.")
        return joined, [len(parts) for parts in found]

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> "TaggingFound":
        """Entity precision, recall and F1, or accuracy, on files of tagged sentences."""
        names = [paths] if isinstance(paths, str) else list(paths)
        column = label_column or self.model.config.label_column
        columns = text_column or self.model.config.text_column
        sentences = list(read_sentences(names, column, encoding, columns))
        logits, pieces = self._logits([sentence.words for sentence in sentences])
        number = {label: index for index, label in enumerate(self.model.labels)}
        gold = [sentence.tags for sentence in sentences]
        known = [
            (row, number[tag])
            for rows, tags in zip(logits, gold, strict=True)
            for row, tag in zip(rows, tags, strict=True)
            if tag in number
        ]
        unknown = Counter(tag for tags in gold for tag in tags if tag not in number)
        if not known:
            raise GlassformerError(
                f"{', '.join(names)} has only tags that the model does not know: "
                f"{listed_with_counts(unknown)}. It knows: {', '.join(self.model.labels)}."
            )
        targets = torch.tensor([tag for _, tag in known])
        scaled = torch.stack([row for row, _ in known]).double() / float(self.model.temperature)
        sure, best = scaled.softmax(-1).max(-1)
        predicted = [[self.model.labels[best] for best in rows.argmax(-1)] for rows in logits]
        notes: tuple[str, ...] = ()
        if unknown:
            notes = (
                "words with tags that the model does not know count as wrong: "
                f"{listed_with_counts(unknown)}",
            )
        if number_in_pieces := sum(each > 1 for each in pieces):
            notes += (self.in_pieces(number_in_pieces, len(sentences)),)
        scores = judge_tags(gold, predicted, F.cross_entropy(scaled, targets).item())
        scores = replace(
            scores,
            f1_interval=None if scores.f1 is None else f1_interval(gold, predicted),
            expected_calibration_error=expected_calibration_error(sure, best == targets),
        )
        return TaggingFound(scores, dict(unknown), notes)


@dataclass(frozen=True)
class TaggingFound:
    """Scores, and what to know of them."""

    scores: Tagging
    unknown_tags: dict[str, int]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return self.scores.as_json() | {"unknown_tags": self.unknown_tags}

    def text(self) -> str:
        return self.scores.text()
