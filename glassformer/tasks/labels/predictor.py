"""Classifying: a text, a time series or an image in; labels and their probabilities out.

classify   contents → rows → logits (N, C) → p = softmax(logits / temperature) → Prediction
evaluate   files → examples whose labels the model has → Answers → Classification
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, overload

import torch
from torch import Tensor

from glassformer.config import read_yaml
from glassformer.data.batches import LabelledRows
from glassformer.data.labels import listed_with_counts, spelled_as, targets_of
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError
from glassformer.models.heads import TextClassifier
from glassformer.preprocessing import LabelledExample, LabelledInputs, Preprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.evaluating import WrongLabel
from glassformer.tasks.labels.scores import Answers, Classification, read_logits
from glassformer.tasks.task import Predictor, as_list
from glassformer.wording import counted

_OTHER_COLUMN = " If the labels are in another column, pass --label-column."
YES = 0.5  # the least probability of a label that is given, where several can be


@dataclass(frozen=True)
class Prediction:
    """The labels of an input."""

    text: str
    """The input, or a few words about it if it is not text."""
    labels: tuple[str, ...]
    """One; none or more if several can be given; none for a text without words."""
    scores: dict[str, float]
    """The probability of every label, the likeliest first; empty for a text without words."""
    is_multi_label: bool = False
    is_shortened: bool = False
    """Whether the text was longer than the model's context, so that only a part was read."""
    input_name: str = "text"
    """The key of the input in JSON."""

    @property
    def label(self) -> str:
        return ", ".join(self.labels)

    def as_json(self) -> dict[str, Any]:
        label = self.label or None
        answer = {"labels": list(self.labels)} if self.is_multi_label else {"label": label}
        return {self.input_name: self.text, **answer, "scores": self.scores}


class Inputs(Sequence[Any]):
    """The inputs of examples, each read when it is needed: images need not all be in memory."""

    def __init__(self, examples: Sequence[LabelledExample]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [example.input for example in self._examples[index]]
        return self._examples[index].input


class LabelPredictor(Predictor):
    """The verbs of every classifier, whatever it reads: classify and evaluate."""

    verbs: ClassVar[tuple[str, ...]] = ("classify", "evaluate")
    preprocessing_class: ClassVar[type[Preprocessing]] = LabelledInputs
    model: TextClassifier
    preprocessing: LabelledInputs

    @overload
    def classify(self, content: str | Array) -> Prediction: ...
    @overload
    def classify(self, content: list[Any] | tuple[Any, ...]) -> list[Prediction]: ...
    def classify(self, content: Any) -> Prediction | list[Prediction]:
        """Classify a text or a time series, an array (steps, features). A list gives a list.

        >>> model.classify("a good film").label
        'good'
        >>> [prediction.label for prediction in model.classify(["a good film", "a bad film"])]
        ['good', 'bad']
        >>> model.classify("a good film").scores
        {'good': 0..., 'bad': 0...}
        """
        if self.preprocessing.is_one(content):
            return self.classify_batch([content])[0]
        return self.classify_batch(list(content))

    def classify_batch(self, contents: Sequence[Any]) -> list[Prediction]:
        """Classify every input, in order; a text without words gets no label. Inputs of similar
        length are read together.

        >>> [prediction.label for prediction in model.classify_batch(["a good film", ""])]
        ['good', '']
        """
        shown = [self.preprocessing.shown(content) for content in contents]
        name, several = self.preprocessing.input_name, self.model.config.multi_label
        predictions = [Prediction(text, (), {}, several, input_name=name) for text in shown]
        indices = [index for index, text in enumerate(shown) if text.strip()]
        if not indices:
            return predictions
        logits, is_shortened = self._read([contents[index] for index in indices])
        scores = self.model.probabilities(logits.to(self.model.device)).cpu().tolist()
        for index, row, is_short in zip(indices, scores, is_shortened, strict=True):
            pairs = zip(self.model.labels, row, strict=True)
            ranked = sorted(pairs, key=lambda pair: pair[1], reverse=True)
            best = [pair for pair in ranked if pair[1] >= YES] if several else ranked[:1]
            labels = tuple(label for label, _ in best)
            predictions[index] = Prediction(
                shown[index], labels, dict(ranked), several, is_short, name
            )
        return predictions

    def _read(self, contents: Sequence[Any]) -> tuple[Tensor, list[bool]]:
        """The logits (N, C) before the temperature, and which inputs were shortened."""
        encoded = self.preprocessing.encode(contents)
        rows, is_shortened = self.preprocessing.rows(encoded, self.model.context_length)
        targets, dtype = [0] * len(rows), self.preprocessing.dtype
        unlabelled = LabelledRows.of(rows, targets, dtype, is_per_item=False)
        return read_logits(self.model, unlabelled), is_shortened

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
        errors: int | None = None,
    ) -> Classification:
        """Accuracy, macro F1 and more on labelled files, from the training's columns by default.
        Labels that the model does not have count as wrong. With `errors`, the result has that many
        of the wrong answers, the surest first.

        >>> model.evaluate("test.csv", label_column="sentiment").accuracy
        1.0
        """
        examples, scored, unknown, notes = self.read_labelled(
            paths, text_column, label_column, encoding
        )
        num_wrong = len(examples) - len(scored)
        if unknown:
            notes.append(
                f"{num_wrong:,} of {counted(len(examples), 'example')} have labels that the "
                "model does not know. They count as wrong in the accuracy and are excluded from "
                f"the other scores: {listed_with_counts(unknown)}"
            )
        logits, is_shortened = self._read(Inputs(scored))
        if num_shortened := sum(is_shortened):
            notes.append(self.shortened(num_shortened, len(scored)))
        answers = Answers.of(self.model, logits, self.targets(scored))
        scores = replace(answers.judge(), unknown_labels=dict(unknown), notes=tuple(notes))
        scores = scores.with_advice(self.can_weigh_labels)
        if errors is not None:
            wrong = answers.surest_errors()[:errors]
            worst = tuple(self._mistake(scored[row], answers, row, p) for row, p in wrong)
            scores = replace(scores, errors=worst)
        return scores.with_wrong(num_wrong)

    def read_labelled(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> tuple[Sequence[LabelledExample], list[LabelledExample], Counter[str], list[str]]:
        """The examples of files, those whose labels the model has, the other labels with their
        counts, and notes on what was left out."""
        names = as_list(paths)
        examples, notes = self.preprocessing.read_labelled(
            names, text_column, label_column, encoding
        )
        labels = spelled_as(self.model.labels).keys()
        scored = [example for example in examples if labels >= {*example.labels}]
        unknown = Counter(
            label for example in examples for label in example.labels if label not in labels
        )
        if not scored:
            raise GlassformerError(
                f"{', '.join(names)} has only labels that the model does not know: "
                f"{listed_with_counts(unknown)}. It knows: {', '.join(self.model.labels)}."
                + (_OTHER_COLUMN if isinstance(self.preprocessing, TextPreprocessing) else "")
            )
        return examples, scored, unknown, notes

    @property
    def can_weigh_labels(self) -> bool:
        """Whether rare labels could count more than they did in its training."""
        recipe = self.folder and self.folder / "recipe.yaml"
        if recipe is None or not recipe.is_file():
            return True
        section = None
        with suppress(GlassformerError):  # damaged, or not ours
            section = read_yaml(recipe)[0].get("objective")
        return not (isinstance(section, dict) and section.get("class_weights"))

    def _mistake(
        self, example: LabelledExample, answers: Answers, row: int, probability: float
    ) -> WrongLabel:
        shown = example.source  # an image is shown by the name of its file
        if not self.preprocessing.reads_files:
            shown = self.preprocessing.shown(example.input)
        predicted, several = answers.named(answers.predicted[row]), answers.multi_label
        return WrongLabel(shown, example.labels, predicted, probability, example.source, several)

    def shortened(self, number: int, total: int) -> str:
        """A note on inputs that were too long."""
        return self.exceeding(number, total, "input", f": {self.preprocessing.what_is_kept}")

    def targets(self, examples: Sequence[LabelledExample]) -> Tensor:
        return torch.tensor(targets_of(examples, self.model.labels, self.model.config.multi_label))
