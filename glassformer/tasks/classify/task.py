"""Classify: loss = mean of -log p(label | input). With several labels per input, each is a
yes-or-no question.

The held-out loss decides which model is kept. Its probabilities are calibrated: logits are divided
by the temperature that makes the held-out labels likeliest, so that about 80% of the predictions
made with 80% confidence are right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import LabelledBatch, LabelledRows
from glassformer.data.labelled_texts import LabelledTextsConfig, read_labelled
from glassformer.data.rows import Array, JsonLines
from glassformer.data.split import LabelledSplit
from glassformer.data.time_series import is_series, read_series_split
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.chapters import Examination
from glassformer.inspect.inspection import Subject
from glassformer.models import row
from glassformer.models.ensemble import Ensemble
from glassformer.models.heads import TextClassifier
from glassformer.preprocessing import LabelledInputs
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.progress import Notify
from glassformer.tasks.fitting import kept_preprocessing, with_kept_labels
from glassformer.tasks.inspecting import InspectsText
from glassformer.tasks.labels import task as labels
from glassformer.tasks.labels.baseline import TfidfBaseline, linear_baseline
from glassformer.tasks.labels.predictor import LabelPredictor
from glassformer.tasks.labels.scores import (
    MOST_CHARACTERS,
    examine_classifier,
    fit_weights,
    read_batches,
    read_logits,
    rows_to_read,
)
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.rows import (
    OF_EXAMPLES,
    TRAIN,
    EncodedRows,
    keep_examples,
    keep_series,
    keep_texts,
)
from glassformer.tasks.subjects import of_labels
from glassformer.tasks.task import Baseline, Command, Defaults, Task, View
from glassformer.text.tokenizer_training import TokenizerConfig, has_spaces
from glassformer.wording import an, as_argument, beginning, counted, shortened

VALIDATION, VALIDATION_TEXTS = "validation.safetensors", "validation.texts.jsonl"
TEST_TEXTS, TEST_SERIES = "test.jsonl", "test.npz"
# Where the recipe leaves the tokenizer open:
PIECES = TokenizerConfig(kind="bpe", lowercase=True)
WORDS = TokenizerConfig(kind="word", lowercase=True)  # a rare word says more than its pieces
PER_CHOICE = 25  # held-out examples for each model to choose from
SAMPLE = 1_000  # texts that show whether there are spaces between words


class ClassifyRecipe(labels.LabelledRecipe):
    """A recipe for labelled texts or sequences of numbers."""

    data: LabelledTextsConfig


@dataclass(frozen=True)
class ClassifySource(labels.LabelledSource):
    """Labelled texts, or labelled sequences of numbers."""

    training: EncodedRows
    """The training examples, not truncated, in the file of the run."""
    test_file: str
    keep: Callable[[Path, Any], None]
    """Writes a copy of the test data into that file."""

    @property
    def lengths(self) -> Array:
        return np.asarray(self.training.sizes)

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        limit, split = recipe.model.get("context_length"), self.split
        self.report_context(recipe, notify)
        self.training.cut(limit)
        validation = EncodedRows(folder / VALIDATION, self.preprocessing, split)
        validation.encode(split.validation, limit)
        for rows in (self.training, validation):
            rows.finish()
            if rows.num_shortened:
                notify(
                    f"note: {rows.num_shortened:,} of {counted(len(rows), 'example')} exceed the "
                    f"model's context of {limit:,}: {self.preprocessing.what_is_kept}"
                )
        if not split.is_multi_label:
            labels.report_imbalance(recipe, split.labels, self.training.targets, notify)
        if split.test:
            self.keep(folder / self.test_file, split.test)
        if isinstance(self.preprocessing, TextPreprocessing):
            keep_texts(folder / VALIDATION_TEXTS, (example.text for example in split.validation))


def read(recipe: ClassifyRecipe, folder: Path, notify: Notify) -> ClassifySource:
    data = recipe.data
    if not data.text_column and is_series(data.paths, data.label_column, data.encoding):
        split, preprocessing = _read_series(recipe, notify)
        test: tuple[str, Any] = (TEST_SERIES, keep_series)
    else:
        split, preprocessing = _read_texts(recipe, folder, notify)
        test = (TEST_TEXTS, keep_examples)
    training = EncodedRows(folder / TRAIN, preprocessing, split)
    training.encode(split.training)
    return ClassifySource(split, preprocessing, training, *test)


def _read_texts(
    recipe: ClassifyRecipe, folder: Path, notify: Notify
) -> tuple[LabelledSplit[Any], LabelledInputs]:
    if recipe.model.get("num_features"):
        if recipe.start is not None:
            raise UsageError(
                f"the model in {recipe.start.model} reads time series, but "
                f"{', '.join(recipe.data_names)} contains texts."
            )
        raise UsageError("model.num_features is for time series. Leave it out for texts.")
    split = read_labelled(recipe.data, recipe.training.seed, folder)
    split = with_kept_labels(recipe, split)
    what = f"{counted(len(split.training), 'example')} of {counted(len(split.labels), 'label')}"
    labels.report_split(what, split, notify)
    text_of = attrgetter("text")
    model: Any = row(recipe.model_name).model
    default = PIECES
    if has_spaces(map(text_of, split.training[:SAMPLE])):
        default = WORDS.model_copy(update={"vocab_size": model.default_words})
    preprocessing = labels.text_preprocessing(recipe, split, text_of, default, notify)
    return split, preprocessing


def _read_series(
    recipe: ClassifyRecipe, notify: Notify
) -> tuple[LabelledSplit[Any], LabelledInputs]:
    if recipe.data.label_separator is not None:
        raise UsageError(
            "--label-separator is for texts: a time series has one label. Leave it out."
        )
    start, preprocessing = recipe.start, None
    if recipe.continues and recipe.model.get("num_features"):
        preprocessing = kept_preprocessing(recipe, SeriesPreprocessing)
    reads_series = "num_features" in type(recipe.architecture()).model_fields
    if not reads_series or (start is not None and preprocessing is None):
        reader = an(recipe.model_name) if start is None else f"the model in {start.model}"
        raise UsageError(
            f"{', '.join(recipe.data_names)} contains time series, but {reader} reads text. "
            "Train rnn-classifier or classifier."
        )
    split = with_kept_labels(recipe, read_series_split(recipe.data, recipe.training.seed))
    what = (
        f"{counted(len(split.training), 'sequence')} of "
        f"{counted(split.training[0].num_features, 'feature')} and "
        f"{counted(len(split.labels), 'label')}"
    )
    labels.report_split(what, split, notify)
    if preprocessing is not None:
        columns = {"text_column": tuple(split.text_column), "label_column": split.label_column}
        return split, preprocessing.changed(**columns)
    steps = np.concatenate([series.values for series in split.training])
    return split, SeriesPreprocessing.of(steps, split.text_column, split.label_column)


class ClassifyDataset(labels.LabelledDataset):
    """Rows with a label each, or several."""

    preprocessing: LabelledInputs

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        self.validation = LabelledRows.load(folder / VALIDATION)
        self.is_multi_label: bool = self.model_config.multi_label
        self.unit = self.preprocessing.unit
        self.texts = JsonLines(folder / VALIDATION_TEXTS)

    def shown(self, row: int, most: int) -> str:
        """A held-out input for people: the beginning of its text, or a few words about it."""
        if isinstance(self.preprocessing, TextPreprocessing):
            return shortened(self.texts[row], most)
        return self.preprocessing.shown_row(self.validation.row(row))

    @property
    def most_validations(self) -> int:
        """Few held-out examples cannot tell twenty models apart: the luckiest would be chosen."""
        return min(super().most_validations, max(1, self.num_held_out // PER_CHOICE))

    @property
    def amount(self) -> str:
        return f"{counted(len(self.training), 'example')} of {counted(len(self.labels), 'label')}"

    def test_data(self) -> dict[str, Any] | None:
        texts, series = self.folder / TEST_TEXTS, self.folder / TEST_SERIES
        if texts.is_file():
            text, label = OF_EXAMPLES
            return {"paths": str(texts), "text_column": (text,), "label_column": label}
        return {"paths": str(series)} if series.is_file() else None


class EncodedTexts(Sequence[Tensor]):
    """The ids of each text, read when they are needed."""

    def __init__(self, rows: LabelledRows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self):
            raise IndexError
        return torch.from_numpy(self._rows.row(index).astype(np.int64))


class ClassifyObjective(labels.ClassObjective):
    """Name the label of an input."""

    dataset: ClassifyDataset

    def initialize(self, model: TextClassifier) -> None:
        preprocessing = self.dataset.preprocessing
        words: Sequence[str] = ()
        if isinstance(preprocessing, TextPreprocessing):
            words = preprocessing.tokenizer.words
        model.see(EncodedTexts(self.dataset.training), words)

    def loss(self, model: TextClassifier, batch: LabelledBatch) -> Tensor:
        def loss_of(logits: Tensor) -> Tensor:
            return self.cross_entropy(logits.float(), batch.targets)

        if isinstance(model, Ensemble):
            return model.loss(batch.ids, batch.is_text, loss_of)
        return loss_of(model(batch.ids, batch.is_text))

    def logits(self, model: TextClassifier, rows: Sequence[int]) -> Tensor:
        held_out = self.dataset.validation
        items = [held_out.row(row) for row in rows]
        targets, dtype = held_out.targets[np.asarray(rows)], held_out.items.dtype
        return read_logits(model, LabelledRows.of(items, targets, dtype, is_per_item=False))

    def fitted_logits(self, model: TextClassifier, targets: Tensor) -> Tensor:
        """The members of an ensemble are weighed."""
        rows = self.dataset.validation
        if not isinstance(model, Ensemble) or model.bag is None:
            return read_logits(model, rows)
        members = torch.empty(2, len(rows), len(model.labels))
        batches = read_batches(model, rows, lambda *batch: torch.stack(model.members(*batch)))
        for numbers, _, logits in batches:
            members[:, torch.from_numpy(numbers)] = logits
        layers, bag = members
        model.weigh(fit_weights(layers, bag, targets, model.config.multi_label))
        return model.combined(members.to(model.device)).cpu()

    def examine(self, model: TextClassifier) -> Examination:
        data = self.dataset
        rows = rows_to_read(data.validation.lengths.tolist(), model)
        return examine_classifier(
            self.answers(model, rows),
            [data.shown(row, MOST_CHARACTERS) for row in rows],
            len(data.validation),
            self.can_weigh,
            lengths=(f"{data.unit}s", data.validation.lengths[rows].tolist()),
        )

    def trials(self, folder: Path | str) -> Sequence[Command]:
        data, held_out = self.dataset, self.dataset.validation
        trials = (data.preprocessing.trial(held_out.row(n)) for n in range(len(held_out)))
        # Some have no known words.
        row, words = next(((n, words) for n, words in enumerate(trials) if any(words)), (0, ("…",)))
        if isinstance(data.preprocessing, TextPreprocessing):
            words = as_argument(beginning(data.texts[row], labels.SHOWN))
        return (("classify", folder, *words),)


class ClassifyPredictor(LabelPredictor, InspectsText):
    """The verbs of a classifier of texts or time series: classify, inspect and evaluate."""

    verbs = ("classify", "inspect", "evaluate")

    @property
    def usable_views(self) -> dict[str, View]:
        """A time series has no tokens to show."""
        return super().usable_views if self._text is not None else {}

    @property
    def _text(self) -> TextPreprocessing | None:
        return self.preprocessing if isinstance(self.preprocessing, TextPreprocessing) else None

    def _subject(self, text: str) -> Subject:
        if self._text is None:
            raise UsageError("only models that read text can be inspected in this way.")
        return of_labels(self.model, self._text, text)


def tfidf_baseline(
    recipe: ClassifyRecipe, predictor: ClassifyPredictor, arguments: dict[str, Any]
) -> Baseline:
    """Logistic regression on TF-IDF, trained on exactly the data of the run."""
    if not isinstance(predictor.preprocessing, TextPreprocessing):
        raise GlassformerError("the data is not text.")
    split = read_labelled(recipe.data, recipe.training.seed)
    return linear_baseline(TfidfBaseline, recipe, predictor, arguments, split, str)


def defaults(recipe: Recipe) -> Defaults:
    usual = labels.defaults(recipe)
    # A classifier is at its best after one or two epochs; then it learns the examples by heart.
    return usual if recipe.start is not None else replace(usual, epochs=2)


TASK = Task(
    recipe=ClassifyRecipe,
    read=read,
    dataset=ClassifyDataset,
    objective=ClassifyObjective,
    predictor=ClassifyPredictor,
    defaults=defaults,
    baseline=tfidf_baseline,
)
