"""Conversations as texts: each message with its role, written by a template.

    {"messages": [{"role": "user", "content": "Hi"}, …]}       a conversation in a row, whatever
    {"conversations": [{"from": "human", "value": "Hi"}, …]}   the column is called
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

from glassformer.data.columns import KEYS, keys_of, messages_of
from glassformer.data.tables import TEXT_COLUMNS, Row, Table
from glassformer.data.text_files import report
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import LongText

TEMPLATE = ("<|{role}|>\n", "{content}\n")
USUAL_ROLES = {"human": "user", "gpt": "assistant"}  # by which `chat` asks and answers
CONVERSATION_IDS = (
    "conversation_id", "conversation", "conv_id", "chat_id", "dialog_id", "dialogue_id",
    "session_id", "thread_id", "conversationid", "id",
)  # fmt: skip
_FIELDS = re.compile(r"\{(role|content)\}")


def write_message(role: str, content: str, template: Sequence[str]) -> str:
    values = {"role": role, "content": content}
    return _FIELDS.sub(lambda field: values[field[1]], "".join(template))


def with_chats(table: Table, template: Sequence[str]) -> Table:
    """A table in which conversations are texts, and by default the only ones: a title or prompt
    beside them is often a part of them."""
    chats = [name for name in _paths(table) if _has_chat(table, name)]
    if not chats:
        return table
    for name in chats:
        report().remark(
            f'{table.name}: column "{name}" contains conversations; each message is written as '
            f"{''.join(template)!r}"
        )
    rows = (_written_out(row, chats, template) for row in table.rows)
    outer = {name.partition(".")[0] for name in chats if name not in table.columns}
    return replace(
        table,
        rows=rows,
        columns=tuple(dict.fromkeys((*(n for n in table.columns if n not in outer), *chats))),
        worded=(*chats, *(n for n in table.worded if n.casefold() not in TEXT_COLUMNS)),
        prose=tuple(chats),
    )


def chat_documents(table: Table, template: Sequence[str]) -> Iterator[LongText] | None:
    """The conversations of a table with a message in each row; None for other tables."""
    keys = next((keys for keys in KEYS[:2] if {*keys} <= {*table.columns}), None)
    if keys is None:
        return None
    ids = [name for name in CONVERSATION_IDS if name in table.columns]
    # An id that is different in each row is that of a message.
    key = next((name for name in ids if name in table.repeated), None)
    whole = f'column "{key}" tells the conversations apart' if key else "all are one conversation"
    report().remark(
        f"{table.name} contains a message in each row; {whole}, and each message is written as "
        f"{''.join(template)!r}"
    )
    of: Callable[[Row], Any] = (lambda row: row.values.get(key)) if key else (lambda row: None)
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


def _paths(table: Table) -> Iterator[str]:
    """The columns, and the dotted paths of the values in objects in them."""
    for name in table.columns:
        yield name
        value = next((row.values[name] for row in table.head if row.values.get(name)), None)
        if isinstance(value, dict) and messages_of(value) is None:
            yield from (f"{name}.{inner}" for inner in value)


def _has_chat(table: Table, name: str) -> bool:
    values = [value for row in table.head if (value := row.get(name))]
    return bool(values) and all(messages_of(value) is not None for value in values)


def _written_out(row: Row, columns: Sequence[str], template: Sequence[str]) -> Row:
    texts: dict[str, str | None] = {}
    for name in columns:
        value = row.get(name)
        messages = messages_of(value)
        if not value or messages == []:
            texts[name] = None
            continue
        keys = keys_of(messages)
        if messages is None or keys is None:
            raise GlassformerError(
                f'{row.place}: column "{name}" does not contain a conversation like the rows '
                'before it. Write it as [{"role": "user", "content": "…"}].'
            )
        written = (_message(message, keys, row.place) for message in messages)
        texts[name] = "".join(write_message(*message, template) for message in written)
    return row._replace(values=row.values | texts)


def _message(values: dict[str, Any], keys: tuple[str, str], place: str) -> tuple[str, str]:
    role, content = (values.get(key) for key in keys)
    if isinstance(content, list):  # of parts, some of which are images
        texts = (part.get("text") for part in content if isinstance(part, dict))
        content = "\n".join(text for text in texts if isinstance(text, str))
    content = "" if content is None else content  # a call of a tool
    if not isinstance(role, str) or not isinstance(content, str):
        raise GlassformerError(
            f'{place}: a message needs "{keys[0]}" and "{keys[1]}", both of them text.'
        )
    if role in USUAL_ROLES:
        report().remark("the roles human and gpt are written as user and assistant")
    return USUAL_ROLES.get(role, role), content
