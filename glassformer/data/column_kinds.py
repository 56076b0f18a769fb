"""What the columns of a table contain, judged by its first rows: text, categories, a header.

    date        url               headline                     body              section
    2024-01-07  https://a.org/7   Storm closes the harbour     A storm has …     weather

headline and body are text: several words, rarely repeated. section is a category: few different
values. Dates, addresses, numbers and ids are neither.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

_WORDS = 4  # of an average text, at least
_LONG = 60  # characters that no column name has
_ENOUGH = 10  # rows to tell a category by
_ADDRESS = re.compile(r"\s*(https?://|www\.|[\w.+-]+@[\w-]+\.)\S+\s*$")
_DATE = re.compile(
    r"\s*(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\w{3,9}\.? \d{1,2},? \d{4}|\w{3}, \d{1,2} \w{3} \d{4})"
    r"([T ,]+[\d:.]+( ?[AP]M)?( ?[+-]\d{2}:?\d{2}| ?[A-Z]{1,4})?)?\s*$"
)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def holds_words(values: Iterable[Any]) -> bool:
    """Whether values are texts, not only numbers."""
    present = [value for value in values if value not in (None, "")]
    texts = [value for value in present if isinstance(value, str)]
    # A stray number among texts is reported when its row is read; it does not hide the column.
    is_mostly_text = 10 * len(texts) >= 9 * len(present)
    return is_mostly_text and not all(map(is_number, texts))


def is_prose(values: Iterable[Any]) -> bool:
    """Whether values are texts of several words that rarely repeat."""
    present = [value for value in values if value not in (None, "")]
    texts = [value for value in present if isinstance(value, str)]
    if not texts or 10 * len(texts) < 9 * len(present) or 2 * len(set(texts)) <= len(texts):
        return False
    if sum(bool(_ADDRESS.match(text) or _DATE.match(text)) for text in texts) * 2 > len(texts):
        return False
    return sum(map(_num_words, texts)) >= _WORDS * len(texts)


def num_categories(values: Iterable[Any]) -> int | None:
    """How many different values there are if they are few and short; else None."""
    present = [value for value in values if value not in (None, "")]
    if len(present) < 4 or not all(isinstance(value, str | int) for value in present):
        return None
    different = {str(value) for value in present}
    is_few = 2 <= len(different) <= len(present) // 2
    return len(different) if is_few and max(map(len, different)) < _LONG else None


def lacks_header(
    first: Sequence[str], rows: Sequence[Sequence[str]], known: Collection[str]
) -> bool:
    """Whether the first line of a table is a row: its fields are like those below. One that
    contains a known name is a header."""
    if not rows or any(field.strip().casefold() in known for field in first):
        return False
    votes = [
        _is_like(field.strip(), [row[at].strip() for row in rows if at < len(row)])
        for at, field in enumerate(first)
    ]
    return True in votes and False not in votes


def _is_like(field: str, below: list[str]) -> bool | None:
    """Whether a field belongs to the column below it; None if it could be either."""
    below = [each for each in below if each]
    if not below or not field:
        return None
    for is_kind in (is_number, _ADDRESS.match, _DATE.match):
        if all(map(is_kind, below)):
            return bool(is_kind(field))
    different = set(below)
    if 2 * len(different) <= len(below) >= _ENOUGH and field not in different:
        return False if len(different) <= _ENOUGH else None
    return True if len(field) > _LONG or field in different else None


def _num_words(text: str) -> float:
    """Some scripts write no spaces: there, two characters count as a word."""
    words = len(text.split())
    wide = sum(each > "\u2e7f" for each in text)
    return max(words, wide / 2)
