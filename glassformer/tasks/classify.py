"""Classify: loss = mean of -log p(label | input). With several labels per input, each is a
yes-or-no question.

Held-out accuracy decides which model is kept. Its probabilities are calibrated: logits are divided
by the temperature that makes the held-out labels likeliest, so that about 80% of the predictions
made with 80% confidence are right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.data.labelled_texts import LabelledConfig, read_labelled
from glassformer.data.padded_batches import LabelledBatch, LabelledRows
from glassformer.data.run_copies import OF_EXAMPLES, keep_examples, keep_series
from glassformer.data.time_series import read_series_split
from glassformer.data.time_series_files import is_series
from glassformer.errors import GlassformerError, UsageError
from glassformer.evaluation.baseline import TfidfBaseline
from glassformer.evaluation.classification import Classification, fit_temperature, judge
from glassformer.evaluation.labelled_reading import read_logits
from glassformer.evaluation.result import evaluating
from glassformer.models.labeller import TextClassifier
from glassformer.predict.classify import YES, ClassifyPredictor, targets_of
from glassformer.predict.predictor import names_of
from glassformer.preprocessing.labelled import LabelledExample, LabelledInputs
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks import labelled_rows
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.row_batches import TRAIN
from glassformer.tasks.task import Command, Say, Task
from glassformer.text.tokenizer_choice import TokenizerConfig
from glassformer.wording import counted, shortened

VALIDATION = "validation.safetensors"
TEST_TEXTS, TEST_SERIES = "test.jsonl", "test.npz"
TOKENIZER = TokenizerConfig(kind="bpe", lowercase=True)  # where the recipe leaves it open
SHOWN = 60  # characters of a text


class ClassifyRecipe(labelled_rows.LabelledRecipe):
    """A recipe for labelled texts or sequences of numbers."""

    data: LabelledConfig


@dataclass(frozen=True)
class ClassifySource(labelled_rows.LabelledSource):
    """Labelled texts, or labelled sequences of numbers."""

    test_file: str
    keep: Callable[[Path, Any], None]
    """Writes a copy of the test data into that file."""

    @cached_property
    def training(self) -> list[Any]:
        """The encoded inputs to learn from."""
        return self._encoded(self.split.training)

    def _encoded(self, examples: Sequence[LabelledExample]) -> list[Any]:
        return list(self.preprocessing.encode([example.input for example in examples]))

    @property
    def lengths(self) -> list[int]:
        return list(map(len, self.training))

    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        limit, split = recipe.model.get("context_length"), self.split
        for name, examples in ((TRAIN, split.training), (VALIDATION, split.validation)):
            encoded = self.training if name == TRAIN else self._encoded(examples)
            rows, is_shortened = self.preprocessing.fit(encoded, limit)
            if number := sum(is_shortened):
                say(
                    f"note: {number:,} of {counted(len(rows), 'example')} exceed the model's "
                    f"context of {limit:,}: {self.preprocessing.what_is_kept}"
                )
            targets = targets_of(examples, split.labels, split.is_multi_label)
            found = LabelledRows.of(rows, targets, self.preprocessing.dtype, is_per_item=False)
            found.save(folder / name)
        if split.test:
            self.keep(folder / self.test_file, split.test)


def read(recipe: ClassifyRecipe, folder: Path, say: Say) -> ClassifySource:
    data = recipe.data
    if not data.text_column and is_series(data.paths, data.label_column, data.encoding):
        return _read_series(recipe, say)
    return _read_texts(recipe, say)


def _read_texts(recipe: ClassifyRecipe, say: Say) -> ClassifySource:
    if recipe.model.get("num_features"):
        raise UsageError("model.num_features is for time series. Leave it out for texts.")
    split = read_labelled(recipe.data, recipe.training.seed)
    what = f"{counted(len(split.training), 'example')} of {len(split.labels)} labels"
    labelled_rows.say_split(what, split, say)
    texts = [example.text for example in split.training]
    preprocessing = labelled_rows.text_preprocessing(recipe, split, texts, TOKENIZER)
    tokenizer = preprocessing.tokenizer
    if tokenizer.kind == "char" and (unknown := tokenizer.unknown_characters("".join(texts))):
        say(f"note: characters that the model does not know are ignored: {unknown[:10]}")
    return ClassifySource(split, preprocessing, TEST_TEXTS, keep_examples)


def _read_series(recipe: ClassifyRecipe, say: Say) -> ClassifySource:
    start = recipe.start
    if start is not None or "num_features" not in type(recipe.architecture()).model_fields:
        reader = f"a {recipe.model_name}" if start is None else f"the model in {start.model}"
        raise UsageError(
            f"{', '.join(recipe.data_names)} contains time series, but {reader} reads text. "
            "Train rnn-classifier or classifier."
        )
    split = read_series_split(recipe.data, recipe.training.seed)
    what = (
        f"{counted(len(split.training), 'sequence')} of {split.training[0].num_features} features "
        f"and {len(split.labels)} labels"
    )
    labelled_rows.say_split(what, split, say)
    steps = np.concatenate([series.values for series in split.training])
    preprocessing = SeriesPreprocessing.of(steps, split.text_column, split.label_column)
    return ClassifySource(split, preprocessing, TEST_SERIES, keep_series)


class ClassifyDataset(labelled_rows.LabelledDataset):
    """Rows with a label each, or several."""

    preprocessing: LabelledInputs

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        self.validation = LabelledRows.load(folder / VALIDATION)
        self.is_multi_label: bool = self.model_config.multi_label

    @property
    def amount(self) -> str:
        return f"{counted(len(self.training), 'example')} of {len(self.labels)} labels"

    def test_data(self) -> dict[str, Any] | None:
        texts, series = self.folder / TEST_TEXTS, self.folder / TEST_SERIES
        if texts.is_file():
            text, label = OF_EXAMPLES
            return {"paths": str(texts), "text_column": (text,), "label_column": label}
        return {"paths": str(series)} if series.is_file() else None


class ClassifyObjective(labelled_rows.LabelObjective):
    """Name the label of an input."""

    dataset: ClassifyDataset
    measure = "accuracy"
    measures = ("loss", "accuracy", "macro_f1", "expected_calibration_error")

    def loss(self, model: TextClassifier, batch: LabelledBatch) -> Tensor:
        return self.cross_entropy(model(batch.ids, batch.is_text).float(), batch.targets)

    def validate(self, model: TextClassifier) -> Classification:
        data = self.dataset
        logits = read_logits(model, data.validation)
        targets, several = torch.from_numpy(data.validation.targets), data.is_multi_label
        model.temperature.fill_(fit_temperature(logits, targets, several))
        temperature = float(model.temperature)  # in the precision of the model
        return judge(logits, targets, data.labels, temperature=temperature, multi_label=several)

    def sample(self, model: TextClassifier, step: int) -> str:
        """Its prediction for one of the held-out examples."""
        data = self.dataset
        row = step % len(data.validation)
        batch = data.validation.batch([row])
        with evaluating(model):
            logits = model(batch.ids.to(model.device), batch.is_text.to(model.device))
            scores = model.probabilities(logits.float())[0].cpu()
        if data.is_multi_label:
            chosen = (scores >= YES).nonzero().flatten().tolist()
            is_right = chosen == batch.targets[0].nonzero().flatten().tolist()
        else:
            chosen = [int(scores.argmax())]
            is_right = chosen == batch.targets.tolist()
        labels = ", ".join(f"{data.labels[n]} {scores[n]:.2f}" for n in chosen) or "none"
        shown = shortened(data.preprocessing.shown_row(data.validation.row(row)), SHOWN)
        return f"{'✓' if is_right else '✗'} {labels} │ {shown}"

    def trials(self, folder: Path | str) -> Sequence[Command]:
        data = self.dataset
        return (("classify", folder, *data.preprocessing.trial(data.validation.row(0))),)


def tfidf_baseline(
    recipe: ClassifyRecipe, predictor: ClassifyPredictor, arguments: dict[str, Any]
) -> tuple[str, Classification]:
    """Logistic regression on TF-IDF, trained on exactly the data of the run."""
    if not isinstance(predictor.preprocessing, TextPreprocessing):
        raise GlassformerError("the data is not text.")
    split = read_labelled(recipe.data, recipe.training.seed)
    labels, several = predictor.model.labels, split.is_multi_label
    if split.labels != labels:
        raise GlassformerError("the training data has different labels than when the run started.")
    arguments = {"text_column": (), "label_column": None, "encoding": "utf-8"} | arguments
    arguments["paths"] = names_of(arguments["paths"])
    test, _ = predictor.preprocessing.read_labelled(**arguments)
    known, _ = predictor.known(test, "the data")
    texts = [example.text for example in split.training]
    targets = predictor.targets(split.training).numpy()
    baseline = TfidfBaseline(texts, targets, labels, several, recipe.training.seed)
    logits = baseline.logits([example.input for example in known])
    scores = judge(logits, predictor.targets(known), labels, multi_label=several)
    return "TF-IDF + logistic regression", scores.with_wrong(len(test) - len(known))


TASK = Task(
    recipe=ClassifyRecipe,
    read=read,
    dataset=ClassifyDataset,
    objective=ClassifyObjective,
    predictor=ClassifyPredictor,
    habits=labelled_rows.habits,
    baseline=tfidf_baseline,
)
