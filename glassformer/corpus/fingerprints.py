"""Fingerprints of texts: a digest that equal texts share, shingles, and their MinHash.

    text → words, without case, punctuation, numbers and accents → all 5 words in a row → hashes

The similarity of two texts is the Jaccard similarity of their shingles: those they share, divided
by those that either has. The MinHash signature estimates it, and finds candidates without comparing
all pairs: texts that agree in one of 20 bands of 5 minima. Of two texts with similarity 0.8, 99.96
of 100 pairs agree in one: 1 - (1 - 0.8⁵)²⁰.
"""

import hashlib
import unicodedata
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.corpus.quality import HASHES_PER_BUCKET, NUM_BUCKETS, SHINGLE_WORDS, words

Array = npt.NDArray[Any]

SIGNATURE_ROW = np.dtype(  # as datatrove reads it
    [(f"hash{number}", "<u8") for number in range(HASHES_PER_BUCKET)] + [("document", "<u4")]
)


def digest(text: str) -> tuple[int, int]:
    """128 bits, equal for texts that differ at most in whitespace."""
    found = hashlib.blake2b(" ".join(text.split()).encode(errors="replace"), digest_size=16)
    return (
        int.from_bytes(found.digest()[:8], "little"),
        int.from_bytes(found.digest()[8:], "little"),
    )


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

    found = words().word_tokenize(_simplified(text)) or [text]
    size = min(SHINGLE_WORDS, len(found))
    grams = {" ".join(found[at : at + size]) for at in range(len(found) - size + 1)}
    hashes = [xxhash.xxh64_intdigest(gram.encode(errors="replace")) for gram in grams]
    return np.unique(np.asarray(hashes, dtype=np.uint64))


def _simplified(text: str) -> str:
    """Without case, punctuation, numbers and accents, as datatrove simplifies texts."""
    from datatrove.utils.text import TextNormConfig, simplify_text

    plain = str(simplify_text(text, TextNormConfig(norm_unicode_diacritics=False)))
    if plain.isascii():  # most English texts: looking at each character takes longer than the rest
        return plain
    parts = unicodedata.normalize("NFD", plain)
    return "".join(each for each in parts if unicodedata.category(each) != "Mn")


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


_AT_ONCE = 2**21  # hashes that are computed together
