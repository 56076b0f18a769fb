"""Learning labels: what classifying texts and images, tagging and probing share.

LabelledRecipe    data with labels, perhaps a pre-trained model to begin with, and how to learn
LabelledSource    inputs with their labels, split, and what they decide about the model
LabelledDataset   rows with a label each, or one for each of their items
LabelObjective    loss = mean of -log p(label | input); rare labels may count more
ClassObjective    one answer for a whole input, with calibrated probabilities
"""

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

from glassformer.checkpoint.open import open_config, open_preprocessing
from glassformer.config import Config
from glassformer.data.batches import IGNORED, Buckets, LabelledRows
from glassformer.data.documents import LabelledConfig
from glassformer.data.labels import listed_with_counts
from glassformer.data.rows import Array
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError
from glassformer.models import row
from glassformer.nn.loss import label_loss
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.progress import Notify
from glassformer.tasks.fitting import kept_preprocessing, learn_tokenizer, tokenizer_choices
from glassformer.tasks.labels import scores
from glassformer.tasks.labels.scores import Answers, Classification
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.rows import TRAIN, RowDataset
from glassformer.tasks.task import Defaults, Objective, Source, report_data
from glassformer.text.tokenizer_training import TokenizerConfig, one_in
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted

FRAME = 2  # tokens that may stand around a text
SHOWN = 60  # characters of a text that a sample shows


class LabelLossConfig(Config):
    """The settings of the loss of labels."""

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

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        decided: dict[str, dict[str, Any]] = {"model": dict(self.preprocessing.sizes)}
        if isinstance(self.preprocessing, TextPreprocessing):
            decided = tokenizer_choices(recipe, self.preprocessing.tokenizer)
        labels = {"labels": list(self.split.labels), "multi_label": self.split.is_multi_label}
        decided["model"] |= labels
        model: Any = row(recipe.model_name).model
        is_settled = not recipe.is_open or recipe.model.get("context_length")
        if model.default_context is not None and not is_settled:
            needed = -(-(int(self.lengths.max()) + FRAME) // 16) * 16
            usual = min(model.default_context, needed)
            decided["model"]["context_length"] = max(usual, _trained_context(recipe) or 0)
        return decided

    def report_context(self, recipe: Recipe, notify: Notify) -> None:
        """Report if a trained model gets another context."""
        before, now = _trained_context(recipe), recipe.model.get("context_length")
        if before is not None and now is not None and now != before:
            num_longer = int((self.lengths + FRAME > before).sum())
            notify(
                f"note: the model was trained with a context of {before:,} tokens and is "
                f"fine-tuned with {now:,} (set model.context_length to change this); "
                f"{num_longer:,} of {counted(len(self.lengths), 'text')} exceed {before:,}"
            )


def _trained_context(recipe: Recipe) -> int | None:
    """The context of the model that a recipe begins with; None if it begins with none."""
    if recipe.start is None:
        return None
    context: int | None = getattr(open_config(recipe.start.model)[1], "context_length", None)
    return context


def text_preprocessing(
    recipe: LabelledRecipe,
    split: LabelledSplit[Any],
    text_of: Callable[[Any], str],
    default: TokenizerConfig,
    notify: Notify,
) -> TextPreprocessing:
    """The preprocessing of texts, with the tokenizer of the pre-trained model, or with one trained
    on them."""
    columns: dict[str, Any] = {
        "text_column": split.text_column,
        "label_column": split.label_column,
        "label_separator": getattr(recipe.data, "label_separator", None),
        "chat_template": recipe.data.chat_template,
    }
    own = kept_preprocessing(recipe, TextPreprocessing) if recipe.keeps_tokenizer else None
    if own is not None:
        _note_unknown(own.tokenizer, split, text_of, notify)
        return own.changed(**columns)
    if recipe.start is None or recipe.continues:
        examples, every = split.training, 1
        if "char" not in (recipe.tokenizer.kind, default.kind):  # else every character counts
            every = one_in(getattr(examples, "num_bytes", 0))  # a list is in memory anyway
        if every > 1:
            notify(f"tokenizer: trained on one in {every} examples")
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
        _note_unknown(tokenizer, split, text_of, notify)
    is_causal = getattr(row(recipe.model_name).model, "is_causal", False)
    return TextPreprocessing(tokenizer=tokenizer, is_causal=is_causal, **columns)


def _note_unknown(
    tokenizer: Tokenizer, split: LabelledSplit[Any], text_of: Callable[[Any], str], notify: Notify
) -> None:
    if tokenizer.kind == "char":
        alphabet = {character for example in split.training for character in text_of(example)}
        if unknown := tokenizer.unknown_characters("".join(sorted(alphabet))):
            notify(f"note: characters that the model does not know are ignored: {unknown[:10]}")


def report_split(what: str, split: LabelledSplit[Any], notify: Notify) -> None:
    last = f"; test set, used once at the end: {len(split.test):,}" if split.test else ""
    report_data(what, split, notify, split.columns, last)


def report_imbalance(recipe: Any, labels: Sequence[str], targets: Array, notify: Notify) -> None:
    """Report that accuracy is misleading if the labels are uneven (one label for each row)."""
    counts = np.bincount(targets, minlength=len(labels)).tolist()
    if scores.is_uneven(counts):
        advice = f"; to make rare labels count more, pass {scores.WEIGH_CLASSES}"
        notify(
            "note: the labels are uneven: "
            f"{listed_with_counts(Counter(dict(zip(labels, counts, strict=True))), 4)}. Macro F1 "
            "counts all of them alike" + ("" if recipe.objective.class_weights else advice)
        )


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

    def num_targets(self, batch: Any) -> float:
        targets = batch.targets[batch.targets != IGNORED]
        return float(len(targets) if self._weights is None else self._weights[targets].sum())

    def cross_entropy(self, logits: Tensor, targets: Tensor) -> Tensor:
        weights = None if self._weights is None else self._weights.to(logits)
        return label_loss(logits, targets, weights, self.recipe.objective.label_smoothing)


class ClassObjective(LabelObjective):
    """Name the label of an input, or its labels if it can have several."""

    decides = "loss"  # calibrated; with few held-out examples, accuracy would choose by chance
    measures = ("loss", "accuracy", "macro_f1", "expected_calibration_error")

    @cached_property
    def measure(self) -> str:
        several = self.dataset.model_config.multi_label
        return scores.measure_of(None if several else self.dataset.validation.targets)

    def num_targets(self, batch: Any) -> float:
        # Every label of an example counts the same, and so does every share of a mixed image.
        return float(len(batch.targets)) if batch.targets.dim() == 2 else super().num_targets(batch)

    @abstractmethod
    def logits(self, model: Any, rows: Sequence[int]) -> Tensor:
        """The logits (N, C) of some held-out inputs, before the temperature."""

    def fitted_logits(self, model: Any, targets: Tensor) -> Tensor:
        """The logits (N, C) of all held-out inputs, once whatever is fitted to them, other than a
        temperature, has been fitted."""
        return self.logits(model, range(len(targets)))

    def answers(self, model: Any, rows: Sequence[int]) -> Answers:
        """The predictions for some held-out inputs."""
        return Answers.of(model, self.logits(model, rows), self._targets(rows))

    def _targets(self, rows: Sequence[int]) -> Tensor:
        return torch.from_numpy(self.dataset.validation.targets[np.asarray(rows)]).long()

    def validate(self, model: Any) -> Classification:
        targets = self._targets(range(len(self.dataset.validation)))
        logits = self.fitted_logits(model, targets)
        temperature = scores.fit_temperature(logits, targets, model.config.multi_label)
        model.temperature.fill_(temperature)
        return Answers.of(model, logits, targets).judge().with_advice(self.can_weigh)

    def sample(self, model: Any, step: int) -> str:
        """The prediction for one of the held-out inputs."""
        row = step % len(self.dataset.validation)
        answers = self.answers(model, [row])
        predicted, probabilities = answers.predicted[0].tolist(), answers.probabilities[0].tolist()
        named = zip(self.dataset.labels, probabilities, predicted, strict=True)
        labels = ", ".join(f"{label} {p:.2f}" for label, p, is_on in named if is_on)
        mark = "✓" if answers.is_right.all() else "✗"
        return f"{mark} {labels or 'none'} │ {self.dataset.shown(row, SHOWN)}"


def defaults(recipe: Recipe) -> Defaults:
    """The training defaults of models that predict labels."""
    if recipe.start is not None:
        return Defaults(epochs=3, fewest_steps=200, muon=1e-3, adamw=1e-3)
    # Few examples and many words: a word that is rarely seen should have little effect.
    return Defaults(epochs=6, fewest_steps=200, muon=1e-3, adamw=2e-3, weight_decay=1.0)
