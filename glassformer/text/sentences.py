"""A text that is too long for a model, in pieces that fit.

    "It rains. Dr. Faust, who …"  →  "It rains."  "Dr. Faust, …"

A translator is trained on sentences, so it gets them one by one. A sentence that is too long itself
is cut at commas, else between words, else anywhere, into as few pieces as possible.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

# Chinese and Japanese have no spaces between sentences.
_END = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”’]*\s*""")
# Where a sentence may be cut, the best places first.
_CUTS = (r"(?<=[,;:–—،])\s+|(?<=[、，；：])\s*", r"\s+", r"(?<=.)")


def fitting_pieces(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text if it fits, otherwise its pieces in order."""
    if fits(text):
        return [text] if text else []
    edges = [0, *_ends(text), len(text)]
    sentences = (text[first:last].strip() for first, last in pairwise(edges))
    return [piece for each in sentences if each for piece in _smaller(each, fits, 0)]


def _ends(text: str) -> Iterator[int]:
    """Where sentences end."""
    for found in _END.finditer(text):
        word = re.split(r"[\s(\[]", text[max(0, found.start() - 20) : found.start()])[-1]
        is_dot = found[0][0] == "." and found[0][:2] != ".."
        if not (is_dot and _is_abbreviation(word)):
            yield found.end()


def _is_abbreviation(word: str) -> bool:
    """Whether a dot after this word does not end the sentence: Dr, U.S, z.B, 3"""
    return (
        "." in word or (len(word) < 3 and word.isdigit()) or (len(word) < 4 and word[:1].isupper())
    )


def _smaller(sentence: str, fits: Callable[[str], bool], level: int) -> list[str]:
    if fits(sentence) or level == len(_CUTS):
        return [sentence]
    edges = [0, *(found.end() for found in re.finditer(_CUTS[level], sentence)), len(sentence)]
    pieces: list[str] = []
    for first, last in pairwise(edges):
        if pieces and fits((pieces[-1] + sentence[first:last]).strip()):
            pieces[-1] += sentence[first:last]
        else:
            pieces.append(sentence[first:last])
    parts = (piece.strip() for piece in pieces)
    return [small for part in parts if part for small in _smaller(part, fits, level + 1)]
