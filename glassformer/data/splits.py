"""Split labelled items into training and validation: every label in both, no content in both.

    items  →  groups of equal content  →  a random tenth of each label  →  validation

The random order of the groups is a hash of their content and the seed. Neither the order of the
files nor additional examples of other labels change the side on which an item lands.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from glassformer.data.labels import LabelledItem, in_order, listed, listed_with_counts
from glassformer.errors import GlassformerError
from glassformer.wording import counted

T = TypeVar("T", bound=LabelledItem)
_OPTIMISTIC = "training or validation, so the test score is too optimistic"
_SLACK = 1.5  # a group of equal items may exceed the wanted size by this factor


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """Labelled items of one kind, the files they were read from, and how messages name them."""

    found: Sequence[T]
    paths: Sequence[str]
    what: str
    """One item: "example", "sentence" or "sequence"."""
    body: str
    """What is equal in two items of equal content: "text", "sentence" or "sequence"."""
    is_per_word: bool = False
    """Each word has a label, so an item with one unknown label can still be scored."""

    @property
    def where(self) -> str:
        return ", ".join(self.paths)

    def answer(self, item: T) -> Collection[str]:
        """What is to be predicted. The order of labels matters only if each belongs to a word."""
        return item.labels if self.is_per_word else frozenset(item.labels)

    def can_be_scored(self, item: T, known: set[str]) -> bool:
        has_some = self.is_per_word and not known.isdisjoint(item.labels)
        return has_some or known.issuperset(item.labels)


@dataclass(frozen=True, slots=True)
class LabelledSplit(Generic[T]):
    """Labelled data, whatever is labelled: disjoint training and validation parts, test data, and
    the labels to learn."""

    training: list[T]
    validation: list[T]
    held_out: str
    """What was held out for validation, in words."""
    notes: list[str]
    test: list[T] = field(default_factory=list)
    labels: tuple[str, ...] = ()
    """The labels of the training part, in order: 2 before 10."""
    is_multi_label: bool = False
    text_column: tuple[str, ...] = ()
    """The columns of the text, or the features of a time series; empty without a table."""
    label_column: str | None = None
    columns: list[str] = field(default_factory=list)
    """How the columns of tables are used, in words."""


def split_labelled(
    training: Items[T], validation: Items[T], test: Items[T], fraction: float, seed: int
) -> LabelledSplit[T]:
    """Hold out a fraction of the training data, unless there is separate validation data."""
    if validation.found:
        parts = _separate(training, validation)
    else:
        parts = _stratified(training, fraction, seed)
    known = _labels_of(parts.training)
    if test.found and not any(test.can_be_scored(item, known) for item in test.found):
        raise _no_label_in_common(training, test, "test")
    seen = parts.training + parts.validation
    notes = [*parts.notes, *_never_learned(known, test, "test")]
    notes += _repeated(test, "test", seen, _OPTIMISTIC)
    return replace(parts, notes=notes, test=list(test.found), labels=in_order(known))


def _stratified(items: Items[T], fraction: float, seed: int) -> LabelledSplit[T]:
    """Hold out about `fraction` of every label, at least one item if it can be spared."""
    found = items.found
    contents = [item.content for item in found]
    chosen = hold_out(contents, [item.labels for item in found], fraction, seed)
    if not chosen:
        raise GlassformerError(
            f"{items.where}: no label has two different {items.what}s, so none can be held out for "
            f"validation. Provide more {items.what}s, or separate validation data "
            "(--validation-data)."
        )
    notes = []
    if repeated := len(found) - len(set(zip(contents, map(items.answer, found), strict=True))):
        notes.append(
            f"{_counted(repeated, items.what, 'repeat')} another exactly; equal {items.what}s stay "
            "on the same side of the split"
        )
    notes += _contradictions(items)
    if alone := _labels_of(found) - _labels_of(found[index] for index in chosen):
        notes.append(
            f"{_counted(len(alone), 'label', 'have')} too few {items.what}s to hold one out and "
            f"{_verb(len(alone), 'be')} used only for training: {listed(alone)}"
        )
    return LabelledSplit(
        training=[item for index, item in enumerate(found) if index not in chosen],
        validation=[item for index, item in enumerate(found) if index in chosen],
        held_out=f"{len(chosen):,} of {len(found):,} {items.what}s, a random sample of every label",
        notes=notes,
    )


def _separate(training: Items[T], validation: Items[T]) -> LabelledSplit[T]:
    """Use separate validation data. Items that cannot be scored for lack of their label are left
    out, except tagged sentences: their other words can."""
    known, kept = _labels_of(training.found), list(validation.found)
    if validation.is_per_word:
        notes = list(_never_learned(known, validation, "validation"))
    else:
        kept = [item for item in kept if known.issuperset(item.labels)]
        notes = list(_left_out(known, validation, len(validation.found) - len(kept)))
    if not kept:
        raise _no_label_in_common(training, validation, "validation")
    notes += _contradictions(training)
    notes += _repeated(validation, "validation", training.found, "training")
    return LabelledSplit(list(training.found), kept, f"all of {validation.where}", notes)


def _labels_of(items: Iterable[LabelledItem]) -> set[str]:
    return {label for item in items for label in item.labels}


def _no_label_in_common(training: Items[T], other: Items[T], part: str) -> GlassformerError:
    return GlassformerError(
        f"{other.where} has no label in common with {training.where}. "
        f"Provide training and {part} data with the same labels."
    )


# --- notes: each function yields at most one ---


def _left_out(known: set[str], validation: Items[T], number: int) -> Iterator[str]:
    if number:
        yield (
            f"left out: {counted(number, validation.what)} in the validation data with labels that "
            f"do not occur in training: {listed_with_counts(_unknown(known, validation))}"
        )


def _never_learned(known: set[str], items: Items[T], part: str) -> Iterator[str]:
    """Labels that cannot be learned. Their items stay, because the score must count them."""
    if unknown := _unknown(known, items):
        yield (
            f"{counted(len(unknown), 'label')} in the {part} data {_verb(len(unknown), 'do')} not "
            f"occur in training and will count as wrong: {listed_with_counts(unknown)}"
        )


def _unknown(known: set[str], items: Items[T]) -> Counter[str]:
    return Counter(label for item in items.found for label in item.labels if label not in known)


def _contradictions(items: Items[T]) -> Iterator[str]:
    """Equal content with different answers. All of it is kept."""
    answers: dict[bytes, Collection[str]] = {}
    others: dict[bytes, str] = {}  # where content first has another answer than before
    for item in items.found:
        answer = items.answer(item)
        if answers.setdefault(item.content, answer) != answer:
            others.setdefault(item.content, item.source)
    if others:
        yield (
            f"{_counted(len(others), items.body, 'occur')} more than once with different labels "
            f"(first: {next(iter(others.values()))}); all are kept, on the same side of the split, "
            "but no model can get all of them right"
        )


def _repeated(items: Items[T], part: str, seen: Iterable[T], where: str) -> Iterator[str]:
    """Items that leak from one part into another. They are kept as given."""
    contents = {item.content for item in seen}
    if both := sum(item.content in contents for item in items.found):
        number = counted(both, items.what)
        yield f"{number} in the {part} data also {_verb(both, 'occur')} in {where}"


def _counted(number: int, what: str, verb: str) -> str:
    return f"{counted(number, what)} {_verb(number, verb)}"


def _verb(number: int, verb: str) -> str:
    one = {"be": "is", "have": "has", "do": "does"}.get(verb, f"{verb}s")
    return one if number == 1 else {"be": "are"}.get(verb, verb)


# --- choosing ---


def hold_out(
    contents: Iterable[bytes],
    labels: Sequence[Collection[str]],
    fraction: float,
    seed: int,
    slack: float = _SLACK,
) -> set[int]:
    """The indices of the items to hold out.

    Items of equal content form a group and stay together. A group is counted under its rarest
    label, and is held out only if each of its labels remains in training.
    """
    groups: dict[bytes, list[int]] = {}  # by hash, in whose order they are chosen
    for index, content in enumerate(contents):
        key = hashlib.sha256(f"{seed}:".encode() + content).digest()
        groups.setdefault(key, []).append(index)
    borne = {
        key: {label for index in members for label in labels[index]} or {""}  # "": no label
        for key, members in groups.items()
    }
    left = Counter(label for each in borne.values() for label in each)
    strata: dict[str, list[bytes]] = {}
    for key in sorted(groups):
        rarest = min(borne[key], key=lambda label: (left[label], label))
        strata.setdefault(rarest, []).append(key)

    chosen: set[int] = set()
    for label in sorted(strata):
        sizes = {key: len(groups[key]) for key in strata[label]}
        enough = max(1, round(fraction * sum(sizes.values())))
        fitting = [key for key in sizes if sizes[key] <= slack * enough]
        size = 0
        for key in fitting or sorted(sizes, key=lambda key: sizes[key]):
            fits = not fitting or size + sizes[key] <= slack * enough
            if size < enough and fits and all(left[each] > 1 for each in borne[key]):
                left.subtract(borne[key])
                chosen.update(groups[key])
                size += sizes[key]
    return chosen
