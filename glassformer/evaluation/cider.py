"""CIDEr-D: how close a caption is to what several people wrote about the same image.

    g(text)     = tf · log(N / df)                      for each n-gram, n = 1 … 4
    sim(c, r)   = Σ min(g(c), g(r)) · g(r) / (‖g(c)‖ ‖g(r)‖) · exp(-(|c| - |r|)² / 2σ²)
    CIDEr-D     = 10 · mean over n, over the references r of sim(c, r)

tf is the number of times that an n-gram occurs in a text, N the number of images, df the number of
images with a reference that contains it: words that most captions share count little. df is counted
in the references that are passed in, so scores on different data cannot be compared, and those of
a handful of images say little. The minimum and the Gaussian (σ = 6 words) are what "D" adds to
CIDEr, so that a caption does not gain by repeating words or by its length.

Vedantam, Zitnick and Parikh: CIDEr: Consensus-based image description evaluation, 2015.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST = 4  # words of an n-gram
SIGMA = 6.0

Gram = tuple[str, ...]
Words = Sequence[str]

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def words_of(text: str, by_character: bool = False) -> list[str]:
    """The lower-case words of a caption without punctuation; its characters, where a script has no
    blanks between words."""
    words = _WORD.findall(text.lower())
    return [character for word in words for character in word] if by_character else words


@dataclass(frozen=True)
class _Vectors:
    """The TF-IDF vector of a text for each n, their lengths, and the number of words."""

    weights: list[dict[Gram, float]]
    norms: list[float]
    num_words: int


class CiderD:
    """The score for one set of references: a list of them for each image, as words."""

    def __init__(self, references: Sequence[Sequence[Words]]) -> None:
        counted = (set().union(*map(_grams, texts)) for texts in references)
        self._images = Counter(gram for grams in counted for gram in grams)  # df
        self._log_total = math.log(max(1, len(references)))
        self._references = [[self._vectors(words) for words in texts] for texts in references]

    def scores(self, captions: Sequence[Words]) -> list[float]:
        """The score of the caption of each image, from 0 to 10."""
        pairs = zip(captions, self._references, strict=True)
        return [_score(self._vectors(words), references) for words, references in pairs]

    def _vectors(self, words: Words) -> _Vectors:
        weights: list[dict[Gram, float]] = [{} for _ in range(LONGEST)]
        for gram, count in _grams(words).items():
            rarity = self._log_total - math.log(max(1, self._images[gram]))
            weights[len(gram) - 1][gram] = count * rarity
        norms = [math.sqrt(math.fsum(w * w for w in each.values())) for each in weights]
        return _Vectors(weights, norms, len(words))


def _grams(words: Words) -> Counter[Gram]:
    return Counter(
        tuple(words[first : first + size])
        for size in range(1, LONGEST + 1)
        for first in range(len(words) - size + 1)
    )


def _score(caption: _Vectors, references: Iterable[_Vectors]) -> float:
    similar = [_similarity(caption, reference) for reference in references]
    return 10 * math.fsum(similar) / len(similar)


def _similarity(caption: _Vectors, reference: _Vectors) -> float:
    """The mean over n."""
    total = 0.0
    for size in range(LONGEST):
        norm = caption.norms[size] * reference.norms[size]
        if norm:
            weights = reference.weights[size]
            total += (
                math.fsum(
                    min(weight, weights[gram]) * weights[gram]
                    for gram, weight in caption.weights[size].items()
                    if gram in weights
                )
                / norm
            )
    difference = caption.num_words - reference.num_words
    return total / LONGEST * math.exp(-(difference**2) / (2 * SIGMA**2))
