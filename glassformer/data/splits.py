"""Split labelled items into training and validation: every label in both, no content in both.

Two texts are the same if they differ only in case, whitespace or Unicode form (`content.py`).
The notes count repetitions, contradictions and leaks.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from glassformer.config import Names
from glassformer.data.corpus import CorpusConfig
from glassformer.data.holding_out import Groups, Keys, Mask, held_out
from glassformer.data.labelled_items import Items
from glassformer.data.labels import LabelledItem, in_order, listed, listed_with_counts
from glassformer.errors import GlassformerError
from glassformer.wording import counted

T = TypeVar("T", bound=LabelledItem)
AT_ONCE = 2**20  # keys that are looked up together
_OPTIMISTIC = "training or validation, so the test score is too optimistic"


class LabelledConfig(CorpusConfig):
    """Which labelled texts to train on, and which to validate on."""

    label_column: str | None = None
    """The column of the labels (null: detected by name and content)."""
    test_paths: Names = ()
    """Test data: the best model is evaluated on it once, at the end of training."""


@dataclass(frozen=True, slots=True)
class LabelledSplit(Generic[T]):
    """Labelled data: disjoint training and validation parts, test data, and the labels to learn."""

    training: Sequence[T]
    validation: Sequence[T]
    held_out: str
    """What was held out for validation, in words."""
    notes: list[str]
    test: Sequence[T] = ()
    labels: tuple[str, ...] = ()
    """The labels of the training part, in order: 2 before 10."""
    is_multi_label: bool = False
    text_column: tuple[str, ...] = ()
    """The columns of the text, or the features of a time series; empty without a table."""
    label_column: str | None = None
    columns: list[str] = field(default_factory=list)
    """How the columns of tables are used, in words."""


def split_labelled(
    training: Items[T], validation: Items[T], test: Items[T], fraction: float
) -> LabelledSplit[T]:
    """Hold out a fraction of the training data, unless there is separate validation data."""
    known, seen = training.labels, [training.keys]  # every label remains in training
    if len(validation):
        kept = _can_be_scored(validation, training, "validation")
        if validation.is_per_word:  # the other words of a sentence can be scored
            kept = np.ones(len(validation), dtype=bool)
        parts = _separate(training, validation, kept)
        seen.append(validation.keys[kept])
    else:
        parts = _stratified(training, fraction)
    if len(test):
        _can_be_scored(test, training, "test")
    notes = [*parts.notes, *_never_learned(known, test, "test")]
    notes += _repeated(test.keys, test.what, "test", seen, _OPTIMISTIC)
    return replace(parts, notes=notes, test=test.found, labels=in_order(known))


def _can_be_scored(items: Items[T], training: Items[T], part: str) -> Mask:
    """Whether each item has only known labels (a tagged sentence: one). Raises if none has."""
    known = training.labels
    numbers = [
        number
        for number, answer in enumerate(items.kinds)
        if known.issuperset(answer) or (items.is_per_word and not known.isdisjoint(answer))
    ]
    if not numbers:
        raise GlassformerError(
            f"{items.where} has no label in common with {training.where}. "
            f"Provide training and {part} data with the same labels."
        )
    return items.of_kinds(numbers)


def _stratified(items: Items[T], fraction: float) -> LabelledSplit[T]:
    """Hold out about `fraction` of every label, at least one item if it can be spared."""
    groups = Groups.of(items.keys)
    chosen = held_out(groups, items.answers, items.kinds, fraction)
    number = int(chosen.sum())
    if not number:
        raise GlassformerError(
            f"{items.where}: no label has two different {items.what}s, so none can be held out for "
            f"validation. Provide more {items.what}s, or separate validation data "
            "(--validation-data)."
        )
    notes = [*_repetitions(items, groups), *_contradictions(items, groups)]
    if alone := items.labels - {*items.count_labels(chosen)}:
        notes.append(
            f"{_counted(len(alone), 'label', 'have')} too few {items.what}s to hold one out and "
            f"{_verb(len(alone), 'be')} used only for training: {listed(alone)}"
        )
    return LabelledSplit(
        training=items.taken(~chosen),
        validation=items.taken(chosen),
        held_out=f"{number:,} of {counted(len(items), items.what)}, a random sample of every label",
        notes=notes,
    )


def _separate(training: Items[T], validation: Items[T], kept: Mask) -> LabelledSplit[T]:
    """Use separate validation data, without the items that cannot be scored."""
    known, notes = training.labels, list[str]()
    if validation.is_per_word:
        notes += _never_learned(known, validation, "validation")
    elif number := int((~kept).sum()):
        notes.append(
            f"left out: {counted(number, validation.what)} in the validation data with labels that "
            f"do not occur in training: {listed_with_counts(_unknown(known, validation))}"
        )
    notes += _contradictions(training, Groups.of(training.keys))
    keys = validation.keys[kept]
    notes += _repeated(keys, validation.what, "validation", [training.keys], "training")
    held_out = f"all of {validation.where}"
    return LabelledSplit(training.found, validation.taken(kept), held_out, notes)


# --- notes: each function yields at most one of a kind ---


def _never_learned(known: set[str], items: Items[T], part: str) -> Iterator[str]:
    """Labels that cannot be learned. Their items stay, because the score must count them."""
    if unknown := _unknown(known, items):
        yield (
            f"{counted(len(unknown), 'label')} in the {part} data {_verb(len(unknown), 'do')} not "
            f"occur in training and will count as wrong: {listed_with_counts(unknown)}"
        )


def _unknown(known: set[str], items: Items[T]) -> Counter[str]:
    counts = items.count_labels()
    return Counter({label: counts[label] for label in counts if label not in known})


def _repetitions(items: Items[T], groups: Groups) -> Iterator[str]:
    """Equal items, and items that differ only in case, whitespace or Unicode normalization."""
    rows = groups.several
    contents = items.contents[rows]
    # The hash of a content times an odd number, plus the answer, is a hash of both.
    both = contents * np.int64(0x9E3779B97F4A7C15 >> 1 | 1) + items.answers[rows]
    if repeated := len(rows) - len(np.unique(both)):
        yield (
            f"{_counted(repeated, items.what, 'repeat')} another exactly; equal {items.what}s stay "
            "on the same side of the split"
        )
    if similar := len(np.unique(contents)) - int((groups.sizes > 1).sum()):
        yield (
            f"{_counted(similar, items.what, 'differ')} from another only in case, whitespace or "
            "Unicode normalization; they stay on the same side of the split"
        )


def _contradictions(items: Items[T], groups: Groups) -> Iterator[str]:
    """Equal content with different answers. All of it is kept."""
    rows = groups.several
    _, first, of = np.unique(items.contents[rows], return_index=True, return_inverse=True)
    answers = items.answers[rows]
    is_other = answers != answers[first[of]]
    if number := len(np.unique(of[is_other])):
        yield (
            f"{_counted(number, items.body, 'occur')} more than once with different labels "
            f"(first: {items.found[int(rows[np.argmax(is_other)])].source}); all are kept, on the "
            "same side of the split, but no model can get all of them right"
        )


def _repeated(keys: Keys, what: str, part: str, seen: Sequence[Keys], where: str) -> Iterator[str]:
    """Items that leak from one part into another. They are kept as given."""
    own, counts = np.unique(keys, return_counts=True)
    is_found = np.zeros(len(own), dtype=bool)
    for others in seen if len(keys) else ():  # they may be many more: they are not sorted
        for block in np.array_split(others, len(others) // AT_ONCE + 1):
            places = np.minimum(np.searchsorted(own, block), len(own) - 1)
            is_found[places[own[places] == block]] = True
    if both := int(counts[is_found].sum()):
        number = counted(both, what)
        yield f"{number} in the {part} data also {_verb(both, 'occur')} in {where}"


def _counted(number: int, what: str, verb: str) -> str:
    return f"{counted(number, what)} {_verb(number, verb)}"


def _verb(number: int, verb: str) -> str:
    one = {"be": "is", "have": "has", "do": "does"}.get(verb, f"{verb}s")
    return one if number == 1 else {"be": "are"}.get(verb, verb)
