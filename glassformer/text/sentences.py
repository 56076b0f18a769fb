"""A text that is too long for a model, as pieces that are not.

    "It rains. The man, who …"  →  "It rains."  "The man, …"

A translator knows sentences, and so gets them one by one. A sentence that is too long itself is cut
at commas, else between words, else anywhere, into as few pieces as may be.
"""

import re
from collections.abc import Callable
from itertools import pairwise

# Behind which a text may be cut, the best places first. Chinese and Japanese have no blanks between
# sentences.
CUTS = (
    r"(?<=[.!?…])\s+|(?<=[。！？])\s*",
    r"(?<=[,;:–—،])\s+|(?<=[、，；：])\s*",
    r"\s+",
    r"(?<=.)",
)
SENTENCES = 0  # the first of them


def pieces_of(text: str, fits: Callable[[str], bool], level: int = SENTENCES) -> list[str]:
    """The text if it fits, else its pieces in their order."""
    whole = text.strip()
    if not whole or fits(whole) or level == len(CUTS):
        return [whole] if whole else []
    edges = [0, *(match.end() for match in re.finditer(CUTS[level], text)), len(text)]
    pieces: list[str] = []
    for first, last in pairwise(edges):
        # "Dr." is no sentence: a word alone is joined to the next.
        is_open = pieces and (level > SENTENCES or " " not in pieces[-1].strip())
        if is_open and fits((pieces[-1] + text[first:last]).strip()):
            pieces[-1] += text[first:last]
        else:
            pieces.append(text[first:last])
    return [small for piece in pieces for small in pieces_of(piece, fits, level + 1)]
