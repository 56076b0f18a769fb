"""Split what was read into training and validation: no content in both, and every label in both.

    item                 key                answer
    "Fine film."  pos    8131…              0
    "fine  film." pos    8131…              0       the same up to case and blanks: the same key
    "Awful."      neg    4427…              1

    items  →  groups of equal keys  →  the rarest label of each  →  a random tenth of each label

The random order of the groups is that of their keys. Neither the order of the files nor additional
items of other labels change the side on which an item lands, as long as the fraction is the same.
All of it is done on arrays, a few bytes for each item: there may be ten million. The items
themselves may be in a list on disk.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from glassformer.data.labels import LabelledItem, as_number, in_order, listed, listed_with_counts
from glassformer.data.rows import Array, DiskList, Mask
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import SIZE, has_single_blanks, pieces_of
from glassformer.wording import counted

T = TypeVar("T", bound=LabelledItem)
Indices = npt.NDArray[Any]  # of items or groups, in as few bytes as possible
Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]
Answer = tuple[str, ...]

SLACK = 1.5  # a group of equal items may exceed the wanted size by this factor
USUAL, LARGEST = 0.1, 1 / 3  # fractions
ENOUGH = 20  # texts to calibrate probabilities and to tell one model from another
MANY_ANSWERS = 100  # this many different real numbers are not classes, even if they repeat
_KEYS_AT_ONCE = 2**20  # that are looked up together


def fraction_of(num_texts: int) -> float:
    """The fraction of labelled texts to hold out: a tenth, or more if that would be too few to
    judge a model by. With few texts, even a third of them
    would have taught little."""
    return max(USUAL, min(LARGEST, ENOUGH / max(1, num_texts)))


# --- which groups of equal items to hold out ---


@dataclass(frozen=True)
class Groups:
    """Items by their key: those of group g are order[starts[g] : starts[g] + sizes[g]]."""

    order: Indices
    starts: Indices
    sizes: Indices

    @classmethod
    def of(cls, keys: Keys) -> "Groups":
        small: Any = np.int32 if len(keys) < 2**31 else np.int64
        order = np.argsort(keys).astype(small)
        is_first = np.ones(len(keys), dtype=bool)
        sorted_keys = keys[order]
        np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=is_first[1:])
        del sorted_keys  # memory is scarce here
        starts = np.flatnonzero(is_first).astype(small)
        return cls(order, starts, np.diff(starts, append=small(len(keys))))

    def __len__(self) -> int:
        return len(self.starts)

    def members(self, group: int) -> Indices:
        first = self.starts[group]
        return self.order[first : first + self.sizes[group]]

    def mask(self, groups: Iterable[int]) -> Mask:
        """Whether each item is in one of these groups."""
        is_in = np.zeros(len(self.order), dtype=bool)
        for group in groups:
            is_in[self.members(group)] = True
        return is_in

    @property
    def several(self) -> Indices:
        """The items that are not alone in their group, in ascending order."""
        return np.sort(self.order[np.repeat(self.sizes > 1, self.sizes)])


def choose(
    groups: Indices,
    sizes: Array,
    enough: float,
    most: float,
    can_go: Callable[[int], bool] = lambda group: True,
) -> Iterator[int]:
    """Groups in the order given, which is random, until their sizes add up to `enough`; those that
    would lead beyond `most` are skipped. If each of them would, the smallest come first."""
    fitting = groups[sizes[groups] <= most]
    if not len(fitting):
        fitting, most = groups[np.argsort(sizes[groups], kind="stable")], np.inf
    total = 0
    for group in fitting:
        if total >= enough:
            break
        if total + int(sizes[group]) <= most and can_go(group):
            total += int(sizes[group])
            yield int(group)


def hold_out(
    groups: Groups,
    answers: Codes,
    kinds: Sequence[Sequence[str]],
    fraction: float,
    slack: float = SLACK,
) -> Mask:
    """Whether each item is held out; `kinds` are the labels of each answer.

    A group is counted under its rarest label, and is held out only if each of its labels remains
    in training.
    """
    if not len(answers):
        return np.zeros(0, dtype=bool)
    # An item without labels is counted under "".
    names = sorted({label for kind in kinds for label in kind or ("",)})
    code = {name: index for index, name in enumerate(names)}
    labels = [sorted({code[label] for label in kind or ("",)}) for kind in kinds]
    left = _num_groups_with(groups, answers, labels, len(names))
    rank = np.empty(len(names), dtype=np.int32)  # by rarity, then by name
    rank[np.argsort(left, kind="stable")] = np.arange(len(names))
    rarest = np.array([min(rank[codes]) for codes in labels], dtype=np.int32)
    ranks = np.minimum.reduceat(rarest[answers[groups.order]], groups.starts)
    stratum = np.argsort(rank).astype(np.int32)[ranks]  # (groups,)
    del ranks
    edges = np.cumsum(np.bincount(stratum, minlength=len(names)))[:-1]
    by_stratum = np.argsort(stratum, kind="stable")
    del stratum

    def labels_of(group: int) -> list[int]:
        numbers = answers[groups.members(group)].tolist()
        return list({label for answer in numbers for label in labels[answer]})

    def can_go(group: int) -> bool:
        return all(left[label] > 1 for label in labels_of(group))

    selection: list[int] = []
    for candidates in np.split(by_stratum, edges):
        enough = max(1, round(fraction * int(groups.sizes[candidates].sum())))
        for group in choose(candidates, groups.sizes, enough, slack * enough, can_go):
            left[labels_of(group)] -= 1
            selection.append(group)
    return groups.mask(selection)


def _num_groups_with(
    groups: Groups, answers: Codes, labels: Sequence[Sequence[int]], num_labels: int
) -> npt.NDArray[np.int64]:
    """(labels,) the number of groups that have an item with each label."""
    num_alone = np.bincount(
        answers[groups.order[groups.starts[groups.sizes == 1]]], minlength=len(labels)
    )
    left = np.zeros(num_labels, dtype=np.int64)
    for count, labels_of_answer in zip(num_alone.tolist(), labels, strict=True):
        left[labels_of_answer] += count
    is_together = groups.sizes > 1
    group = np.repeat(np.arange(is_together.sum()), groups.sizes[is_together])
    rows = groups.order[np.repeat(is_together, groups.sizes)]
    pairs = np.unique(group * len(labels) + answers[rows])  # of groups and answers
    counts = np.array([len(codes) for codes in labels])[pairs % len(labels)]
    flat = np.concatenate([labels[kind] for kind in (pairs % len(labels)).tolist()] or [[]])
    both = np.repeat(pairs // len(labels), counts) * num_labels + flat.astype(np.int64)
    return left + np.bincount(np.unique(both) % num_labels, minlength=num_labels)


# --- items, and the numbers by which they are split ---


class Items(Generic[T]):
    """Items of one kind, the files they were read from, and how messages name them."""

    def __init__(
        self,
        paths: Sequence[str],
        what: str,
        seed: int = 0,
        store: "list[T] | DiskList[T] | None" = None,
        body: str | None = None,
        is_per_word: bool = False,
    ) -> None:
        self.where = ", ".join(paths)
        self.what = what
        """One item: "example", "sentence", "sequence" or "image"."""
        self.body = body or what
        """The part that is equal in two items of equal content, such as "text"."""
        self.is_per_word = is_per_word
        """Each word has a label, so an item with one unknown label can still be scored."""
        self.stored: list[T] | DiskList[T] = [] if store is None else store
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
        self.stored.append(item)

    def extend(self, items: Iterable[T]) -> None:
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def keys(self) -> Keys:
        """(N,) equal for items that must be on the same side of a split."""
        return np.asarray(self._keys)

    @property
    def contents(self) -> npt.NDArray[np.int64]:
        """(N,) equal for items of exactly equal content."""
        return np.asarray(self._contents)

    @property
    def answers(self) -> Codes:
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
        for kind, count in zip(self._numbers, np.bincount(answers).tolist(), strict=False):
            if count:
                counts.update({label: count * kind.count(label) for label in kind})
        return counts

    def take(self, is_taken: Mask) -> Sequence[T]:
        """The items for which an array of booleans is true."""
        indices = np.flatnonzero(is_taken)
        if isinstance(self.stored, DiskList):
            return self.stored.take(indices)
        return [self.stored[index] for index in indices]

    def first(self, is_wanted: Mask) -> T:
        return self.stored[int(np.argmax(is_wanted))]

    def of_kinds(self, numbers: Sequence[int]) -> Mask:
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
    real = [code for code, value in enumerate(values) if not value.is_integer()]
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


# --- the split ---


@dataclass(frozen=True, slots=True)
class LabelledSplit(Generic[T]):
    """Disjoint training and validation parts, test data, and the labels to learn."""

    training: Sequence[T]
    validation: Sequence[T]
    held_out: str
    """A description of the validation data."""
    notes: list[str]
    test: Sequence[T] = ()
    labels: tuple[str, ...] = ()
    """The labels of the training part, in order: 2 before 10."""
    is_multi_label: bool = False
    text_column: tuple[str, ...] = ()
    """The columns of the text, or the features of a time series; empty without a table."""
    label_column: str | None = None
    columns: list[str] = field(default_factory=list)
    """Descriptions of how the columns of tables are used."""


def split_labelled(
    training: Items[T], validation: Items[T], test: Items[T], fraction: float
) -> LabelledSplit[T]:
    """Hold out a fraction of the training data, unless there is separate validation data. Items
    without any labels, such as images to paint, are one stratum. The notes count repetitions,
    contradictions and leaks."""
    learned, seen = training.labels, [training.keys]  # every label remains in training
    if len(validation):
        is_usable = _can_be_scored(validation, training, "validation")
        if validation.is_per_word:  # the other words of a sentence can be scored
            is_usable = np.ones(len(validation), dtype=bool)
        parts = _separate(training, validation, is_usable)
        seen.append(validation.keys[is_usable])
    else:
        parts = _stratified(training, fraction)
    if len(test):
        _can_be_scored(test, training, "test")
    notes = [*parts.notes, *_never_learned(learned, test, "test")]
    where = "training or validation, so the test score is too optimistic"
    notes += leaks(test.keys, test.what, "test", seen, where)
    return replace(parts, notes=notes, test=test.stored, labels=in_order(learned))


def _can_be_scored(items: Items[T], training: Items[T], part: str) -> Mask:
    """Whether each item has only known labels (a tagged sentence: one). Raises if none has."""
    learned = training.labels
    codes = [
        code
        for code, answer in enumerate(items.kinds)
        if learned.issuperset(answer) or (items.is_per_word and not learned.isdisjoint(answer))
    ]
    if not codes:
        raise GlassformerError(
            f"{items.where} has no label in common with {training.where}. "
            f"Provide training and {part} data with the same labels."
        )
    return items.of_kinds(codes)


def _stratified(items: Items[T], fraction: float) -> LabelledSplit[T]:
    """Hold out about `fraction` of every label, at least one item if it can be spared."""
    groups = Groups.of(items.keys)
    is_held_out = hold_out(groups, items.answers, items.kinds, fraction)
    count, has_labels = int(is_held_out.sum()), bool(items.labels)
    if not count:
        problem = f": no label has two different {items.what}s, so none can be held out for "
        if not has_labels:
            problem = f" has no two different {items.what}s, so none can be held out for "
        raise GlassformerError(
            f"{items.where}{problem}validation. Provide more {items.what}s, or separate validation "
            "data (--validation-data)."
        )
    notes: list[str] = []
    if has_labels:
        notes += [*_repetitions(items, groups), *_contradictions(items, groups)]
    if alone := items.labels - {*items.count_labels(is_held_out)}:
        notes.append(
            f"{_counted(len(alone), 'label', 'have')} too few {items.what}s to hold one out and "
            f"{verb(len(alone), 'be')} used only for training: {listed(alone)}"
        )
    of_what = " of every label" if has_labels else ""
    return LabelledSplit(
        training=items.take(~is_held_out),
        validation=items.take(is_held_out),
        held_out=f"{count:,} of {counted(len(items), items.what)}, a random sample{of_what}",
        notes=notes,
    )


def _separate(training: Items[T], validation: Items[T], is_usable: Mask) -> LabelledSplit[T]:
    """Use separate validation data, without the items that cannot be scored."""
    learned, notes = training.labels, list[str]()
    if validation.is_per_word:
        notes += _never_learned(learned, validation, "validation")
    elif count := int((~is_usable).sum()):
        notes.append(
            f"left out: {counted(count, validation.what)} in the validation data with labels that "
            f"do not occur in training: {listed_with_counts(_unknown(learned, validation))}"
        )
    notes += _contradictions(training, Groups.of(training.keys))
    keys = validation.keys[is_usable]
    notes += leaks(keys, validation.what, "validation", [training.keys], "training")
    of_all = f"all of {validation.where}"
    return LabelledSplit(training.stored, validation.take(is_usable), of_all, notes)


# --- notes: each function yields at most one of a kind ---


def _never_learned(learned: set[str], items: Items[T], part: str) -> Iterator[str]:
    """Labels that cannot be learned. Their items stay, because the score must count them."""
    if unknown := _unknown(learned, items):
        yield (
            f"{counted(len(unknown), 'label')} in the {part} data {verb(len(unknown), 'do')} not "
            f"occur in training and will count as wrong: {listed_with_counts(unknown)}"
        )


def _unknown(learned: set[str], items: Items[T]) -> Counter[str]:
    counts = items.count_labels()
    return Counter({label: counts[label] for label in counts if label not in learned})


def _repetitions(items: Items[T], groups: Groups) -> Iterator[str]:
    """Equal items, and items that differ only in case, whitespace or Unicode normalization."""
    rows = groups.several
    contents = items.contents[rows]
    # The hash of a content times an odd number, plus the answer, is a hash of both.
    both = contents * np.int64(0x9E3779B97F4A7C15 >> 1 | 1) + items.answers[rows]
    if count := len(rows) - len(np.unique(both)):
        yield (
            f"{_counted(count, items.what, 'repeat')} another exactly; equal {items.what}s stay "
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
    if count := len(np.unique(of[is_other])):
        yield (
            f"{_counted(count, items.body, 'occur')} more than once with different labels "
            f"(first: {items.stored[int(rows[np.argmax(is_other)])].source}); all are kept, on the "
            "same side of the split, but no model can get all of them right"
        )


def leaks(keys: Keys, what: str, part: str, seen: Sequence[Keys], where: str) -> Iterator[str]:
    """Items that leak from one part into another. They are kept as given."""
    unique, counts = np.unique(keys, return_counts=True)
    is_repeated = np.zeros(len(unique), dtype=bool)
    for others in seen if len(keys) else ():  # they may be many more: they are not sorted
        for block in np.array_split(others, len(others) // _KEYS_AT_ONCE + 1):
            positions = np.minimum(np.searchsorted(unique, block), len(unique) - 1)
            is_repeated[positions[unique[positions] == block]] = True
    if both := int(counts[is_repeated].sum()):
        yield f"{counted(both, what)} in the {part} data also {verb(both, 'occur')} in {where}"


def _counted(count: int, what: str, infinitive: str) -> str:
    return f"{counted(count, what)} {verb(count, infinitive)}"


def verb(count: int, infinitive: str) -> str:
    one = {"be": "is", "have": "has", "do": "does"}.get(infinitive, f"{infinitive}s")
    return one if count == 1 else {"be": "are"}.get(infinitive, infinitive)


# --- keys: when two texts are the same ---
# They may differ in case, in blanks, and in how Unicode spells a character. Equal texts must not be
# in two parts of a split.


def normalised(text: str) -> str:
    """A text without the differences that do not count."""
    folded = _folded(text)
    return folded if has_single_blanks(folded) else " ".join(folded.split())


def content_key(*parts: str, seed: int = 0) -> int:
    """64 bits that are equal for equal texts, and otherwise random; other ones for other seeds.

    Among ten million different texts, two have the same key with a probability of 0.0003%.
    """
    content = normalised(parts[0]) if len(parts) == 1 else "\0".join(map(normalised, parts))
    return bytes_key(content.encode("utf-8", "surrogatepass"), seed)


def bytes_key(content: bytes, seed: int) -> int:
    """A key of bytes, each of which counts."""
    digest = _digest(seed).copy()
    digest.update(content)
    return int.from_bytes(digest.digest(), "little")


def long_content_key(parts: Iterable[str], seed: int = 0) -> int:
    """`content_key` of one text of any length, which comes in parts that are cut anywhere.

    Only a text that must be cut where it has no blanks may get another key than its twin: if one of
    them has blanks elsewhere, and a character in several code points is at the cut.
    """
    if isinstance(parts, tuple) and len(parts) == 1 and len(parts[0]) <= SIZE:
        return content_key(parts[0], seed=seed)
    digest = _digest(seed).copy()
    has_words = ends_blank = False
    for piece in pieces_of(parts):
        folded = _folded(piece)
        words = " ".join(folded.split())
        if words:
            is_apart = has_words and (ends_blank or folded[0].isspace())
            digest.update((" " * is_apart + words).encode("utf-8", "surrogatepass"))
            has_words, ends_blank = True, folded[-1].isspace()
        ends_blank = ends_blank or not words
    return int.from_bytes(digest.digest(), "little")


def among(keys: Array, known_keys: Array) -> Array:
    """Which keys are among the known ones. Needs less memory than numpy's isin."""
    known_keys = np.sort(known_keys)
    positions = np.searchsorted(known_keys, keys)
    positions[positions == len(known_keys)] = 0
    return np.asarray(known_keys[positions] == keys)


@lru_cache
def _digest(seed: int) -> hashlib.blake2b:
    """The digest of nothing yet. A copy of it is made faster than a new one."""
    return hashlib.blake2b(digest_size=8, salt=seed.to_bytes(8, "little"))


def _folded(text: str) -> str:
    if text.isascii():
        return text.casefold()
    composed = normalize("NFKC", text)
    folded = composed.casefold()
    # Again, because folding may take a character apart: ΐ becomes ι and two accents.
    return folded if folded == composed else normalize("NFKC", folded)
