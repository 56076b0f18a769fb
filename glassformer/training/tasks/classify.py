"""Classify: loss = mean of -log p(label | text). With several labels per text each is a yes or no.

Held-out accuracy decides which model is kept. Its scores are calibrated: divided by the temperature
at which the held-out labels are likeliest, so that of what it says with 80 % about 80 % is true.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.checkpoint.folder import TOKENIZER
from glassformer.data.examples import Example
from glassformer.data.kept import keep_examples
from glassformer.data.labelled import LabelledSplit, read_labelled
from glassformer.data.sequences import Batch, Sequences
from glassformer.errors import UsageError
from glassformer.models.classifier import TextClassifier
from glassformer.text.framing import Frame, encode_texts
from glassformer.text.tokenizers import Tokenizer, TokenizerConfig
from glassformer.training.evaluate import evaluating
from glassformer.training.recipe import ClassifyRecipe, Recipe
from glassformer.training.scores import Classification, fit_temperature, judge
from glassformer.training.sections import LabelLossConfig
from glassformer.training.tasks.labelled import (
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
from glassformer.wording import beginning, counted, shortened

SHOWN = 60  # characters of a text


@dataclass(frozen=True)
class Found:
    """A validation, as a training sees it."""

    scores: Classification

    @property
    def loss(self) -> float:
        return self.scores.loss

    def columns(self) -> dict[str, float]:
        return {
            "val_loss": self.scores.loss,
            "val_accuracy": self.scores.accuracy,
            "val_macro_f1": self.scores.macro_f1,
            "val_calibration_error": self.scores.expected_calibration_error,
        }

    def headline(self) -> str:
        low, high = self.scores.interval
        return (
            f"accuracy {self.scores.accuracy:.4f} (95 % interval {low:.4f} to {high:.4f}), macro "
            f"F1 {self.scores.macro_f1:.4f}, of {counted(self.scores.num_examples, 'example')}"
        )


@dataclass(frozen=True)
class Classify(LabelledTask):
    """Teaches a classifier to name the label of a text."""

    tokenizer_default: ClassVar[TokenizerConfig] = TokenizerConfig(kind="bpe", lowercase=True)

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        if recipe.model.get("num_features"):
            raise UsageError("model.num_features is for sequences of numbers: leave it out here.")
        split = read_labelled(checked(recipe).data, recipe.training.seed)
        what = f"{counted(len(split.training), 'example')} of {len(split.labels)} labels"
        say_split(what, split, say)
        texts = [example.text for example in split.training]
        tokenizer = make_tokenizer(recipe, texts, cls.tokenizer_default)
        if tokenizer.kind == "char" and (unknown := tokenizer.unknown_characters("".join(texts))):
            say(f"note: characters that the model does not know are passed over: {unknown[:10]}")
        said = with_digest(recipe).model_copy(update={"model": _labelled(recipe.model, split)})
        whole = [_encoded(part, split, tokenizer) for part in (split.training, split.validation)]
        # How much text there is decides the size of the model, and that, how much of it is read.
        sized = cls(said, said, tokenizer, *whole).completed()
        frame = frame_of(tokenizer, sized.recipe.architecture())
        training, validation = (framed(part, frame, say) for part in whole)
        keep_test = partial(keep_examples, examples=split.test) if split.test else None
        write(folder, training, validation, tokenizer, keep_test=keep_test)
        said = said.model_copy(update={"model": sized.recipe.model})  # the data is cut for it
        return replace(cls.open(sized.recipe, folder), said=said).completed()

    @classmethod
    def open(cls, recipe: Recipe, folder: Path) -> Self:
        data = folder / DATA
        return cls(
            recipe=recipe,
            said=recipe,
            tokenizer=Tokenizer.load(data / TOKENIZER),
            training=Sequences.load(data / TRAIN),
            validation=Sequences.load(data / VALIDATION),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return "val_loss", "val_accuracy", "val_macro_f1", "val_calibration_error"

    @property
    def measure(self) -> str:
        return "accuracy"

    @property
    def is_multi_label(self) -> bool:
        return bool(self.recipe.model["multi_label"])

    def amount(self) -> str:
        examples = counted(len(self.training), "example")
        return self.in_words(f"{examples} of {len(self.labels)} labels")

    @property
    def _objective(self) -> LabelLossConfig:
        return checked(self.recipe).objective

    @cached_property
    def _weights(self) -> Tensor | None:
        """Of each label, if rare ones are to count more."""
        if not self._objective.class_weights:
            return None
        targets = torch.from_numpy(self.training.targets)
        if self.is_multi_label:
            positive = targets.sum(0).clamp(min=1)
            return (len(targets) - positive) / positive
        return balanced(torch.bincount(targets, minlength=len(self.labels)))

    def loss(self, model: TextClassifier, batch: Batch) -> Tensor:
        logits = model(batch.ids, batch.is_text).float()
        weights = None if self._weights is None else self._weights.to(logits)
        smoothing = self._objective.label_smoothing
        if self.is_multi_label:  # each label is a choice of two, yes or no
            goal = batch.targets.to(logits.dtype) * (1 - smoothing) + smoothing / 2
            return F.binary_cross_entropy_with_logits(logits, goal, pos_weight=weights)
        return F.cross_entropy(logits, batch.targets, weights, label_smoothing=smoothing)

    def validate(self, model: TextClassifier) -> Found:
        found = [(logits, batch.targets) for _, batch, logits in self.read(model, self.validation)]
        logits, targets = (torch.cat(parts) for parts in zip(*found, strict=True))
        temperature = fit_temperature(logits, targets, self.is_multi_label)
        model.temperature.fill_(temperature)
        return Found(
            judge(
                logits,
                targets,
                self.labels,
                temperature=temperature,
                multi_label=self.is_multi_label,
            )
        )

    def sample(self, model: TextClassifier, step: int) -> str:
        """What it says of one of the held-out texts."""
        row = step % len(self.validation)
        batch = self.validation.batch([row])
        with evaluating(model):
            logits = model(batch.ids.to(model.device), batch.is_text.to(model.device))
            scores = model.probabilities(logits.float())[0].tolist()
        best = max(range(len(scores)), key=scores.__getitem__)
        if self.is_multi_label:
            chosen = [index for index, score in enumerate(scores) if score >= 0.5]
            is_right = chosen == batch.targets[0].nonzero().flatten().tolist()
        else:
            chosen, is_right = [best], int(batch.targets[0]) == best
        said = ", ".join(f"{self.labels[index]} {scores[index]:.2f}" for index in chosen) or "none"
        return f"{'✓' if is_right else '✗'} {said} │ {self._shown(row)}"

    def _shown(self, row: int) -> str:
        """A held-out example, as far as it can be shown on a line."""
        if self.tokenizer is None:
            return counted(int(self.validation.lengths[row]), "step")
        return shortened(self._text(self.tokenizer, row), SHOWN)

    def _text(self, tokenizer: Tokenizer, row: int) -> str:
        return tokenizer.decode(self.validation.row(row).tolist())

    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        text = "" if self.tokenizer is None else self._text(self.tokenizer, 0)
        return (("classify", folder, beginning(text, SHOWN)),)


def _labelled(model: dict[str, Any], split: LabelledSplit) -> dict[str, Any]:
    return model | {
        "labels": list(split.labels),
        "multi_label": split.is_multi_label,
        "text_column": list(split.text_column),
        "label_column": split.label_column,
    }


def _encoded(examples: list[Example], split: LabelledSplit, tokenizer: Tokenizer) -> Sequences:
    rows = encode_texts(tokenizer, [example.text for example in examples])
    targets = targets_of([example.labels for example in examples], split)
    return Sequences.of(rows, targets, dtype_of(tokenizer))


def targets_of(found: Sequence[tuple[str, ...]], split: LabelledSplit) -> list[Any]:
    """The number of each label; with several labels, 0 or 1 for each that there is."""
    number = {label: index for index, label in enumerate(split.labels)}
    if split.is_multi_label:
        return [[int(label in labels) for label in split.labels] for labels in found]
    return [number[label] for (label,) in found]


def framed(whole: Sequences, frame: Frame, say: Say) -> Sequences:
    """The texts as a model reads them."""
    rows = [whole.row(index).tolist() for index in range(len(whole))]
    if too_long := sum(map(frame.is_too_long, rows)):
        say(
            f"note: too long for the model's context of {frame.limit:,} tokens: {too_long:,} of "
            f"{len(rows):,} texts; of these, the beginning and the end are read"
        )
    return Sequences.of([frame.put(ids) for ids in rows], whole.targets, whole.items.dtype)


def checked(recipe: Recipe) -> ClassifyRecipe:
    if not isinstance(recipe, ClassifyRecipe):
        raise TypeError("a recipe for another task")
    return recipe
