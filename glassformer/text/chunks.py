"""Long text in pieces that encode to the same ids as the whole.

A cut is safe where a non-space is followed by a space: no token reaches from a word into the
space behind it. The other side of a space is not safe: to GPT-2's ` ?\\p{L}+` and `\\s+(?!\\S)`,
which token a space belongs to depends on what follows it.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

SIZE = 32_768  # characters; large enough that the cost per piece vanishes

# Only spaces that all regex engines agree on: U+001C is one to Python and none to Oniguruma.
_CUT = re.compile(r"\S(?=[ \t\r\n])")

T = TypeVar("T")


def pieces_of(texts: Iterable[str], size: int = SIZE) -> Iterator[str]:
    """One text, given in parts that may be cut anywhere, as pieces cut only where it is safe.

    A piece is as long as the first safe cut after `size` characters allows.
    """
    rest = ""
    for text in texts:
        rest += text
        start = 0
        while cut := _CUT.search(rest, start + size - 1):
            yield rest[start : cut.end()]
            start = cut.end()
        rest = rest[start:]
    if rest:
        yield rest


def batches_of(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
