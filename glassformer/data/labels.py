"""Labels: the columns that hold them, their names, their order, and whether they can be learned."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, Protocol

from glassformer.data.text_files import nul_at
from glassformer.errors import GlassformerError

LABEL_COLUMNS = (
    *("label", "labels", "class", "classes", "category", "categories", "sentiment", "target"),
    *("intent", "topic", "topics", "stars", "rating", "y", "tag", "tags", "emotion", "polarity"),
)
MANY_KINDS = 100  # this many different real numbers are not classes, even if they repeat


class LabelledItem(Protocol):
    """A text, a sentence or a time series with its labels."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def source(self) -> str:
        """Where it was read: "path:line"."""

    @property
    def content(self) -> bytes:
        """What makes two items the same: equal content never lands in two parts of a split."""


def label_name(value: Any, place: str, holder: str) -> str:
    """A label as a string. Errors name its `place` and its `holder`, such as a column."""
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case str() | int() | float():
            name = str(value).strip()
        case None:
            name = ""
        case _:
            raise GlassformerError(
                f"{place}: {holder} contains a value of type {type(value).__name__}, not a label. "
                "Pass another --label-column."
            )
    if not name or name.casefold() == "nan":  # what pandas writes for a missing value
        raise GlassformerError(f"{place}: no label in {holder}. Fill it in, or delete the row.")
    if "\0" in name:
        raise nul_at(place)
    return name


def check_kinds(items: Iterable[LabelledItem], where: str) -> None:
    """Check that there are at least two labels, or combinations of labels, to tell apart."""
    kinds = {item.labels for item in items}
    if len(kinds) < 2:
        only = ", ".join(next(iter(kinds), ())) or "none"
        raise GlassformerError(
            f'{where} has only the label "{only}". Provide examples of at least two labels.'
        )


def check_classes(items: Sequence[LabelledItem]) -> None:
    """Refuse continuous values: labels that are real numbers and hardly ever repeat."""
    found = [(item.labels[0], item.source) for item in items]
    kinds = {label: as_number(label) for label, _ in found}
    numbers = {label: number for label, number in kinds.items() if number is not None}
    if len(numbers) < len(kinds):
        return
    real = [(label, place) for label, place in found if not numbers[label].is_integer()]
    if real and (2 * len(kinds) > len(found) or len(kinds) >= MANY_KINDS):
        label, place = real[0]
        raise GlassformerError(
            f"{place}: the label {label} is one of {len(kinds):,} different numbers. Continuous "
            "values cannot be classes: group them (low, high), or pass another --label-column."
        )


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: numbers by size, 2 before 10, then words in alphabetical order."""
    return tuple(sorted(set(labels), key=_rank))


def listed(labels: Iterable[str], most: int = 10) -> str:
    return joined(in_order(labels), most)


def listed_with_counts(counts: Counter[str], most: int = 10) -> str:
    """odd (12), rare (1)"""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], _rank(item[0])))
    return joined([f"{label} ({count:,})" for label, count in ranked], most)


def joined(names: Sequence[str], most: int = 20) -> str:
    """a, b, and 7 more"""
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _rank(label: str) -> tuple[bool, float, str]:
    number = as_number(label)
    return (True, 0.0, label) if number is None else (False, number, label)


def as_number(value: Any) -> float | None:
    """A finite number, or None."""
    with suppress(TypeError, ValueError, OverflowError):
        return number if isfinite(number := float(value)) else None
    return None
