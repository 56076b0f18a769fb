"""Labelled texts in two parts: one to learn from, one held out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glassformer.data.corpus import CorpusConfig
from glassformer.data.examples import Example, read_examples
from glassformer.data.splits import Items, in_order, separate, stratified
from glassformer.errors import GlassformerError


class LabelledConfig(CorpusConfig):
    """Which labelled texts to train on, and which to validate on."""

    label_column: str | None = None
    """The column that holds the label; null: the one that plainly is."""


@dataclass(frozen=True, slots=True)
class LabelledSplit:
    """Two disjoint parts of labelled texts, and the labels that there are to learn."""

    training: list[Example]
    validation: list[Example]
    labels: tuple[str, ...]
    """Those of the training part, in order: 2 before 10."""
    is_multi_label: bool
    text_column: tuple[str, ...]
    label_column: str | None
    held_out: str
    notes: list[str]


def read_labelled(config: LabelledConfig, seed: int) -> LabelledSplit:
    """All examples, split as the config says."""
    asked = config.text_column, config.label_column, config.encoding
    found = read_examples(config.paths, *asked)
    everything = _items(found.examples, config.paths)
    check_kinds([example.labels for example in found.examples], everything.where)
    is_multi_label, notes = found.is_multi_label, found.notes
    if config.validation_paths:
        other = read_examples(config.validation_paths, *asked)
        is_multi_label, notes = is_multi_label or other.is_multi_label, notes + other.notes
        parts = separate(everything, _items(other.examples, config.validation_paths))
    else:
        parts = stratified(everything, config.validation_fraction, seed)
    return LabelledSplit(
        training=parts.training,
        validation=parts.validation,
        labels=in_order(label for example in parts.training for label in example.labels),
        is_multi_label=is_multi_label,
        text_column=found.text_column,
        label_column=found.label_column,
        held_out=parts.held_out,
        notes=notes + parts.notes,
    )


def check_kinds(labels: Iterable[tuple[str, ...]], where: str) -> None:
    """There must be something to tell apart."""
    kinds = set(labels)
    if len(kinds) < 2:
        only = ", ".join(next(iter(kinds), ())) or "none"
        raise GlassformerError(
            f'{where} has only the label "{only}", so that there is nothing to tell apart. '
            "Give examples of at least two labels."
        )


def _items(examples: list[Example], paths: Sequence[str]) -> Items[Example]:
    return Items(
        found=examples,
        content=lambda example: example.text.encode("utf-8", "surrogatepass"),
        labels=lambda example: example.labels,
        what="example",
        where=", ".join(paths),
    )
