"""Rows with labels: what classifying and tagging share."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from glassformer.checkpoint.open import open_config, open_preprocessing
from glassformer.config import Config
from glassformer.data.corpus import LabelledConfig
from glassformer.data.labels import listed_with_counts, one_name
from glassformer.data.padded_batches import IGNORED, Buckets, LabelledBatch, LabelledRows
from glassformer.data.rows import Array
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError
from glassformer.evaluation.classification import WEIGH_CLASSES, is_uneven
from glassformer.models import row
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.kept_preprocessing import kept_preprocessing
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.row_batches import TRAIN, RowDataset
from glassformer.tasks.task import Habits, Objective, Say, Source, say_data
from glassformer.tasks.tokenizer_of_recipe import decided_by_tokenizer, learn_tokenizer
from glassformer.text.tokenizer_sample import one_in
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted

FRAME = 2  # tokens that may stand around a text


class LabelLossConfig(Config):
    """How labels are learned."""

    class_weights: bool = False
    """Weight each label by the inverse of its frequency, so that rare labels count more."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target probability spread over all labels (multi-label: over yes and no)."""


class LabelledRecipe(TokenizedRecipe):
    """A recipe whose data has labels, and which may begin with a trained model."""

    data: LabelledConfig
    objective: LabelLossConfig = LabelLossConfig()


@dataclass(frozen=True)
class LabelledSource(Source):
    """Labelled inputs of one kind, split."""

    split: LabelledSplit[Any]
    preprocessing: Any

    @property
    @abstractmethod
    def lengths(self) -> Array:
        """The number of items of each input to learn from."""

    @property
    def num_items(self) -> int:
        return int(self.lengths.sum())

    def decided(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        decided: dict[str, dict[str, Any]] = {"model": dict(self.preprocessing.sizes)}
        if isinstance(self.preprocessing, TextPreprocessing):
            decided = decided_by_tokenizer(recipe, self.preprocessing.tokenizer)
        labels = {"labels": list(self.split.labels), "multi_label": self.split.is_multi_label}
        decided["model"] |= labels
        model: Any = row(recipe.model_name).model
        is_settled = not recipe.is_open or recipe.model.get("context_length")
        if model.default_context is not None and not is_settled:
            needed = -(-(int(self.lengths.max()) + FRAME) // 16) * 16
            chosen = min(model.default_context, needed)
            decided["model"]["context_length"] = max(chosen, _trained_context(recipe) or 0)
        return decided

    def say_context(self, recipe: Recipe, say: Say) -> None:
        """Report if a trained model gets another context."""
        before, now = _trained_context(recipe), recipe.model.get("context_length")
        if before is not None and now is not None and now != before:
            number = int((self.lengths + FRAME > before).sum())
            say(
                f"note: the model was trained with a context of {before:,} tokens and is "
                f"fine-tuned with {now:,} (set model.context_length to change this); "
                f"{number:,} of {counted(len(self.lengths), 'text')} exceed {before:,}"
            )


def _trained_context(recipe: Recipe) -> int | None:
    """The context of the model that a recipe begins with; None if it begins with none."""
    if recipe.start is None:
        return None
    _, config = open_config(recipe.start.model)
    found: int | None = getattr(config, "context_length", None)
    return found


def text_preprocessing(
    recipe: LabelledRecipe,
    split: LabelledSplit[Any],
    text_of: Callable[[Any], str],
    default: TokenizerConfig,
    say: Say,
) -> TextPreprocessing:
    """With the tokenizer of the pre-trained model, or with one trained on the texts."""
    columns: dict[str, Any] = {
        "text_column": split.text_column,
        "label_column": split.label_column,
        "label_separator": getattr(recipe.data, "label_separator", None),
        "chat_template": recipe.data.chat_template,
    }
    known = kept_preprocessing(recipe, TextPreprocessing) if recipe.keeps_tokenizer else None
    if known is not None:
        _note_unknown(known.tokenizer, split, text_of, say)
        return known.changed(**columns)
    if recipe.start is None or recipe.continues:
        examples, every = split.training, 1
        if "char" not in (recipe.tokenizer.kind, default.kind):  # else every character counts
            every = one_in(getattr(examples, "num_bytes", 0))  # a list is in memory anyway
        if every > 1:
            say(f"tokenizer: trained on one in {every} examples")
        # Rich, because the rarer words show what a text is about.
        tokenizer = learn_tokenizer(
            recipe, default, map(text_of, examples[::every]), is_rich=True, one_in=every
        )
    else:
        start = open_preprocessing(recipe.start.model)
        if not isinstance(start, TextPreprocessing):
            raise GlassformerError(
                f"{recipe.start.model} does not read text, so it cannot be fine-tuned on texts. "
                "Pass the folder of a bert or gpt."
            )
        tokenizer = start.tokenizer
        _note_unknown(tokenizer, split, text_of, say)
    is_causal = getattr(row(recipe.model_name).model, "is_causal", False)
    return TextPreprocessing(tokenizer=tokenizer, is_causal=is_causal, **columns)


def _note_unknown(
    tokenizer: Tokenizer, split: LabelledSplit[Any], text_of: Callable[[Any], str], say: Say
) -> None:
    if tokenizer.kind == "char":
        alphabet = {character for each in split.training for character in text_of(each)}
        if unknown := tokenizer.unknown_characters("".join(sorted(alphabet))):
            say(f"note: characters that the model does not know are ignored: {unknown[:10]}")


def say_split(what: str, split: LabelledSplit[Any], say: Say) -> None:
    last = f"; test set, used once at the end: {len(split.test):,}" if split.test else ""
    say_data(what, split, say, split.columns, last)


def say_uneven(recipe: Any, labels: Sequence[str], targets: Array, say: Say) -> None:
    """Report if accuracy will say little about the labels to learn, of which each row has one."""
    counts = np.bincount(targets, minlength=len(labels)).tolist()
    if is_uneven(counts):
        advice = f"; to make rare labels count more, pass {WEIGH_CLASSES}"
        say(
            "note: the labels are uneven: "
            f"{listed_with_counts(Counter(dict(zip(labels, counts, strict=True))), 4)}. Macro F1 "
            "counts all of them alike" + ("" if recipe.objective.class_weights else advice)
        )


def check_labels(split: LabelledSplit[Any], labels: Sequence[str]) -> None:
    """Raise unless the data, read again, still has the labels of the model."""
    if {*split.labels} != {*map(one_name, labels)}:
        raise GlassformerError("the training data has different labels than when the run started.")


class LabelledDataset(RowDataset):
    """Rows with a label each, or one for each of their items."""

    row_name = "example"
    training: LabelledRows

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        self.training = LabelledRows.load(folder / TRAIN)
        self.labels: tuple[str, ...] = self.model_config.labels

    def buckets(self, batch_size: int, seed: int) -> Buckets:
        return Buckets(self.training.lengths, batch_size, seed)

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"num_labels": len(self.labels)}


class LabelObjective(Objective):
    """Predict labels, of which rare ones may count more."""

    dataset: LabelledDataset

    @cached_property
    def _weights(self) -> Tensor | None:
        if not self.recipe.objective.class_weights:
            return None
        targets = torch.from_numpy(self.dataset.training.targets)
        if targets.dim() == 2:  # several labels: yes and no weigh the same together
            positive = targets.sum(0).clamp(min=1)
            return (len(targets) - positive) / positive
        counts = torch.bincount(targets[targets != IGNORED], minlength=len(self.dataset.labels))
        return counts.sum() / (len(counts) * counts.clamp(min=1))  # all weigh the same together

    @property
    def can_weigh(self) -> bool:
        """Whether rare labels could count more."""
        return not self.recipe.objective.class_weights

    def num_targets(self, batch: LabelledBatch) -> float:
        wanted = batch.targets[batch.targets != IGNORED]
        return float(len(wanted) if self._weights is None else self._weights[wanted].sum())

    def cross_entropy(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Logits (N, C) against labels (N,), or several labels as 0 and 1 (N, C)."""
        weights = None if self._weights is None else self._weights.to(logits)
        smoothing: float = self.recipe.objective.label_smoothing
        if targets.dim() == 2:  # each label is a choice of two, yes or no
            goal = targets.to(logits.dtype) * (1 - smoothing) + smoothing / 2
            return F.binary_cross_entropy_with_logits(logits, goal, pos_weight=weights)
        return F.cross_entropy(logits, targets, weights, label_smoothing=smoothing)


def habits(recipe: Recipe) -> Habits:
    if recipe.start is not None:
        return Habits(epochs=3, fewest_steps=200, muon=1e-3, adamw=1e-3)
    # Few examples and many words: a word that is rarely seen should have little effect.
    return Habits(epochs=6, fewest_steps=200, muon=1e-3, adamw=2e-3, weight_decay=1.0)
