"""Tagging: a sentence in, a tag for every word out, and the entities that the tags mark."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

from glassformer.data.labels import listed_with_counts, spelled_as
from glassformer.data.tag_schemes import Scheme, find_scheme
from glassformer.data.tagged_sentences import read_sentences
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError
from glassformer.inspect.inspection import Subject
from glassformer.models.heads import TokenTagger
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.evaluating import wrong_sentences
from glassformer.tasks.inspecting import InspectsText
from glassformer.tasks.subjects import of_labels
from glassformer.tasks.tag import scores
from glassformer.tasks.tag.scores import SpelledSentences, Tagging
from glassformer.tasks.task import as_list
from glassformer.text.words import split_words

Sentences = list[str] | list[list[str]] | list[str | list[str]] | tuple[str, ...]


@dataclass(frozen=True)
class Tagged:
    """A sentence and the tags of its words."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    """The probability of each tag."""
    scheme: Scheme | None
    """How the tags mark entities; None if they mark none."""
    is_in_pieces: bool = False
    """Whether the sentence was longer than the context and was read in independent pieces."""

    @property
    def entities(self) -> list[dict[str, Any]]:
        """The spans that the tags mark, in order."""
        spans = self.scheme.entities(self.tags) if self.scheme else ()
        return [
            {"type": kind, "text": " ".join(self.words[first : last + 1]), "words": [first, last]}
            for kind, first, last in sorted(spans, key=lambda span: span[1])
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "tags": list(self.tags),
            "scores": list(self.scores),
            "entities": self.entities,
        }


class TagPredictor(InspectsText):
    """The verbs of a tagger: tag and evaluate."""

    verbs = ("tag", "inspect", "evaluate")
    preprocessing_class = TextPreprocessing
    model: TokenTagger
    preprocessing: TextPreprocessing

    @cached_property
    def scheme(self) -> Scheme | None:
        """The scheme of the training data, so that it is the same whatever data is evaluated."""
        return find_scheme(self.model.labels, scheme_name=self.preprocessing.tag_scheme)

    @overload
    def tag(self, sentence: str) -> Tagged: ...
    @overload
    def tag(self, sentence: Sentences) -> list[Tagged]: ...
    def tag(self, sentence: str | Sentences) -> Tagged | list[Tagged]:
        """Tag the words of a sentence. A list gives a list; each sentence is a text, which is split
        into words, or a list of the words themselves.

        >>> model.tag("Ada meets Grace").tags
        ('B-NAME', 'O', 'B-NAME')
        >>> model.tag("Ada meets Grace").entities[0]
        {'type': 'NAME', 'text': 'Ada', 'words': [0, 0]}
        >>> [len(tagged.words) for tagged in model.tag(["Ada", ["Carl", "works"]])]
        [1, 2]
        """
        if isinstance(sentence, str):
            return self.tag_batch([sentence])[0]
        return self.tag_batch(list(sentence))

    def tag_batch(self, sentences: Sequence[str | Sequence[str]]) -> list[Tagged]:
        """Tag every sentence, in order; a long one is read in pieces.

        >>> [tagged.tags for tagged in model.tag_batch([["Ada"], ["the"]])]
        [('B-NAME',), ('O',)]
        """
        words = [split_words(s) if isinstance(s, str) else list(s) for s in sentences]
        spelled = self._spelled(words)
        rows = zip(words, scores.read_words(self.model, spelled), spelled.num_pieces, strict=True)
        return [
            Tagged(
                tuple(row), *scores.likeliest_tags(self.model, logits), self.scheme, num_pieces > 1
            )
            for row, logits, num_pieces in rows
        ]

    def _spelled(self, sentences: Sequence[Sequence[str]]) -> SpelledSentences:
        return SpelledSentences.of(sentences, self.preprocessing, self.model.context_length)

    def in_pieces(self, number: int, total: int) -> str:
        """A note on sentences that were read in pieces."""
        return self.exceeding(number, total, "sentence", " tokens and are read in pieces")

    def _subject(self, text: str) -> Subject:
        return of_labels(self.model, self.preprocessing, text)

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
        errors: int | None = None,
    ) -> Tagging:
        """Entity precision, recall and F1, or accuracy, on files of tagged sentences. With
        `errors`, the result has that many sentences with wrong tags, the surest first.

        >>> model.evaluate("test.conll").f1
        1.0
        """
        names = as_list(paths)
        column = label_column or self.preprocessing.label_column
        columns = text_column or self.preprocessing.text_column
        with collecting() as happened:
            sentences = list(read_sentences(names, column, encoding, columns))
        labels = spelled_as(self.model.labels)
        sentences = [
            replace(sentence, tags=tuple(labels.get(tag, tag) for tag in sentence.tags))
            for sentence in sentences
        ]
        tags = [sentence.tags for sentence in sentences]
        unknown = Counter(tag for row in tags for tag in row if tag not in labels)
        if unknown.total() == sum(map(len, tags)):
            raise GlassformerError(
                f"{', '.join(names)} has only tags that the model does not know: "
                f"{listed_with_counts(unknown)}. It knows: {', '.join(self.model.labels)}."
            )
        notes = happened.notes()
        if unknown:
            wrong = "words with tags that the model does not know count as wrong"
            notes.append(f"{wrong}: {listed_with_counts(unknown)}")
        spelled = self._spelled([sentence.words for sentence in sentences])
        if num_long := sum(pieces > 1 for pieces in spelled.num_pieces):
            notes.append(self.in_pieces(num_long, len(sentences)))
        logits = scores.read_words(self.model, spelled)
        temperature = float(self.model.temperature)
        tagging = scores.evaluate_tags(logits, tags, self.model.labels, temperature, self.scheme)
        tagging = replace(tagging, unknown_tags=dict(unknown), notes=(*notes, *tagging.notes))
        if errors is None:
            return tagging
        compared = scores.compare_tags(self.model, sentences, logits)
        return replace(tagging, errors=wrong_sentences(compared, errors))
