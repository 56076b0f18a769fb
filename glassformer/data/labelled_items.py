"""Labelled items as they are read: the items in a list, which may be on disk, and beside it the
numbers by which they are split.

    item                 key                answer
    "Fine film."  pos    8131…              0
    "fine  film." pos    8131…              0       the same up to case and blanks: the same key
    "Awful."      neg    4427…              1
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from glassformer.data.disk_list import DiskList
from glassformer.data.labels import LabelledItem, as_number
from glassformer.errors import GlassformerError

T = TypeVar("T", bound=LabelledItem)
Array = npt.NDArray[Any]
Answer = tuple[str, ...]

MANY_ANSWERS = 100  # this many different real numbers are not classes, even if they repeat


class Items(Generic[T]):
    """Labelled items of one kind, the files they were read from, and how messages name them."""

    def __init__(
        self,
        paths: Sequence[str],
        what: str,
        body: str,
        store: list[T] | DiskList[T],
        seed: int = 0,
        is_per_word: bool = False,
    ) -> None:
        self.where = ", ".join(paths)
        self.what = what
        """One item: "example", "sentence" or "sequence"."""
        self.body = body
        """What is equal in two items of equal content: "text", "sentence" or "sequence"."""
        self.is_per_word = is_per_word
        """Each word has a label, so an item with one unknown label can still be scored."""
        self.found = store
        self._seed = seed
        self._keys, self._contents, self._answers = array("Q"), array("q"), array("i")
        self._numbers: dict[Answer, int] = {}

    def append(self, item: T) -> None:
        answer = item.labels
        if len(answer) > 1 and not self.is_per_word:  # else their order matters
            answer = tuple(sorted(answer))
        self._answers.append(self._numbers.setdefault(answer, len(self._numbers)))
        self._keys.append(item.key(self._seed))
        self._contents.append(hash(item.content))
        self.found.append(item)

    def extend(self, items: Iterable[T]) -> None:
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """(N,) equal for items that must be on the same side of a split."""
        return np.asarray(self._keys)

    @property
    def contents(self) -> npt.NDArray[np.int64]:
        """(N,) equal for items of exactly equal content."""
        return np.asarray(self._contents)

    @property
    def answers(self) -> npt.NDArray[np.int32]:
        """(N,) what is to be predicted, as a number in `kinds`."""
        return np.asarray(self._answers)

    @property
    def kinds(self) -> list[Answer]:
        """The different answers."""
        return list(self._numbers)

    @property
    def labels(self) -> set[str]:
        return {label for answer in self._numbers for label in answer}

    def count_labels(self, is_counted: Array | None = None) -> Counter[str]:
        """How often each label occurs, in all items or in some."""
        answers = self.answers if is_counted is None else self.answers[is_counted]
        counts: Counter[str] = Counter()
        for kind, number in zip(self._numbers, np.bincount(answers).tolist(), strict=False):
            if number:
                counts.update({label: number * kind.count(label) for label in kind})
        return counts

    def taken(self, is_taken: Array) -> Sequence[T]:
        """The items for which an array of booleans is true."""
        numbers = np.flatnonzero(is_taken)
        if isinstance(self.found, DiskList):
            return self.found.taken(numbers)
        return [self.found[number] for number in numbers]

    def first(self, is_wanted: Array) -> T:
        return self.found[int(np.argmax(is_wanted))]

    def of_kinds(self, numbers: Sequence[int]) -> Array:
        """(N,) whether an item has one of these answers."""
        is_wanted = np.zeros(len(self._numbers), dtype=bool)
        is_wanted[list(numbers)] = True
        return is_wanted[self.answers]


def check_kinds(items: Items[Any]) -> None:
    """Check that there are at least two labels, or combinations of labels, to tell apart."""
    if len(items.kinds) < 2:
        only = ", ".join(next(iter(items.kinds), ())) or "none"
        raise GlassformerError(
            f'{items.where} has only the label "{only}". Provide examples of at least two labels.'
        )


def check_classes(items: Items[Any]) -> None:
    """Refuse continuous values: labels that are real numbers and hardly ever repeat."""
    kinds = items.kinds
    numbers = [as_number(label) for (label,) in kinds]
    if None in numbers:
        return
    values = [float(number or 0) for number in numbers]
    real = [code for code, number in enumerate(values) if not number.is_integer()]
    # Whole numbers may be the numbers of classes, unless most between them are missing.
    is_sparse = len(kinds) >= MANY_ANSWERS and max(values) - min(values) > 2 * len(kinds)
    is_real = real and (2 * len(kinds) > len(items) or len(kinds) >= MANY_ANSWERS)
    if is_real or is_sparse:
        first = items.first(items.of_kinds(real or [0]))
        raise GlassformerError(
            f"{first.source}: the label {first.labels[0]} is one of {len(kinds):,} different "
            "numbers. Continuous values cannot be classes: group them (low, high), or pass another "
            "--label-column."
        )
