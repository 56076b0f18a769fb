"""Tokens as labels of a picture: whatever a token holds, it is one short line of visible text."""

import re
import unicodedata

_BLANKS = {" ": "␣", "\u00a0": "␣", "\u3000": "␣", "\n": "⏎", "\r": "⏎", "\t": "⇥"}
# Controls, halves of characters, ends of lines and of paragraphs; marks that turn the text around.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(token: str) -> str:
    """The token without the blanks around it; if it is nothing but blanks, signs for them."""
    label = token.strip() or "".join(_BLANKS.get(character, "␣") for character in token) or "∅"
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], label)


def shortened(label: str, limit: int = 24) -> str:
    """Its beginning and its end, where it is too long."""
    half = (limit - 1) // 2
    return label if len(label) <= limit else f"{label[:half]}…{label[-half:]}"


def width(label: str) -> int:
    """About how wide it is, counted in letters: a Chinese character takes the room of two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in label)
