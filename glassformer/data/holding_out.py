"""Which items to hold out: about a fraction of every label, no content on both sides.

    items  →  groups of equal keys  →  the rarest label of each  →  a random tenth of each label

The random order of the groups is that of their keys. Neither the order of the files nor additional
items of other labels change the side on which an item lands, as long as the fraction is the same.
All of it is done on arrays: there may be ten million items.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[Any]  # of items or groups, in as few bytes as possible
Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

SLACK = 1.5  # a group of equal items may exceed the wanted size by this factor
USUAL, LARGEST = 0.1, 1 / 3  # fractions
ENOUGH = 20  # texts to calibrate probabilities and to tell one model from another


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

    @property
    def several(self) -> Indices:
        """The items that are not alone in their group, in ascending order."""
        return np.sort(self.order[np.repeat(self.sizes > 1, self.sizes)])


def fraction_of(num_texts: int) -> float:
    """The fraction of labelled texts to hold out: a tenth, or more if that would be too few to
    judge a model by. What a third of a few texts could have taught is little."""
    return max(USUAL, min(LARGEST, ENOUGH / max(1, num_texts)))


def held_out(
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
    chosen = np.zeros(len(answers), dtype=bool)
    if not len(answers):
        return chosen
    # An item without labels is counted under "".
    names = sorted({label for kind in kinds for label in kind or ("",)})
    number = {name: index for index, name in enumerate(names)}
    labels = [sorted({number[label] for label in kind or ("",)}) for kind in kinds]
    left = _num_groups_with(groups, answers, labels, len(names))
    rank = np.empty(len(names), dtype=np.int32)  # by rarity, then by name
    rank[np.argsort(left, kind="stable")] = np.arange(len(names))
    rarest = np.array([min(rank[each]) for each in labels], dtype=np.int32)
    ranks = np.minimum.reduceat(rarest[answers[groups.order]], groups.starts)
    stratum = np.argsort(rank).astype(np.int32)[ranks]  # (groups,)
    del ranks
    edges = np.cumsum(np.bincount(stratum, minlength=len(names)))[:-1]
    by_stratum = np.argsort(stratum, kind="stable")
    del stratum
    for candidates in np.split(by_stratum, edges):
        # Choose groups of one label, in random order, until `fraction` of its items is reached.
        sizes = groups.sizes[candidates]
        enough = max(1, round(fraction * int(sizes.sum())))
        some, most = candidates[sizes <= slack * enough], slack * enough
        if not len(some):
            some, most = candidates[np.argsort(sizes, kind="stable")], np.inf
        size = 0
        for group in some:
            if size >= enough:
                break
            first = groups.starts[group]
            members = groups.order[first : first + groups.sizes[group]]
            borne = {label for answer in answers[members].tolist() for label in labels[answer]}
            if size + len(members) <= most and all(left[label] > 1 for label in borne):
                left[list(borne)] -= 1
                chosen[members] = True
                size += len(members)
    return chosen


def _num_groups_with(
    groups: Groups, answers: Codes, labels: Sequence[Sequence[int]], num_labels: int
) -> Ints:
    """(labels,) the number of groups that have an item with each label."""
    num_alone = np.bincount(
        answers[groups.order[groups.starts[groups.sizes == 1]]], minlength=len(labels)
    )
    left = np.zeros(num_labels, dtype=np.int64)
    for number, each in zip(num_alone.tolist(), labels, strict=True):
        left[each] += number
    is_together = groups.sizes > 1
    group = np.repeat(np.arange(is_together.sum()), groups.sizes[is_together])
    rows = groups.order[np.repeat(is_together, groups.sizes)]
    pairs = np.unique(group * len(labels) + answers[rows])  # of groups and answers
    counts = np.array([len(each) for each in labels])[pairs % len(labels)]
    flat = np.concatenate([labels[kind] for kind in (pairs % len(labels)).tolist()] or [[]])
    both = np.repeat(pairs // len(labels), counts) * num_labels + flat.astype(np.int64)
    return left + np.bincount(np.unique(both) % num_labels, minlength=num_labels)
