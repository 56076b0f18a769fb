"""A sample of texts that come one by one: enough to learn a tokenizer, however many there are."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

LIMIT = 32_000_000  # bytes in UTF-8: more text hardly changes the most frequent pieces


class TextSample:
    """Keeps every text, then every second, every fourth … so that no part of the data is missing;
    and counts all of them."""

    def __init__(self, limit: int = LIMIT, needs_alphabet: bool = False) -> None:
        self._limit, self._needs_alphabet = limit, needs_alphabet
        self._texts: list[str] = []
        self.num_kept_bytes = 0
        """Size of the texts in the sample, in UTF-8."""
        self._every, self._number = 1, 0
        self.num_bytes = 0
        """Size of all texts, in UTF-8."""
        self.alphabet: set[str] = set()
        """Every character of all texts, if it is needed."""

    def add(self, text: str) -> None:
        size = num_bytes(text)
        self.num_bytes += size
        if self._needs_alphabet:
            self.alphabet.update(text)
        if self._number % self._every == 0:
            self._texts.append(text)
            self.num_kept_bytes += size
        self._number += 1
        while self.num_kept_bytes > self._limit and len(self._texts) > 1:
            self._texts = self._texts[::2]
            self._every *= 2
            self.num_kept_bytes = sum(map(num_bytes, self._texts))

    @classmethod
    def of_sizes(
        cls, sizes: Array, texts: Callable[[int], Iterable[str]], limit: int = LIMIT
    ) -> "TextSample":
        """The sample that these texts would make, in the same order. Their sizes are known, so only
        those in the sample are read: `texts(n)` are one in n."""
        sample = cls(limit)
        while sizes[:: sample._every].sum() > limit and len(sizes) > sample._every:
            sample._every *= 2
        sample._texts, sample._number = list(texts(sample._every)), len(sizes)
        sample.num_kept_bytes = int(sizes[:: sample._every].sum())
        sample.num_bytes = int(sizes.sum())
        return sample

    @property
    def is_partial(self) -> bool:
        return self._every > 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


def one_in(num_bytes: int, limit: int = LIMIT) -> int:
    """The n for which one text in n makes a sample of at most `limit` bytes."""
    return max(1, -(-num_bytes // limit))


def num_bytes(text: str) -> int:
    """The size of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
