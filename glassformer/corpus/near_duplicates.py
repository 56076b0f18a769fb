"""Texts that are the same, or almost the same: fingerprints, and which texts are dropped.

    text → words, without case, punctuation, numbers and accents → all 5 words in a row → hashes

The similarity of two texts is the Jaccard similarity of these shingles: those they share, divided
by those that either has. The MinHash signature estimates it, and finds candidates without comparing
all pairs: texts that agree in one of 20 bands of 5 minima. Of two texts with similarity 0.8, 99.96
of 100 pairs agree in one: 1 - (1 - 0.8⁵)²⁰.

Texts are looked at in their order. A text is dropped if it equals an earlier one, or if its
similarity to an earlier one *that is kept* reaches the threshold. MinHash only proposes pairs; each
is decided by the exact similarity of the shingles. So a chain of small differences never drops a
text that resembles none of those that are kept.
"""

import hashlib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.corpus.quality import HASHES_PER_BUCKET, NUM_BUCKETS, SHINGLE_WORDS, words

Array = npt.NDArray[Any]

INDEX_ROW = np.dtype(  # where a document is, and its fingerprints
    [
        ("begin", "<u8"),
        ("num_bytes", "<u8"),
        ("digest", "<u8", (2,)),
        ("first_shingle", "<u8"),
        ("num_shingles", "<u8"),
    ]
)
SHINGLE = np.dtype("<u4")  # enough to compare two texts
SIGNATURE_ROW = np.dtype(  # as datatrove reads it
    [(f"hash{number}", "<u8") for number in range(HASHES_PER_BUCKET)] + [("document", "<u4")]
)
KEPT_TEXT, EXACT, NEAR = 0, 1, 2
VERDICT_ROW = np.dtype([("verdict", "u1"), ("of", "<u8"), ("similarity", "<f8")])
_AT_ONCE = 2**21  # hashes that are computed together


# --- fingerprints ---


def digest(text: str) -> tuple[int, int]:
    """128 bits, equal for texts that differ at most in whitespace."""
    content = " ".join(text.split()).encode(errors="replace")
    low, high = np.frombuffer(hashlib.blake2b(content, digest_size=16).digest(), "<u8").tolist()
    return low, high


@cache
def minhash_config() -> Any:
    from datatrove.pipeline.dedup.minhash import MinhashConfig

    return MinhashConfig(
        n_grams=SHINGLE_WORDS, num_buckets=NUM_BUCKETS, hashes_per_bucket=HASHES_PER_BUCKET
    )


@cache
def _minhash() -> Any:
    """datatrove's step, of which only the hash functions are used: no folder is written."""
    from datatrove.pipeline.dedup.minhash import MinhashDedupSignature

    return MinhashDedupSignature(".", minhash_config(), language=words())


def shingles(text: str) -> Array:
    """The different shingles of a text as sorted 64-bit hashes; at least one."""
    import xxhash

    tokens = words().word_tokenize(_simplified(text)) or [text]
    size = min(SHINGLE_WORDS, len(tokens))
    grams = {" ".join(tokens[at : at + size]) for at in range(len(tokens) - size + 1)}
    hashes = [xxhash.xxh64_intdigest(gram.encode(errors="replace")) for gram in grams]
    return np.unique(np.asarray(hashes, dtype=np.uint64))


def _simplified(text: str) -> str:
    """Without case, punctuation, numbers and accents, as datatrove simplifies texts."""
    from datatrove.utils.text import TextNormConfig, simplify_text

    plain = str(simplify_text(text, TextNormConfig(norm_unicode_diacritics=False)))
    if plain.isascii():  # most English texts: looking at each character takes longer than the rest
        return plain
    parts = unicodedata.normalize("NFD", plain)
    return "".join(part for part in parts if unicodedata.category(part) != "Mn")


def signature(hashed: Array) -> list[list[int]]:
    """The minima of all hash functions, in bands."""
    rows = _AT_ONCE // (NUM_BUCKETS * HASHES_PER_BUCKET)
    parts = [
        _minhash().get_signature(hashed[at : at + rows].reshape(-1, 1))
        for at in range(0, len(hashed), rows)
    ]
    return parts[0] if len(parts) == 1 else np.min(np.asarray(parts), axis=0).tolist()


def similarity(one: Array, other: Array) -> float:
    """Jaccard similarity of two sorted arrays of different values."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


# --- which texts are dropped ---


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
        _drop_equal(verdicts, np.concatenate([index["digest"] for index in indexes]))
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
        candidates = {other for group in groups_of[number] for other in kept[group]}
        duplicate = _most_similar(number, sorted(candidates), stored, threshold)
        if duplicate is None:
            for group in groups_of[number]:
                kept[group].append(number)
        else:
            verdicts[number] = (NEAR, *duplicate)


def _most_similar(
    number: int, candidates: list[int], stored: Any, threshold: float
) -> tuple[int, float] | None:
    best: tuple[int, float] | None = None
    shingles: Array = stored[number]
    for candidate in candidates:
        other = stored[candidate]
        if min(len(shingles), len(other)) < threshold * max(len(shingles), len(other)):
            continue  # their sizes rule it out
        value = similarity(shingles, other)
        if value >= threshold and (best is None or value > best[1]):
            best = candidate, value
    return best
