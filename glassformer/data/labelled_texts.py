"""Labelled texts, split into training, validation and test data."""

from collections.abc import Iterable
from dataclasses import replace

from glassformer.config import Names
from glassformer.data.corpus import CorpusConfig
from glassformer.data.labelled_files import Example, Labelled, read_examples
from glassformer.data.labels import check_classes, check_kinds
from glassformer.data.splits import Items, LabelledSplit, split_labelled
from glassformer.errors import GlassformerError

ENOUGH = 10  # examples; if each of this many has its own label, they are not labels


class LabelledConfig(CorpusConfig):
    """Which labelled texts to train on, and which to validate on."""

    label_column: str | None = None
    """The column of the labels (null: detected by name and content)."""
    test_paths: Names = ()
    """Test data: the best model is evaluated on it once, at the end of training."""


def read_labelled(config: LabelledConfig, seed: int) -> LabelledSplit[Example]:
    """All examples, split as the config says."""
    kinds = config.paths, config.validation_paths, config.test_paths
    columns = config.text_column, config.label_column, config.encoding
    read = [read_examples(paths, *columns) if paths else Labelled() for paths in kinds]
    first = read[0]
    training, validation, test = (
        Items(part.examples, paths, "example", "text")
        for part, paths in zip(read, kinds, strict=True)
    )
    check_kinds(training.found, training.where)
    if not first.is_multi_label:
        check_classes(training.found)
        _check_repetition(first, training.where)
    is_multi_label = first.is_multi_label or read[1].is_multi_label
    if not is_multi_label:
        _check_single_labels(test, training.where)
    split = split_labelled(training, validation, test, config.validation_fraction, seed)
    return replace(
        split,
        is_multi_label=is_multi_label,
        text_column=first.text_column,
        label_column=first.label_column,
        notes=[note for part in read for note in part.notes] + split.notes,
        columns=_columns_of_tables(part.columns for part in read),
    )


def _columns_of_tables(parts: Iterable[dict[str, str]]) -> list[str]:
    """How columns are used, with the name of a table if not all tables agree."""
    found: dict[str, str] = {}
    for part in parts:
        for words, name in part.items():
            found.setdefault(words, name)
    if len(found) == 1:
        return [f"columns: {words}" for words in found]
    return [f"columns of {name}: {words}" for words, name in found.items()]


def _check_single_labels(test: Items[Example], where: str) -> None:
    """The test data must have the same kind of labels as the training data."""
    for example in test.found:
        if len(example.labels) != 1:
            raise GlassformerError(
                f"{example.source}: {len(example.labels)} labels, but each text in {where} has one."
                " Give training and test data the same kind of labels."
            )


def _check_repetition(found: Labelled, where: str) -> None:
    """Refuse labels that all differ: nothing can be learned from them."""
    number = len(found.examples)
    if number >= ENOUGH and len({example.labels for example in found.examples}) == number:
        column = "" if found.label_column is None else f' in column "{found.label_column}"'
        raise GlassformerError(
            f"{where} has {number:,} different labels for {number:,} examples{column}. Pass the "
            "column that contains the labels (--label-column)."
        )
