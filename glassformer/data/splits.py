"""Labelled items in two parts: every label in both, and no text in both.

    items  →  groups of equal content  →  by lot, about a tenth of each label  →  validation

The lot of an item is drawn from its content and the seed alone, so that neither the order of the
files nor more examples of other labels change the side on which it lands.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Generic, TypeVar

from glassformer.errors import GlassformerError
from glassformer.wording import counted

T = TypeVar("T")
_SLACK = 1.5  # a group of equal items may exceed what is wanted by this much


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """Items of one kind, and how to see what a split must know of them."""

    found: Sequence[T]
    content: Callable[[T], bytes]
    """What makes two items the same: equal content never lands on both sides."""
    labels: Callable[[T], Collection[str]]
    answer: Callable[[T], Hashable]
    """What is to be said of an item: equal content should have equal answers."""
    source: Callable[[T], str]
    what: str
    """In words: "example" or "sentence"."""
    body: str
    """What is equal in two items of equal content: "text" or "sentence"."""
    where: str
    """The files they are from, for errors."""


@dataclass(frozen=True, slots=True)
class Parts(Generic[T]):
    """Two disjoint parts, what was held out in words, and what is worth a remark."""

    training: list[T]
    validation: list[T]
    held_out: str
    notes: list[str]


def stratified(items: Items[T], fraction: float, seed: int) -> Parts[T]:
    """Hold out about `fraction` of every label, at least one item where it can be spared."""
    found = items.found
    labels = [items.labels(item) for item in found]
    contents = [items.content(item) for item in found]
    chosen = hold_out(contents, labels, fraction, seed)
    if not chosen:
        raise GlassformerError(
            f"{items.where}: no label has two different {items.what}s, so that none can be held "
            f"out for validation. Give more {items.what}s, or some for validation alone "
            "(--validation-data)."
        )
    notes = []
    if repeated := len(found) - len(set(zip(contents, map(items.answer, found), strict=True))):
        notes.append(
            f"{counted(repeated, items.what)} {_verb(repeated, 'repeat')} another exactly, on the "
            "same side of the split as it"
        )
    notes += contradictions(items)
    validated = {label for index in chosen for label in labels[index]}
    if alone := {label for each in labels for label in each} - validated:
        notes.append(
            f"{counted(len(alone), 'label')} {_verb(len(alone), 'have')} too few {items.what}s to "
            f"hold one out and {_verb(len(alone), 'be')} only trained on: {listed(alone)}"
        )
    return Parts(
        training=[item for index, item in enumerate(found) if index not in chosen],
        validation=[item for index, item in enumerate(found) if index in chosen],
        held_out=f"{len(chosen):,} of {len(found):,} {items.what}s, by lot from every label",
        notes=notes,
    )


def separate(training: Items[T], validation: Items[T]) -> Parts[T]:
    """Two parts that came apart. What cannot be validated, for want of its label, is left out."""
    known = {label for item in training.found for label in training.labels(item)}
    kept = [item for item in validation.found if known.issuperset(validation.labels(item))]
    if not kept:
        raise no_label_in_common(training, validation, "validation")
    notes = []
    if left_out := len(validation.found) - len(kept):
        unknown = Counter(
            label
            for item in validation.found
            for label in validation.labels(item)
            if label not in known
        )
        notes.append(
            f"{counted(left_out, validation.what)} of validation {_verb(left_out, 'be')} left out, "
            f"since training has no such label: {listed_with_counts(unknown)}"
        )
    notes += contradictions(training) + seen_in_both(training, validation)
    return Parts(list(training.found), kept, f"all of {validation.where}", notes)


def contradictions(items: Items[T]) -> list[str]:
    """A remark on equal content with different answers. All of it stays, as given."""
    answers: dict[bytes, Hashable] = {}
    others: dict[bytes, str] = {}  # where content first has another answer than before
    for item in items.found:
        content, answer = items.content(item), items.answer(item)
        if answers.setdefault(content, answer) != answer:
            others.setdefault(content, items.source(item))
    if not others:
        return []
    first, number = next(iter(others.values())), len(others)
    return [
        f"{counted(number, items.body)} {_verb(number, 'stand')} more than once with different "
        f"labels (first: {first}): all are kept, on the same side of the split, and no model can "
        "be right on all of them"
    ]


def no_label_in_common(training: Items[T], other: Items[T], part: str) -> GlassformerError:
    return GlassformerError(
        f"{other.where} has no label that {training.where} has. "
        f"Give training and {part} the same labels."
    )


def seen_before(parts: Parts[T], test: Items[T]) -> list[str]:
    """A remark on test data that was trained on, or that the model was chosen by."""
    seen = {test.content(item) for item in (*parts.training, *parts.validation)}
    both = sum(test.content(item) in seen for item in test.found)
    if not both:
        return []
    return [
        f"{counted(both, test.what)} of the test {_verb(both, 'be')} also in training or "
        "validation, so that the test flatters the model"
    ]


def never_learned(parts: Parts[T], test: Items[T]) -> list[str]:
    """A remark on labels of the test that cannot be learned; they stay in, for the score must count
    them."""
    known = {label for item in parts.training for label in test.labels(item)}
    unknown = Counter(
        label for item in test.found for label in test.labels(item) if label not in known
    )
    if not unknown:
        return []
    return [
        f"training lacks {counted(len(unknown), 'label')} of the test, so that these will count as "
        f"wrong: {listed_with_counts(unknown)}"
    ]


def seen_in_both(training: Items[T], validation: Items[T]) -> list[str]:
    """A remark on files of validation that repeat what is trained on; they are left as given."""
    trained = {training.content(item) for item in training.found}
    both = sum(validation.content(item) in trained for item in validation.found)
    if not both:
        return []
    return [f"{counted(both, validation.what)} of validation {_verb(both, 'be')} also in training"]


def hold_out(
    contents: Iterable[bytes],
    labels: Sequence[Collection[str]],
    fraction: float,
    seed: int,
    slack: float = _SLACK,
) -> set[int]:
    """The numbers of the items to validate on.

    Items of equal content stay together. A group belongs to the rarest of its labels, and is only
    held out if each of its labels stays in training too.
    """
    groups: dict[bytes, list[int]] = {}  # by lot, which tells equal content as well
    for index, content in enumerate(contents):
        lot = hashlib.sha256(f"{seed}:".encode() + content).digest()
        groups.setdefault(lot, []).append(index)
    borne = {
        lot: {label for index in members for label in labels[index]} or {""}  # "": without a label
        for lot, members in groups.items()
    }
    left = Counter(label for each in borne.values() for label in each)
    strata: dict[str, list[bytes]] = {}
    for lot in sorted(groups):
        rarest = min(borne[lot], key=lambda label: (left[label], label))
        strata.setdefault(rarest, []).append(lot)

    chosen: set[int] = set()
    for label in sorted(strata):
        sizes = {lot: len(groups[lot]) for lot in strata[label]}
        enough = max(1, round(fraction * sum(sizes.values())))
        fitting = [lot for lot in sizes if sizes[lot] <= slack * enough]
        size = 0
        for lot in fitting or sorted(sizes, key=lambda lot: sizes[lot]):
            fits = not fitting or size + sizes[lot] <= slack * enough
            if size < enough and fits and all(left[each] > 1 for each in borne[lot]):
                left.subtract(borne[lot])
                chosen.update(groups[lot])
                size += sizes[lot]
    return chosen


# --- labels in words ---


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: numbers by their size, 2 before 10, then words by the alphabet."""
    return tuple(sorted(set(labels), key=_rank))


def listed(labels: Iterable[str], most: int = 10) -> str:
    names = in_order(labels)
    return ", ".join([*names[:most], *([f"and {len(names) - most} more"] if names[most:] else [])])


def listed_with_counts(counts: Counter[str], most: int = 10) -> str:
    """odd (12), rare (1)"""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], _rank(item[0])))
    more = [f"and {len(ranked) - most} more"] if ranked[most:] else []
    return ", ".join([*(f"{label} ({count:,})" for label, count in ranked[:most]), *more])


def _rank(label: str) -> tuple[bool, float, str]:
    try:
        size = float(label)
    except ValueError:
        return (True, 0.0, label)
    return (False, size, label) if isfinite(size) else (True, 0.0, label)


def _verb(number: int, verb: str) -> str:
    one, many = {"be": ("is", "are"), "have": ("has", "have")}.get(verb, (f"{verb}s", verb))
    return one if number == 1 else many
