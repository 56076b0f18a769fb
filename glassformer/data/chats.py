"""Conversations as texts: each message with its role, written by a template.

    {"messages": [{"role": "user", "content": "Hi"}, …]}       a conversation in a row
    {"conversations": [{"from": "human", "value": "Hi"}, …]}
    {"role": "user", "content": "Hi"}                          a message in a row: those with the
                                                               same id, or all of a file, follow
                                                               each other in a conversation

    <|user|>
    Hi

A template is a list of strings, which are written one after the other for each message, with
{role} and {content} filled in. It is saved with the model.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

from glassformer.data.reading_report import report
from glassformer.data.tables import Row, Table
from glassformer.errors import GlassformerError
from glassformer.text.chunks import LongText

TEMPLATE = ("<|{role}|>\n", "{content}\n")
ANSWERING = ("assistant", "gpt", "bot", "model")  # the roles of those who answer
CHAT_COLUMNS = ("messages", "conversations", "conversation", "dialogue", "dialog", "chat")
CONVERSATION_IDS = (
    *("conversation_id", "conversation", "conv_id", "chat_id", "dialog_id", "dialogue_id"),
    *("session_id", "thread_id", "conversationid", "id"),
)
_KEYS = (("role", "content"), ("from", "value"), ("speaker", "text"))
_FIELDS = re.compile(r"\{(role|content)\}")


def write_message(role: str, content: str, template: Sequence[str]) -> str:
    values = {"role": role, "content": content}
    return _FIELDS.sub(lambda found: values[found[1]], "".join(template))


def before_answer(text: str, template: Sequence[str]) -> str | None:
    """The beginning of a conversation up to where the first answer would be written: a prompt.
    None if the text is not a conversation of this template, or has no answer."""
    first, _, _ = "".join(template).partition("{content}")
    before, role, after = first.partition("{role}")
    if not (role and before and text.startswith(before)):
        return None
    names = "|".join(ANSWERING)
    found = re.search(f"{re.escape(before)}(?:{names}){re.escape(after)}", text, re.IGNORECASE)
    return text[: found.end()] if found else None


def with_chats(table: Table, template: Sequence[str]) -> Table:
    """A table in which conversations are texts."""
    found = [name for name in table.columns if name.casefold() in CHAT_COLUMNS]
    chats = [name for name in found if _has_chat(table, name)]
    if not chats:
        return table
    for name in chats:
        report().remark(
            f'{table.name}: column "{name}" contains conversations; each message is written as '
            f"{''.join(template)!r}"
        )
    rows = (_written_out(row, chats, template) for row in table.rows)
    worded, prose = ((*chats, *names) for names in (table.worded, table.prose))
    return replace(table, rows=rows, worded=worded, prose=prose)


def chat_documents(table: Table, template: Sequence[str]) -> Iterator[LongText] | None:
    """The conversations of a table with a message in each row; None for other tables."""
    keys = next((keys for keys in _KEYS[:2] if {*keys} <= {*table.columns}), None)
    if keys is None:
        return None
    ids = [name for name in CONVERSATION_IDS if name in table.columns]
    # An id that is different in each row is that of a message.
    own = next((name for name in ids if name in table.repeated), None)
    whole = f'column "{own}" tells the conversations apart' if own else "all are one conversation"
    report().remark(
        f"{table.name} contains a message in each row; {whole}, and each message is written as "
        f"{''.join(template)!r}"
    )
    of: Callable[[Row], Any] = (lambda row: row.values.get(own)) if own else (lambda row: None)
    return (_document(rows, keys, template) for _, rows in groupby(table.rows, of))


def _document(rows: Iterable[Row], keys: tuple[str, str], template: Sequence[str]) -> LongText:
    rows = iter(rows)
    first = next(rows)  # groups are never empty
    return LongText(_parts(first, rows, keys, template), first.place)


def _parts(
    first: Row, rows: Iterator[Row], keys: tuple[str, str], template: Sequence[str]
) -> Iterator[str]:
    for row in chain([first], rows):
        yield write_message(*_message(row.values, keys, row.place), template)


def _has_chat(table: Table, name: str) -> bool:
    values = [row.values.get(name) for row in table.head]
    lists = [value for value in values if isinstance(value, list) and value]
    return bool(lists) and all(_keys_of(value) is not None for value in lists)


def _keys_of(messages: list[Any]) -> tuple[str, str] | None:
    for keys in _KEYS:
        if all(isinstance(each, dict) and {*keys} <= each.keys() for each in messages):
            return keys
    return None


def _written_out(row: Row, columns: Sequence[str], template: Sequence[str]) -> Row:
    texts: dict[str, str | None] = {}
    for name in columns:
        messages = row.values.get(name)
        if not messages:
            texts[name] = None
            continue
        keys = _keys_of(messages) if isinstance(messages, list) else None
        if keys is None:
            raise GlassformerError(
                f'{row.place}: column "{name}" does not contain a conversation like the rows '
                'before it. Write it as [{"role": "user", "content": "…"}].'
            )
        found = (_message(each, keys, row.place) for each in messages)
        texts[name] = "".join(write_message(*each, template) for each in found)
    return row._replace(values=row.values | texts)


def _message(values: dict[str, Any], keys: tuple[str, str], place: str) -> tuple[str, str]:
    role, content = (values.get(key) for key in keys)
    if isinstance(content, list):  # of parts, some of which are images
        texts = (each.get("text") for each in content if isinstance(each, dict))
        content = "\n".join(text for text in texts if isinstance(text, str))
    content = "" if content is None else content  # a call of a tool
    if not isinstance(role, str) or not isinstance(content, str):
        raise GlassformerError(
            f'{place}: a message needs "{keys[0]}" and "{keys[1]}", both of them text.'
        )
    return role, content
