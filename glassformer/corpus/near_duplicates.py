"""Which texts are dropped because an earlier one is the same, or almost the same.

Texts are looked at in their order. A text is dropped if it equals an earlier one, or if its
similarity to an earlier one *that is kept* reaches the threshold. MinHash only proposes pairs; each
is decided by the exact similarity of the shingles. So a chain of small differences never drops a
text that resembles none of those that are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.corpus.fingerprints import Array, similarity
from glassformer.corpus.pages import INDEX_ROW, SHINGLE

KEPT_TEXT, EXACT, NEAR = 0, 1, 2
VERDICT_ROW = np.dtype([("verdict", "u1"), ("of", "<u8"), ("similarity", "<f8")])


@dataclass(frozen=True)
class DropDuplicates:
    """A step for datatrove, of one task: a verdict for each document."""

    pages: Path
    pairs: Path
    num_tasks: int
    threshold: float
    out: Path

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        indexes = [read_index(self.pages, task) for task in range(self.num_tasks)]
        verdicts = np.zeros(sum(map(len, indexes)), dtype=VERDICT_ROW)
        starts = np.cumsum([0, *map(len, indexes)])
        _drop_equal(verdicts, np.concatenate([each["digest"] for each in indexes]))
        stored = _Shingles(self.pages, indexes, starts)
        groups = [group for file in sorted(self.pairs.glob("*.dups")) for group in _groups(file)]
        joined = [starts[[task for task, _ in group]] + [at for _, at in group] for group in groups]
        drop_similar(verdicts, joined, stored, self.threshold)
        self.out.write_bytes(verdicts.tobytes())


def read_index(pages: Path, task: int) -> Array:
    """Where the documents of a task are."""
    return np.fromfile(pages / f"{task:05}.index", dtype=INDEX_ROW)


def _drop_equal(verdicts: Array, digests: Array) -> None:
    """Drop all documents with equal digests but the first."""
    if not len(digests):
        return
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # stable: the first stays first
    ordered = digests[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    repeated = order[~begins]
    verdicts["verdict"][repeated] = EXACT
    verdicts["of"][repeated] = first[~begins]
    verdicts["similarity"][repeated] = 1.0


def _groups(file: Path) -> Iterator[list[tuple[int, int]]]:
    """The documents that agree in a band. datatrove writes each with the one before it."""
    pairs = np.fromfile(file, dtype="<u4").reshape(-1, 4).tolist()
    if not pairs:
        return
    group = [tuple(pairs[0][:2]), tuple(pairs[0][2:])]
    for before, pair in pairwise(pairs):
        if pair[:2] != before[2:]:
            yield group
            group = [tuple(pair[:2])]
        group.append(tuple(pair[2:]))
    yield group


class _Shingles:
    """The shingles of documents by their number, read from disk when they are compared."""

    def __init__(self, pages: Path, indexes: list[Array], starts: Array) -> None:
        self._pages, self._indexes, self._starts = pages, indexes, starts
        self._files: dict[int, Array] = {}

    def __getitem__(self, number: int) -> Array:
        task = int(np.searchsorted(self._starts, number, side="right")) - 1
        if task not in self._files:
            path = self._pages / f"{task:05}.shingles"
            self._files[task] = np.memmap(path, dtype=SHINGLE, mode="r")
        row = self._indexes[task][number - self._starts[task]]
        first = int(row["first_shingle"])
        return np.asarray(self._files[task][first : first + int(row["num_shingles"])])


def drop_similar(verdicts: Array, groups: list[Array], stored: Any, threshold: float) -> None:
    """Go through the documents of groups in order; each is compared with those kept before it."""
    groups_of: dict[int, list[int]] = {}
    for group, members in enumerate(groups):
        for member in members.tolist():
            if verdicts["verdict"][member] == KEPT_TEXT:
                groups_of.setdefault(member, []).append(group)
    kept: list[list[int]] = [[] for _ in groups]
    for number in sorted(groups_of):
        candidates = {each for group in groups_of[number] for each in kept[group]}
        found = _most_similar(number, sorted(candidates), stored, threshold)
        if found is None:
            for group in groups_of[number]:
                kept[group].append(number)
        else:
            verdicts[number] = (NEAR, *found)


def _most_similar(
    number: int, candidates: list[int], stored: Any, threshold: float
) -> tuple[int, float] | None:
    best: tuple[int, float] | None = None
    own: Array = stored[number]
    for candidate in candidates:
        other = stored[candidate]
        if min(len(own), len(other)) < threshold * max(len(own), len(other)):
            continue  # their sizes rule it out
        value = similarity(own, other)
        if value >= threshold and (best is None or value > best[1]):
            best = candidate, value
    return best
