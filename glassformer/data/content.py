"""When are two texts the same? When they differ at most in case, in blanks, and in how Unicode
spells a character. Equal texts must not be in two parts of a split."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from unicodedata import normalize

import numpy as np

from glassformer.data.rows import Array
from glassformer.text.chunks import SIZE, has_single_blanks, pieces_of


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
    """The same for bytes, each of which counts."""
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


def among(keys: Array, known: Array) -> Array:
    """Which keys are among the known ones. Needs less memory than numpy's isin."""
    known = np.sort(known)
    places = np.searchsorted(known, keys)
    places[places == len(known)] = 0
    return np.asarray(known[places] == keys)


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
