"""Labels: the columns that hold them, their names, their order, and whether they can be learned.

A label is a string, whatever its type in the file. A number and its spelling have the same name:

    1, 1.0, "1", "1.0"            →  1        an integer, also if it is written with ".0"
    true, "true", "True", "TRUE"  →  true     and likewise false
    "01", "1.10", "1.1", "1e0"    →  as they are: ids and versions are not numbers
"""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, Protocol

from glassformer.data.text_files import nul_at
from glassformer.errors import GlassformerError
from glassformer.wording import shortened

LABEL_COLUMNS = (
    "label", "labels", "class", "classes", "category", "categories", "sentiment", "target",
    "intent", "topic", "topics", "stars", "rating", "y", "tag", "tags", "emotion", "polarity",
)  # fmt: skip
SEPARATORS = (";", "|", ",")  # that may join several labels in a cell
SHOWN = 40  # characters of a name in a message
_BOOLEANS = ("true", "True", "TRUE", "false", "False", "FALSE")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)\.0")  # 1.0, but not 01.0 or 1.00


class Labelled(Protocol):
    """Something with labels."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def source(self) -> str:
        """The file and line that it was read from: "path:line"."""


class LabelledItem(Labelled, Protocol):
    """A text, a sentence or a time series with its labels."""

    @property
    def content(self) -> Hashable:
        """The labelled text, words or values."""

    def key(self, seed: int) -> int:
        """64 random bits, the same for equal content (of texts, up to case, blanks and Unicode
        spelling): items with equal keys never land in two parts of a split."""


def one_name(label: str) -> str:
    """The name of a label that may be spelled in several ways."""
    if label in _BOOLEANS:
        return label.lower()
    if label.endswith(".0") and _WHOLE.fullmatch(label):
        return "0" if label == "-0.0" else label[:-2]
    return label


def spelled_as(labels: Iterable[str]) -> dict[str, str]:
    """A model's labels by their names in data: a model may call "1.0" what is read as "1"."""
    spellings = list(labels)
    return {one_name(label): label for label in spellings} | {label: label for label in spellings}


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
    return one_name(name)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: numbers by size, 2 before 10, then words in alphabetical order."""
    return tuple(sorted(set(labels), key=_rank))


def targets_of(
    examples: Sequence[Labelled], labels: Sequence[str], is_multi_label: bool
) -> list[Any]:
    """The number of each example's label; with several labels, a 0 or 1 for every label."""
    index = {label: at for at, label in enumerate(labels)}
    code = {name: index[label] for name, label in spelled_as(labels).items()}
    if unknown := {label for example in examples for label in example.labels} - code.keys():
        raise GlassformerError(
            f"{min(unknown)!r} is not one of the model's labels: {', '.join(labels)}."
        )
    if is_multi_label:
        codes = [{code[label] for label in example.labels} for example in examples]
        return [[int(at in example) for at in range(len(labels))] for example in codes]
    if several := next((example for example in examples if len(example.labels) != 1), None):
        raise GlassformerError(
            f"{several.source} has {len(several.labels)} labels, but the model predicts only one."
        )
    return [code[example.labels[0]] for example in examples]


def likely_separator(labels: Collection[str]) -> str | None:
    """What seems to join several labels in one: "a;b" beside "a" and "b;c". Most of the parts occur
    in other labels, too, unlike those of "Portland, OR" and "Salem, OR"."""
    for separator in SEPARATORS:
        parts = [{part.strip() for part in label.split(separator)} for label in labels]
        counts = Counter(part for split in parts for part in split)
        of_several = {part for split in parts if len(split) > 1 for part in split}
        if 2 * sum(counts[part] > 1 for part in of_several) > len(of_several):
            return separator
    return None


def listed(labels: Iterable[str], most: int = 10) -> str:
    return brief(in_order(labels), most)


def listed_with_counts(counts: Counter[str], most: int = 10) -> str:
    """odd (12), rare (1)"""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], _rank(item[0])))
    return brief([f"{label} ({count:,})" for label, count in ranked], most)


def brief(names: Sequence[str], most: int = 20) -> str:
    """a, b, and 7 more"""
    more = [f"and {len(names) - most:,} more"] if len(names) > most else []
    return ", ".join([*(shortened(name, SHOWN) for name in names[:most]), *more])


def _rank(label: str) -> tuple[bool, float, str]:
    number = as_number(label)
    return (True, 0.0, label) if number is None else (False, number, label)


def as_number(value: Any) -> float | None:
    """A finite number, or None."""
    with suppress(TypeError, ValueError, OverflowError):
        return number if isfinite(number := float(value)) else None
    return None
