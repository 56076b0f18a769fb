"""Labelled texts in two parts: one to learn from, one held out."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite

from glassformer.config import Names
from glassformer.data.corpus import CorpusConfig
from glassformer.data.examples import Example, Labelled, read_examples
from glassformer.data.splits import (
    Items,
    Parts,
    in_order,
    never_learned,
    no_label_in_common,
    seen_before,
    separate,
    stratified,
)
from glassformer.errors import GlassformerError

ENOUGH = 10  # examples, of which not all can have labels of their own
MANY_KINDS = 100  # of real numbers, from which on they cannot be classes, however often they repeat


class LabelledConfig(CorpusConfig):
    """Which labelled texts to train on, and which to validate on."""

    label_column: str | None = None
    """The column that holds the label; null: the one that plainly is."""
    test_paths: Names = ()
    """Data on which the best model is judged once, at the end; it decides nothing."""


@dataclass(frozen=True, slots=True)
class LabelledSplit:
    """Two disjoint parts of labelled texts, and the labels that there are to learn."""

    training: list[Example]
    validation: list[Example]
    test: list[Example]
    labels: tuple[str, ...]
    """Those of the training part, in order: 2 before 10."""
    is_multi_label: bool
    text_column: tuple[str, ...]
    label_column: str | None
    held_out: str
    notes: list[str]
    columns: list[str]
    """What those of tables were taken for, in words."""


def read_labelled(config: LabelledConfig, seed: int) -> LabelledSplit:
    """All examples, split as the config says."""
    asked = config.text_column, config.label_column, config.encoding
    found = read_examples(config.paths, *asked)
    everything = _items(found.examples, config.paths)
    check_kinds([example.labels for example in found.examples], everything.where)
    if not found.is_multi_label:
        check_classes([(example.labels[0], example.source) for example in found.examples])
        _check_repetition(found, everything.where)
    is_multi_label, notes, columns = found.is_multi_label, found.notes, [found.columns]
    if config.validation_paths:
        other = read_examples(config.validation_paths, *asked)
        is_multi_label, notes = is_multi_label or other.is_multi_label, notes + other.notes
        columns.append(other.columns)
        parts = separate(everything, _items(other.examples, config.validation_paths))
    else:
        parts = stratified(everything, config.validation_fraction, seed)
    test: list[Example] = []
    if config.test_paths:
        last = read_examples(config.test_paths, *asked)
        columns.append(last.columns)
        test, items = last.examples, _items(last.examples, config.test_paths)
        notes = notes + last.notes + _check_test(parts, everything, items, is_multi_label)
    return LabelledSplit(
        training=parts.training,
        validation=parts.validation,
        test=test,
        labels=in_order(label for example in parts.training for label in example.labels),
        is_multi_label=is_multi_label,
        text_column=found.text_column,
        label_column=found.label_column,
        held_out=parts.held_out,
        notes=notes + parts.notes,
        columns=_columns_of_tables(columns),
    )


def _columns_of_tables(parts: Iterable[dict[str, str]]) -> list[str]:
    """What columns were taken for, and of which table if it is not the same in all of them."""
    found: dict[str, str] = {}
    for words, name in (pair for part in parts for pair in part.items()):
        found.setdefault(words, name)
    if len(found) == 1:
        return [f"columns: {words}" for words in found]
    return [f"columns of {name}: {words}" for words, name in found.items()]


def _check_test(
    parts: Parts[Example], training: Items[Example], test: Items[Example], is_multi_label: bool
) -> list[str]:
    """Remarks on the test data, which must be such that the model can be judged by it."""
    for example in test.found:
        if len(example.labels) != 1 and not is_multi_label:
            raise GlassformerError(
                f"{example.source} has {len(example.labels)} labels, and in {training.where} each "
                "text has one. Give training and test the same kind of labels."
            )
    known = {label for example in parts.training for label in example.labels}
    if not any(known.issuperset(example.labels) for example in test.found):
        raise no_label_in_common(training, test, "test")
    return never_learned(parts, test) + seen_before(parts, test)


def check_kinds(labels: Iterable[tuple[str, ...]], where: str) -> None:
    """There must be something to tell apart."""
    kinds = set(labels)
    if len(kinds) < 2:
        only = ", ".join(next(iter(kinds), ())) or "none"
        raise GlassformerError(
            f'{where} has only the label "{only}", so that there is nothing to tell apart. '
            "Give examples of at least two labels."
        )


def check_classes(found: Sequence[tuple[str, str]]) -> None:
    """Refuse amounts: labels, each with its place, that are real numbers and hardly ever repeat."""
    kinds = {label for label, _ in found}
    if any(_as_number(label) is None for label in kinds):
        return
    real = [(label, place) for label, place in found if not (_as_number(label) or 0.0).is_integer()]
    if real and (2 * len(kinds) > len(found) or len(kinds) >= MANY_KINDS):
        label, place = real[0]
        raise GlassformerError(
            f"{place}: the label is {label}, one of {len(kinds):,} different numbers. These are "
            "amounts, and what is learned here are classes: sort them into a few (low, high), or "
            "say another --label-column."
        )


def _check_repetition(found: Labelled, where: str) -> None:
    """Refuse labels of which each stands once: nothing is learned from these."""
    number = len(found.examples)
    if number >= ENOUGH and len({example.labels for example in found.examples}) == number:
        column = "" if found.label_column is None else f' in column "{found.label_column}"'
        raise GlassformerError(
            f"{where} has {number:,} different labels of {number:,} examples{column}. Is this the "
            "text? Say which column holds the label (--label-column)."
        )


def _as_number(label: str) -> float | None:
    with suppress(ValueError):
        return number if isfinite(number := float(label)) else None
    return None


def _items(examples: list[Example], paths: Sequence[str]) -> Items[Example]:
    return Items(
        found=examples,
        content=lambda example: example.text.encode("utf-8", "surrogatepass"),
        labels=lambda example: example.labels,
        answer=lambda example: frozenset(example.labels),
        source=lambda example: example.source,
        what="example",
        body="text",
        where=", ".join(paths),
    )
