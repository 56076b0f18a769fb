"""Tag: a label for every word. loss = mean of -log p(tag | sentence), at the first token of a word.

Entities (B-PER, I-PER …) are judged as a whole, by F1; other tags word by word, by accuracy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.data.batches import IGNORED, LabelledBatch, LabelledRows
from glassformer.data.labels import spelled_as
from glassformer.data.rows import Array
from glassformer.data.tag_schemes import Scheme, find_scheme
from glassformer.data.tagged_sentences import Sentence, TaggedConfig, read_tagged
from glassformer.errors import GlassformerError
from glassformer.inspect.chapters import Examination
from glassformer.models.heads import TokenTagger
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.progress import Notify
from glassformer.tasks.fitting import with_kept_labels
from glassformer.tasks.labels import task as labels
from glassformer.tasks.labels.scores import fit_temperature, rows_to_read
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.rows import OF_SENTENCES, TRAIN, keep_sentences, kept_sentences
from glassformer.tasks.tag import scores
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.tasks.tag.scores import SpelledSentences, Tagging, evaluate_tags, read_words
from glassformer.tasks.task import Command, Defaults, Task
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.text.words import encode_words
from glassformer.wording import as_argument, counted

VALIDATION, TEST = "validation.jsonl", "test.jsonl"
TOKENIZER = TokenizerConfig(kind="wordpiece")  # where the recipe leaves it open
SHOWN = 12  # words


class TagRecipe(labels.LabelledRecipe):
    """A recipe for sentences with a tag for every word."""

    data: TaggedConfig


@dataclass(frozen=True)
class TagSource(labels.LabelledSource):
    """Tagged sentences, and the tokenizer that they are read with."""

    @cached_property
    def lengths(self) -> Array:
        tokenizer = self.preprocessing.tokenizer
        sentences = (encode_words(tokenizer, row.words) for row in self.split.training)
        return np.array([sum(map(len, words)) for words in sentences])

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        limit = recipe.model.get("context_length")
        self.report_context(recipe, notify)
        training, validation = (
            SpelledSentences.of([row.words for row in part], self.preprocessing, limit)
            for part in (self.split.training, self.split.validation)
        )
        index = {name: index for index, name in enumerate(self.split.labels)}
        target = {name: index[label] for name, label in spelled_as(self.split.labels).items()}
        targets = training.rows.targets
        targets[targets != IGNORED] = [
            target[tag] for row in self.split.training for tag in row.tags
        ]
        training.rows.save(folder / TRAIN)
        if cut := sum(pieces > 1 for pieces in training.num_pieces + validation.num_pieces):
            notify(
                f"note: {counted(cut, 'sentence')} exceed the model's context of {limit:,} "
                "tokens and are read in pieces"
            )
        keep_sentences(folder / VALIDATION, self.split.validation)
        if self.split.test:
            keep_sentences(folder / TEST, self.split.test)


def read(recipe: TagRecipe, folder: Path, notify: Notify) -> TagSource:
    split = with_kept_labels(recipe, read_tagged(recipe.data, recipe.training.seed))
    what = f"{counted(len(split.training), 'sentence')} with {counted(len(split.labels), 'tag')}"
    labels.report_split(what, split, notify)
    try:  # tags that mix schemes are refused here, in all parts, rather than after the training
        scheme, *_ = map(_scheme, (split.training, split.validation, split.test))
    except GlassformerError as error:
        raise GlassformerError(f"{', '.join(recipe.data_names)}: {error}") from None
    if scheme is not None:
        notify(f"tags: {scheme.name}, scored as entities")
    else:
        notify(
            "note: the tags follow no scheme of entities, such as B-PER, I-PER and O: accuracy, "
            "not F1, decides which model is kept"
        )
    preprocessing = labels.text_preprocessing(
        recipe, split, lambda sentence: " ".join(sentence.words), TOKENIZER, notify
    )
    name = scheme.name if scheme else None
    if recipe.continues:
        name = preprocessing.tag_scheme
    return TagSource(split, preprocessing.model_copy(update={"tag_scheme": name}))


def _scheme(sentences: Sequence[Sentence]) -> Scheme | None:
    rows = [sentence.tags for sentence in sentences]
    return find_scheme({tag for tags in rows for tag in tags}, rows)


class TagDataset(labels.LabelledDataset):
    """Rows with a tag for every word, and held-out sentences."""

    preprocessing: TextPreprocessing

    @cached_property
    def scheme(self) -> Scheme | None:
        return find_scheme(self.labels, scheme_name=self.preprocessing.tag_scheme)

    @cached_property
    def held_out(self) -> list[Sentence]:
        return kept_sentences(self.folder / VALIDATION)

    @cached_property
    def spelled(self) -> SpelledSentences:
        """The held-out sentences as the model reads them."""
        words = [sentence.words for sentence in self.held_out]
        return SpelledSentences.of(words, self.preprocessing, self.model_config.context_length)

    @property
    def validation(self) -> LabelledRows:
        return self.spelled.rows

    @property
    def num_held_out(self) -> int:
        return len(self.held_out)

    @property
    def amount(self) -> str:
        return f"{counted(len(self.training), 'sentence')} with {counted(len(self.labels), 'tag')}"

    def test_data(self) -> dict[str, Any] | None:
        path, (words, tags) = self.folder / TEST, OF_SENTENCES
        if not path.is_file():
            return None
        return {"paths": str(path), "text_column": (words,), "label_column": tags}


class TagObjective(labels.LabelObjective):
    """Label each word of a sentence."""

    dataset: TagDataset

    @property
    def measures(self) -> tuple[str, ...]:
        return ("loss", "accuracy", "f1") if self.measure == "f1" else ("loss", "accuracy")

    @property
    def measure(self) -> str:
        return "f1" if self.dataset.scheme else "accuracy"

    def loss(self, model: TokenTagger, batch: LabelledBatch) -> Tensor:
        is_word = batch.targets != IGNORED  # (B, T): the token that speaks for each word
        hidden = model.represent(batch.ids, batch.is_text)[is_word]  # (N, D)
        logits = model.head(model.head_dropout(hidden)).float()
        return self.cross_entropy(logits, batch.targets[is_word])

    def validate(self, model: TokenTagger) -> Tagging:
        data = self.dataset
        gold = [sentence.tags for sentence in data.held_out]
        logits = read_words(model, data.spelled)
        word_logits, targets = scores.known_words(logits, gold, data.labels)
        if len(targets):
            model.temperature.fill_(fit_temperature(word_logits, targets))
        return evaluate_tags(logits, gold, data.labels, float(model.temperature), data.scheme)

    def sample(self, model: TokenTagger, step: int) -> str:
        """The tags of the words of a held-out sentence."""
        data = self.dataset
        words = data.held_out[step % len(data.held_out)].words
        limit = data.model_config.context_length
        (logits,) = read_words(model, SpelledSentences.of([words], data.preprocessing, limit))
        tags = [data.labels[best] for best in logits.argmax(-1).tolist()]
        pairs = [f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)]
        return " ".join([*pairs[:SHOWN], *(["…"] if len(pairs) > SHOWN else [])])

    def examine(self, model: TokenTagger) -> Examination:
        data = self.dataset
        lengths = [len(sentence.words) for sentence in data.held_out]
        rows = [row for row in rows_to_read(lengths, model) if lengths[row]]
        sentences = [data.held_out[row] for row in rows]
        limit = data.model_config.context_length
        words, gold = [s.words for s in sentences], [s.tags for s in sentences]
        logits = read_words(model, SpelledSentences.of(words, data.preprocessing, limit))
        tagging = evaluate_tags(logits, gold, data.labels, float(model.temperature), data.scheme)
        compared = scores.compare_tags(model, sentences, logits)
        return scores.examine_tagger(tagging, compared, len(data.held_out))

    def trials(self, folder: Path | str) -> Sequence[Command]:
        opening = " ".join(self.dataset.held_out[0].words[:SHOWN])
        return (("tag", folder, *as_argument(opening)),)


def defaults(recipe: Recipe) -> Defaults:
    usual = labels.defaults(recipe)
    # Every word is an example, so there is more to learn from than in the texts of a classifier.
    return usual if recipe.start is not None else replace(usual, muon=3e-3)


TASK = Task(
    recipe=TagRecipe,
    read=read,
    dataset=TagDataset,
    objective=TagObjective,
    predictor=TagPredictor,
    defaults=defaults,
)
