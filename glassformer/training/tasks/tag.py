"""Tag: a label for every word. loss = mean of -log p(tag | sentence), at the first token of a word.

Entities (B-PER, I-PER …) are judged as a whole, by F1; other tags word by word, by accuracy.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.checkpoint.folder import TOKENIZER
from glassformer.data.kept import keep_sentences
from glassformer.data.sequences import IGNORED, Batch, Sequences
from glassformer.data.tagged import Sentence, read_tagged
from glassformer.models.classifier import TokenTagger
from glassformer.text.framing import Frame
from glassformer.text.tokenizers import Tokenizer, TokenizerConfig
from glassformer.text.words import spelled
from glassformer.training.entities import Tagging, has_entities, judge_tags
from glassformer.training.evaluate import evaluating
from glassformer.training.recipe import Recipe, TagRecipe
from glassformer.training.scores import fit_temperature
from glassformer.training.tasks.labelled import (
    FACTS,
    TRAIN,
    VALIDATION,
    LabelledTask,
    balanced,
    dtype_of,
    frame_of,
    make_tokenizer,
    say_split,
    with_digest,
    write,
)
from glassformer.training.tasks.task import DATA, Say
from glassformer.wording import counted

SHOWN = 12  # words


@dataclass(frozen=True)
class TagsFound:
    """A validation, as a training sees it."""

    scores: Tagging
    f1: float | None
    """Of entities, where there are any to learn: also if none is held out, and none was found."""

    @property
    def loss(self) -> float:
        return self.scores.loss

    def columns(self) -> dict[str, float]:
        found = {"val_loss": self.scores.loss, "val_accuracy": self.scores.accuracy}
        return found if self.f1 is None else found | {"val_f1": self.f1}

    def headline(self) -> str:
        f1 = "" if self.f1 is None else f"entity F1 {self.f1:.4f}, "
        return f"{f1}accuracy {self.scores.accuracy:.4f} of {self.scores.num_words:,} words"


@dataclass(frozen=True)
class Tag(LabelledTask):
    """Teaches a tagger to label each word of a sentence."""

    tokenizer: Tokenizer
    pieces: tuple[int, ...] = ()
    """How many rows each held-out sentence has: a long one is read in several."""
    unseen: tuple[str, ...] = ()
    """Tags that only the held-out sentences have. They cannot be learned, and count as wrong."""
    words: tuple[tuple[str, ...], ...] = ()
    """Of each held-out row, as they were written: tokens may not give them back."""

    tokenizer_default: ClassVar[TokenizerConfig] = TokenizerConfig(kind="wordpiece")

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        split = read_tagged(checked(recipe).data, recipe.training.seed)
        what = f"{counted(len(split.training), 'sentence')} with {len(split.tags)} tags"
        say_split(what, split, say)
        texts = [" ".join(sentence.words) for sentence in split.training]
        tokenizer = make_tokenizer(recipe, texts, cls.tokenizer_default)
        tags = {
            "labels": list(split.tags),
            "label_column": split.label_column,
            "text_column": list(checked(recipe).data.text_column),
        }
        said = with_digest(recipe).model_copy(update={"model": recipe.model | tags})
        known = set(split.tags)
        unseen = sorted({tag for each in split.validation for tag in each.tags} - known)
        names = (*split.tags, *unseen)
        whole, _ = _encoded(split.training, tokenizer, names, Frame((), (), None))
        rest, _ = _encoded(split.validation, tokenizer, names, Frame((), (), None))
        sized = cls(said, said, tokenizer, whole, rest).completed()
        frame = frame_of(tokenizer, sized.recipe.architecture())
        training, cut = _encoded(split.training, tokenizer, names, frame)
        validation, pieces = _encoded(split.validation, tokenizer, names, frame)
        if number := sum(rows > 1 for rows in cut + pieces):
            say(
                f"note: too long for the model's context of {frame.limit:,} tokens, and read in "
                f"pieces: {counted(number, 'sentence')}"
            )
        words = _words_of_rows(split.validation, validation)
        facts = {"pieces": pieces, "unseen": unseen, "words": words}
        keep_test = partial(keep_sentences, sentences=split.test) if split.test else None
        write(folder, training, validation, tokenizer, facts, keep_test)
        said = said.model_copy(update={"model": sized.recipe.model})  # the data is cut for it
        return replace(cls.open(sized.recipe, folder), said=said).completed()

    @classmethod
    def open(cls, recipe: Recipe, folder: Path) -> Self:
        data = folder / DATA
        facts = json.loads((data / FACTS).read_text())
        return cls(
            recipe=recipe,
            said=recipe,
            tokenizer=Tokenizer.load(data / TOKENIZER),
            training=Sequences.load(data / TRAIN),
            validation=Sequences.load(data / VALIDATION),
            pieces=tuple(facts["pieces"]),
            unseen=tuple(facts["unseen"]),
            words=tuple(map(tuple, facts["words"])),
        )

    @property
    def num_held_out(self) -> int:
        return len(self.pieces)

    @property
    def columns(self) -> tuple[str, ...]:
        always = ("val_loss", "val_accuracy")
        return (*always, "val_f1") if has_entities(self.labels) else always

    @property
    def measure(self) -> str:
        return "f1" if has_entities(self.labels) else "accuracy"

    def amount(self) -> str:
        sentences = counted(len(self.training), "sentence")
        return self.in_words(f"{sentences} with {len(self.labels)} tags")

    def loss(self, model: TokenTagger, batch: Batch) -> Tensor:
        is_word = batch.targets != IGNORED  # (B, T): the token that speaks for each word
        hidden = model.represent(batch.ids, batch.is_text)[is_word]  # (N, D)
        logits = model.head(model.head_dropout(hidden)).float()
        weights = None if self._weights is None else self._weights.to(logits)
        smoothing = checked(self.recipe).objective.label_smoothing
        return F.cross_entropy(logits, batch.targets[is_word], weights, label_smoothing=smoothing)

    @cached_property
    def _weights(self) -> Tensor | None:
        """Of each tag, if rare ones are to count more."""
        if not checked(self.recipe).objective.class_weights:
            return None
        targets = torch.from_numpy(self.training.targets)
        return balanced(torch.bincount(targets[targets != IGNORED], minlength=len(self.labels)))

    def validate(self, model: TokenTagger) -> TagsFound:
        chosen, loss = self._predictions(model)
        names = (*self.labels, *self.unseen)
        gold: list[list[str]] = []
        predicted: list[list[str]] = []
        row = 0
        for count in self.pieces:
            rows = range(row, row + count)
            truth = [self.validation.targets_of(index) for index in rows]
            gold.append([names[tag] for part in truth for tag in part[part != IGNORED]])
            predicted.append([self.labels[tag] for index in rows for tag in chosen[index]])
            row += count
        scores = judge_tags(gold, predicted, loss)
        return TagsFound(scores, (scores.f1 or 0.0) if self.measure == "f1" else None)

    @torch.no_grad()
    def _predictions(self, model: TokenTagger) -> tuple[list[list[int]], float]:
        """The likeliest tag of each held-out word, row by row, and the loss, once the scores are
        calibrated."""
        chosen: list[list[int]] = [[] for _ in range(len(self.validation))]
        known: list[tuple[Tensor, Tensor]] = []
        for rows, batch, logits in self.read(model, self.validation):
            is_word = batch.targets != IGNORED
            can_be_known = is_word & (batch.targets < len(self.labels))
            known.append((logits[can_be_known], batch.targets[can_be_known]))
            best = logits.argmax(-1)
            for place, row in enumerate(rows):
                chosen[row] = best[place][is_word[place]].tolist()
        found, targets = (torch.cat(parts) for parts in zip(*known, strict=True))
        if not len(targets):
            return chosen, 0.0
        temperature = fit_temperature(found, targets)
        model.temperature.fill_(temperature)
        return chosen, F.cross_entropy(found.double() / temperature, targets).item()

    def sample(self, model: TokenTagger, step: int) -> str:
        """What it says of the words of a held-out sentence."""
        row = step % len(self.validation)
        batch = self.validation.batch([row])
        with evaluating(model):
            found = model(batch.ids.to(model.device), batch.is_text.to(model.device))[0].argmax(-1)
        tags = [self.labels[tag] for tag in found.cpu()[batch.targets[0] != IGNORED].tolist()]
        pairs = [f"{word}/{tag}" for word, tag in zip(self.words[row], tags, strict=True)]
        return " ".join([*pairs[:SHOWN], *(["…"] if len(pairs) > SHOWN else [])])

    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        return (("tag", folder, " ".join(self.words[0][:SHOWN])),)


def checked(recipe: Recipe) -> TagRecipe:
    if not isinstance(recipe, TagRecipe):
        raise TypeError("a recipe for another task")
    return recipe


def _words_of_rows(sentences: list[Sentence], rows: Sequences) -> list[list[str]]:
    """The words that each row holds: a long sentence is in several."""
    words = iter([word for sentence in sentences for word in sentence.words])
    counts = [int((rows.targets_of(row) != IGNORED).sum()) for row in range(len(rows))]
    return [list(islice(words, count)) for count in counts]


def _encoded(
    sentences: list[Sentence], tokenizer: Tokenizer, names: Sequence[str], frame: Frame
) -> tuple[Sequences, list[int]]:
    """The sentences in pieces that fit, and how many pieces each has."""
    number = {name: index for index, name in enumerate(names)}
    rows: list[list[int]] = []
    targets: list[int] = []
    pieces: list[int] = []
    for sentence in sentences:
        tags = iter(sentence.tags)
        before = len(rows)
        for ids, begins in spelled(tokenizer, sentence.words, frame):
            rows.append(ids)
            targets += [number[next(tags)] if is_first else IGNORED for is_first in begins]
        pieces.append(len(rows) - before)
    found = Sequences.of(rows, np.array(targets), dtype_of(tokenizer), is_per_item=True)
    return found, pieces
