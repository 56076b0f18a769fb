"""Classify sequences of numbers: a time series in, a label out. Else it is as with texts.

Each feature is brought to mean 0 and deviation 1, as the training data has it; the model remembers
how.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from glassformer.data.kept import keep_series
from glassformer.data.sequences import Sequences
from glassformer.data.series import Series, features_of, is_series, read_series_split
from glassformer.errors import UsageError
from glassformer.models.parts import Measurements
from glassformer.training.recipe import Recipe
from glassformer.training.tasks.classify import Classify, checked
from glassformer.training.tasks.labelled import TRAIN, VALIDATION, say_split, write
from glassformer.training.tasks.task import DATA, Say
from glassformer.wording import counted


def is_of_numbers(recipe: Recipe) -> bool:
    """Does it train on sequences of numbers? Once data is prepared, its model says so."""
    if recipe.model.get("labels"):
        return recipe.model.get("num_features") is not None
    data = checked(recipe).data
    if data.text_column:
        return False
    return is_series(data.paths, data.label_column, data.encoding)


@dataclass(frozen=True)
class ClassifySeries(Classify):
    """Teaches a classifier to name the label of a sequence of numbers."""

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        start = recipe.start
        if start is not None or "num_features" not in type(recipe.architecture()).model_fields:
            reader = f"a {recipe.model_name}" if start is None else f"the model in {start.model}"
            raise UsageError(
                f"{', '.join(recipe.data.names)} holds sequences of numbers, and {reader} reads "
                "words. Train rnn-classifier or classifier."
            )
        split = read_series_split(checked(recipe).data, recipe.training.seed)
        what = (
            f"{counted(len(split.training), 'sequence')} of {split.num_features} numbers a step "
            f"and {len(split.labels)} labels"
        )
        say_split(what, split, say)
        data_config = checked(recipe).data
        known = {
            "labels": list(split.labels),
            "num_features": split.num_features,
            "text_column": list(features_of(data_config)),
            "label_column": data_config.label_column,
        }
        said = recipe.model_copy(update={"model": recipe.model | known})
        training, validation = (
            _sequences(part, split.labels) for part in (split.training, split.validation)
        )
        sized = cls(said, said, None, training, validation).completed()
        limit = sized.recipe.model.get("context_length")
        training, validation = (_cut(part, limit, say) for part in (training, validation))
        keep_test = partial(keep_series, series=split.test) if split.test else None
        write(folder, training, validation, tokenizer=None, keep_test=keep_test)
        said = said.model_copy(update={"model": sized.recipe.model})
        return replace(cls.open(sized.recipe, folder), said=said).completed()

    @classmethod
    def open(cls, recipe: Recipe, folder: Path) -> Self:
        data = folder / DATA
        training, validation = Sequences.load(data / TRAIN), Sequences.load(data / VALIDATION)
        return cls(recipe, recipe, None, training, validation)

    def build(self, is_fresh: bool = True) -> nn.Module:
        model = super().build(is_fresh)
        for module in model.modules():
            if isinstance(module, Measurements):
                module.learn_scale(torch.from_numpy(self.training.items))
        return model

    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        return (("classify", folder, "--data", "FILE"),)


def _sequences(series: list[Series], labels: tuple[str, ...]) -> Sequences:
    number = {label: index for index, label in enumerate(labels)}
    targets = [number[each.label] for each in series]
    return Sequences.of([each.values for each in series], targets, np.float32, is_per_item=False)


def _cut(whole: Sequences, limit: int | None, say: Say) -> Sequences:
    """The last steps of a sequence that is too long."""
    if limit is None or whole.lengths.max() <= limit:
        return whole
    number = int((whole.lengths > limit).sum())
    say(
        f"note: {counted(number, 'sequence')} have more than {limit:,} steps: of these the last "
        f"{limit:,} are read"
    )
    rows: list[Any] = [whole.row(index)[-limit:] for index in range(len(whole))]
    return Sequences.of(rows, whole.targets, np.float32, is_per_item=False)
