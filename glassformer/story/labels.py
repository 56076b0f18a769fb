"""Tokens as labels of a picture: always one short line of visible text."""

import re
import unicodedata

_BLANKS = {" ": "␣", "\u00a0": "␣", "\u3000": "␣", "\n": "⏎", "\r": "⏎", "\t": "⇥"}
# Control characters, surrogates, line and paragraph separators, marks of text direction.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(token: str) -> str:
    """The token without spaces around it; if it is only spaces, symbols for them."""
    label = token.strip() or "".join(_BLANKS.get(character, "␣") for character in token) or "∅"
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], label)


def shortened(label: str, limit: int = 24) -> str:
    """A long label reduced to its beginning and its end."""
    half = (limit - 1) // 2
    return label if len(label) <= limit else f"{label[:half]}…{label[-half:]}"


def width(label: str) -> int:
    """Approximate width in letters: a Chinese character counts as two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in label)
