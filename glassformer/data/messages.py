"""Messages in JSON: which values are conversations, and where in a file they are.

[{"role": "user", "content": "Hi"}, …]                       a conversation
{"data": {"threads": [{"messages": [{"role": …}, …]}, …]}}   rows inside other objects
{"a": {"message": {"author": {"role": "user"}, …},           a tree of messages, as ChatGPT
       "parent": null}, "b": …}                              exports it
"""

from collections.abc import Iterator
from typing import Any

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
        if all(isinstance(each, dict) and {*keys} <= each.keys() for each in value):
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
        yield from (each for each in level if isinstance(each, list) and each)
        level = [each for outer in level if isinstance(outer, dict) for each in outer.values()]


def _last_branch(nodes: dict[str, Any]) -> Messages | None:
    """The messages from the root of a tree to its last leaf: an answer that was written again has
    several branches, of which the last one counts."""
    if not nodes or not all(
        isinstance(node, dict) and {"message", "parent"} <= node.keys() for node in nodes.values()
    ):
        return None
    found: Messages = []
    inner = {node["parent"] for node in nodes.values() if isinstance(node["parent"], str)}
    at: Any = next((name for name in reversed(nodes) if name not in inner), None)
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        if message := _message(nodes[at]["message"]):
            found.append(message)
        at = nodes[at]["parent"]
    return found[::-1]


def _message(value: Any) -> dict[str, Any] | None:
    """Role and content of a message in a tree; None for one without text, such as an image."""
    match value:
        case {"author": {"role": str(role)}, "content": {"parts": list(parts)}}:
            text = "\n".join(part for part in parts if isinstance(part, str))
            return {"role": role, "content": text} if text.strip() else None
    return None
