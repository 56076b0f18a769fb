"""Long text in pieces, and pieces in words, that encode to the same ids as the whole.

A cut is safe where a non-space is followed by a space: no token reaches from a word into the space
after it. The other side of a space is not safe: in GPT-2's ` ?\\p{L}+` and `\\s+(?!\\S)`, the token
that a space belongs to depends on what follows it.

A text may have no such place, like a genome or a page of Thai. It is cut every `LONGEST` characters
all the same, since it could not be encoded otherwise: at such a cut, and only there, the tokens may
differ from those of the whole text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SIZE = 32_768  # characters; large enough to make the cost per piece negligible
LONGEST = 8 * SIZE  # characters in which there is no safe cut

# Only spaces that all regex engines agree on: U+001C is one in Python but not in Oniguruma.
_CUT = re.compile(r"\S(?=[ \t\r\n])")
# From one safe cut to the next. Other spaces do not end a word, nor does the end of the text.
_PLAIN_WORD = re.compile(r"\s*\S+|\s+")  # where there are no other spaces
_WORD = re.compile(r"\s*\S+(?:[^\S \t\r\n]\s*\S+)*(?:[^\S \t\r\n]\s*\Z)?|\s+")


@dataclass(slots=True)  # not frozen: that would double the time to make one
class LongText:
    """A text of any length that is read once, in parts that are cut anywhere, and its source."""

    parts: Iterable[str]
    source: str


def has_single_blanks(text: str) -> bool:
    """Whether all whitespace of a text is single blanks between words, as in most texts. Finding
    that out takes a third of the time of taking a text apart."""
    return text.isprintable() and "  " not in text and text[:1] != " " != text[-1:]


def words_of(text: str) -> list[str]:
    """The text from one safe cut to the next."""
    if text.isprintable() and "  " not in text:  # all its spaces are single blanks: a faster way
        words = text.replace(" ", "\0 ").split("\0")
        return words if words[0] else words[1:]  # empty if the text is, or begins with a blank
    is_plain = text.replace("\n", " ").replace("\t", " ").isprintable()
    return (_PLAIN_WORD if is_plain else _WORD).findall(text)


def pieces_of(texts: Iterable[str], size: int = SIZE, longest: int = LONGEST) -> Iterator[str]:
    """Join a text that comes in parts cut anywhere, and cut it only where it is safe.

    A piece ends at the first safe cut after `size` characters, or after `longest` if there is none.
    """
    rest = ""
    for text in texts:
        rest += text
        start = 0
        while len(rest) - start > size and (cut := _end_of_piece(rest, start, size, longest)):
            yield rest[start:cut]
            start = cut
        rest = rest[start:]
    if rest:
        yield rest


def _end_of_piece(text: str, start: int, size: int, longest: int) -> int:
    """Where the piece that begins at `start` ends; 0 if that depends on more text."""
    if found := _CUT.search(text, start + size - 1, start + longest + 1):
        return found.end()
    return start + longest if len(text) > start + longest else 0
