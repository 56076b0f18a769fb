"""What values are: text, categories or a header in the columns of a table, conversations in JSON.

    date        url               headline                     body              section
    2024-01-07  https://a.org/7   Storm closes the harbour     A storm has …     weather

headline and body are text: several words, rarely repeated. section is a category: few different
values. Dates, addresses, numbers and ids are neither. Columns are judged by their first rows.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

# --- kinds of columns ---

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
    first: Sequence[str], rows: Sequence[Sequence[str]], known_names: Collection[str]
) -> bool:
    """Whether the first line of a table is a row: its fields are like those below. One that
    contains one of the known names is a header."""
    if not rows or any(field.strip().casefold() in known_names for field in first):
        return False
    votes = [
        _is_like(field.strip(), [row[at].strip() for row in rows if at < len(row)])
        for at, field in enumerate(first)
    ]
    return True in votes and False not in votes


def _is_like(field: str, below: list[str]) -> bool | None:
    """Whether a field belongs to the column below it; None if it could be either."""
    below = [value for value in below if value]
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
    wide = sum(character > "\u2e7f" for character in text)
    return max(words, wide / 2)


# --- conversations in JSON ---
#
#     [{"role": "user", "content": "Hi"}, …]                       a conversation
#     {"data": {"threads": [{"messages": [{"role": …}, …]}, …]}}   rows inside other objects
#     {"a": {"message": {"author": {"role": "user"}, …},           a tree of messages, as ChatGPT
#            "parent": null}, "b": …}                              exports it

Messages = list[dict[str, Any]]

KEYS = (("role", "content"), ("from", "value"), ("speaker", "text"), ("sender", "text"))
CURE_OF_STRINGS = (
    'Write each message of a conversation as {"role": "user", "content": "…"}, or join the strings '
    "into one text."
)


def are_strings(value: Any) -> bool:
    """Whether a value is a list of strings: messages without roles, or a text in parts."""
    return isinstance(value, list) and bool(value) and all(isinstance(x, str) for x in value)


def keys_of(value: Any) -> tuple[str, str] | None:
    """The names of role and content in a list of messages; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    for keys in KEYS:
        if all(isinstance(message, dict) and {*keys} <= message.keys() for message in value):
            return keys
    return None


def messages_of(value: Any) -> Messages | None:
    """A conversation as a list of messages; None for anything else."""
    if isinstance(value, dict):
        return _last_branch(value)
    return value if keys_of(value) else None


def chat_rows(value: Any) -> list[dict[str, Any]] | None:
    """The rows of the first list of conversations in a JSON value; None if there is none."""
    for rows in _lists(value):
        if messages_of(rows):
            return [{"messages": rows}]
        if all(messages_of(row) for row in rows):
            return [{"messages": row} for row in rows]
        if all(isinstance(row, dict) and any(map(messages_of, row.values())) for row in rows):
            return rows
    return None


def _lists(value: Any) -> Iterator[list[Any]]:
    """The lists in nested objects that are not empty, those in the outer objects first."""
    level = [value]
    while level:
        yield from (inner for inner in level if isinstance(inner, list) and inner)
        level = [inner for outer in level if isinstance(outer, dict) for inner in outer.values()]


def _last_branch(nodes: dict[str, Any]) -> Messages | None:
    """The messages from the root of a tree to its last leaf: an answer that was written again has
    several branches, of which the last one counts."""
    if not nodes or not all(
        isinstance(node, dict) and {"message", "parent"} <= node.keys() for node in nodes.values()
    ):
        return None
    messages: Messages = []
    inner = {node["parent"] for node in nodes.values() if isinstance(node["parent"], str)}
    at: Any = next((name for name in reversed(nodes) if name not in inner), None)
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        if message := _message(nodes[at]["message"]):
            messages.append(message)
        at = nodes[at]["parent"]
    return messages[::-1]


def _message(value: Any) -> dict[str, Any] | None:
    """Role and content of a message in a tree; None for one without text, such as an image."""
    match value:
        case {"author": {"role": str(role)}, "content": {"parts": list(parts)}}:
            text = "\n".join(part for part in parts if isinstance(part, str))
            return {"role": role, "content": text} if text.strip() else None
    return None
