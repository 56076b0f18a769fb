"""Labelled texts, split into training and validation, and checked for what cannot be learned."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from glassformer.data.content import normalised
from glassformer.data.corpus import LabelledConfig
from glassformer.data.labelled_examples import Example, Labelled, read_examples
from glassformer.data.labels import (
    SHOWN,
    in_order,
    joined,
    likely_separator,
    one_name,
)
from glassformer.data.reading_report import explaining
from glassformer.data.rows import DiskList
from glassformer.data.split import (
    Items,
    LabelledSplit,
    check_classes,
    check_kinds,
    fraction_of,
    split_labelled,
)
from glassformer.errors import GlassformerError
from glassformer.wording import shortened

ENOUGH = 10  # examples; if most of this many have a label of their own, they are not labels
DIFFERENT = 0.7  # the share of different labels from which on they are not labels


class LabelledTextsConfig(LabelledConfig):
    """Which labelled texts to train on, and how their labels are written."""

    label_separator: str | None = Field(None, min_length=1)
    """What separates several labels in a cell, e.g. ";" (null: each cell is one label)."""


def read_labelled(
    config: LabelledTextsConfig, seed: int, folder: Path | None = None
) -> LabelledSplit[Example]:
    """All examples, split as the config says; on disk, in `folder`, or (None) in memory."""
    parts: list[Items[Example]] = []
    read: list[Labelled] = []
    options = config.text_column, config.label_column, config.encoding, config.chat_template
    for paths in config.parts:
        store = None if folder is None else DiskList(folder, Example)
        parts.append(Items(paths, "example", seed, store, body="text"))
        read.append(
            read_examples(paths, *options, parts[-1], label_separator=config.label_separator)
            if paths
            else Labelled()
        )
    training, validation, test = parts
    is_multi_label = read[0].is_multi_label or read[1].is_multi_label
    with explaining(lambda: [note for part in read for note in part.notes]):
        check_kinds(training)
        if not read[0].is_multi_label:
            check_classes(training)
            _check_repetition(training, read[0].label_column)
        if not is_multi_label:
            _check_single_labels(test, training.where)
        fraction = config.validation_fraction or fraction_of(len(training))
        split = split_labelled(training, validation, test, fraction)
    split.notes[:0] = _doubtful_labels(training, read[0])
    columns: dict[str, str] = {}  # how they are used, and the first table in which they are
    for part in read:
        columns |= {words: name for words, name in part.columns.items() if words not in columns}
    return replace(
        split,
        is_multi_label=is_multi_label,
        text_column=read[0].text_column,
        label_column=read[0].label_column,
        notes=[note for part in read for note in part.notes] + split.notes,
        columns=[
            f"columns{f' of {name}' if len(columns) > 1 else ''}: {words}"
            for words, name in columns.items()
        ],
    )


def _doubtful_labels(items: Items[Example], read: Labelled) -> Iterator[str]:
    """Labels that look like a mistake in the data."""
    name = read.label_column
    if name is not None and read.has_names and one_name(name) in items.labels:
        yield (
            f'the label column is named "{name}", which is also one of its labels. If '
            f"{items.where} has no header, its first line was taken for one: add a header"
        )
    alike: dict[str, list[str]] = {}
    for label in in_order(items.labels):
        alike.setdefault(normalised(label), []).append(label)
    if (separator := likely_separator(items.labels)) and not read.is_multi_label:
        example = in_order(label for label in items.labels if separator in label)[0]
        yield (
            f'labels look joined by "{separator}" (such as "{shortened(example, SHOWN)}"): pass '
            f'--label-separator "{separator}" to read them as several labels of a text'
        )
    if several := [joined(each) for each in alike.values() if len(each) > 1]:
        yield (
            "labels that differ only in case, whitespace or Unicode normalization are separate: "
            f"{'; '.join(several[:3])}"
        )


def _check_single_labels(test: Items[Example], where: str) -> None:
    """The test data must have the same kind of labels as the training data."""
    if others := [number for number, answer in enumerate(test.kinds) if len(answer) != 1]:
        example = test.first(test.of_kinds(others))
        raise GlassformerError(
            f"{example.source}: {len(example.labels)} labels, but each text in {where} has one."
            " Give training and test data the same kind of labels."
        )


def _check_repetition(items: Items[Example], label_column: str | None) -> None:
    """Refuse labels that nearly all differ: nothing can be learned from them."""
    number, kinds = len(items), len(items.kinds)
    if number >= ENOUGH and kinds > DIFFERENT * number:
        column = "" if label_column is None else f' in column "{shortened(label_column, SHOWN)}"'
        cure = "Pass the column that contains the labels (--label-column)."
        if separator := likely_separator(items.labels):
            cure = f'They look joined by "{separator}": pass --label-separator "{separator}".'
        raise GlassformerError(
            f"{items.where} has {kinds:,} different labels for {number:,} examples{column}. {cure}"
        )
