"""Long text in pieces that encode to the same ids as the whole.

A cut is safe where a non-space is followed by a space: no token reaches from a word into the space
after it. The other side of a space is not safe: in GPT-2's ` ?\\p{L}+` and `\\s+(?!\\S)`, the token
that a space belongs to depends on what follows it.
"""

import re
from collections.abc import Iterable, Iterator

SIZE = 32_768  # characters; large enough to make the cost per piece negligible

# Only spaces that all regex engines agree on: U+001C is one in Python but not in Oniguruma.
_CUT = re.compile(r"\S(?=[ \t\r\n])")


def pieces_of(texts: Iterable[str], size: int = SIZE) -> Iterator[str]:
    """Join a text that comes in parts cut anywhere, and cut it only where it is safe.

    A piece ends at the first safe cut after `size` characters.
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
