"""Tagging: a sentence in, a tag for every word out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from glassformer.data.labels import listed_with_counts
from glassformer.data.tagged_files import read_sentences
from glassformer.errors import GlassformerError
from glassformer.evaluation.entities import entities
from glassformer.evaluation.tagging import SpelledSentences, Tagging, evaluate_tags, read_words
from glassformer.models.labeller import TokenTagger
from glassformer.predict.predictor import Predictor, names_of
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.words_and_subwords import split_words
from glassformer.wording import counted


@dataclass(frozen=True)
class Tagged:
    """A sentence and the tags of its words."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    """The probability of each tag."""
    is_in_pieces: bool = False
    """It was longer than the model's context and was read in independent pieces."""

    @property
    def entities(self) -> list[dict[str, Any]]:
        """The spans that the tags B-… and I-… mark, in order."""
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


class TagPredictor(Predictor):
    """The verbs of a tagger: tag and evaluate."""

    verbs = ("tag", "evaluate")
    preprocessing_class = TextPreprocessing
    model: TokenTagger
    preprocessing: TextPreprocessing

    def tag(self, sentence: str | Sequence[str]) -> Tagged:
        """A text, which is split into words, or the words themselves."""
        (found,) = self.tag_batch([sentence])
        return found

    def tag_batch(self, sentences: Sequence[str | Sequence[str]]) -> list[Tagged]:
        """Tag every sentence, in order; a long one is read in pieces."""
        words = [split_words(each) if isinstance(each, str) else list(each) for each in sentences]
        spelled = self._spelled(words)
        logits = read_words(self.model, spelled)
        return [self._tagged(*each) for each in zip(words, logits, spelled.num_pieces, strict=True)]

    def _spelled(self, sentences: Sequence[Sequence[str]]) -> SpelledSentences:
        return SpelledSentences.of(sentences, self.preprocessing, self.model.context_length)

    def _tagged(self, words: list[str], logits: torch.Tensor, pieces: int) -> Tagged:
        device = self.model.device
        scores, best = self.model.probabilities(logits.to(device)).cpu().max(dim=-1)
        tags = tuple(self.model.labels[index] for index in best.tolist())
        return Tagged(tuple(words), tags, tuple(scores.tolist()), pieces > 1)

    def in_pieces(self, number: int, total: int) -> str:
        """A note on sentences that were read in pieces."""
        return (
            f"{number:,} of {counted(total, 'sentence')} exceed the model's context of "
            f"{self.model.context_length:,} tokens and are read in pieces"
        )

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> Tagging:
        """Entity precision, recall and F1, or accuracy, on files of tagged sentences."""
        names = names_of(paths)
        column = label_column or self.preprocessing.label_column
        columns = text_column or self.preprocessing.text_column
        sentences = list(read_sentences(names, column, encoding, columns))
        known = set(self.model.labels)
        unknown = Counter(tag for each in sentences for tag in each.tags if tag not in known)
        if unknown.total() == sum(len(each.tags) for each in sentences):
            raise GlassformerError(
                f"{', '.join(names)} has only tags that the model does not know: "
                f"{listed_with_counts(unknown)}. It knows: {', '.join(self.model.labels)}."
            )
        notes = []
        if unknown:
            wrong = "words with tags that the model does not know count as wrong"
            notes.append(f"{wrong}: {listed_with_counts(unknown)}")
        spelled = self._spelled([each.words for each in sentences])
        if number := sum(pieces > 1 for pieces in spelled.num_pieces):
            notes.append(self.in_pieces(number, len(sentences)))
        scores = evaluate_tags(
            read_words(self.model, spelled),
            [each.tags for each in sentences],
            self.model.labels,
            float(self.model.temperature),
        )
        return replace(scores, unknown_tags=dict(unknown), notes=tuple(notes))
