"""Conversations become texts with roles; JSON of several forms is a table."""

import json
from pathlib import Path
from typing import Any

import pytest
from written_files import written

from glassformer.data.chats import TEMPLATE
from glassformer.data.documents import CorpusConfig, columns_of, read_documents
from glassformer.data.labelled_texts import read_examples
from glassformer.data.tables import open_table
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError
from glassformer.tasks.language.task import before_answer

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello {role}!"}]
TEXT = "<|user|>\nHi\n<|assistant|>\nHello {role}!\n"


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def texts(path: str, **options: Any) -> list[str]:
    return [each.text for each in read_documents([path], **options)]


def test_a_row_of_messages_is_a_document(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", lines({"id": 1, "messages": CHAT}, {"messages": CHAT[:1]}))
    with collecting() as report:
        assert texts(path) == [TEXT, "<|user|>\nHi\n"]
    assert report.notes() == [
        f'{path}: column "messages" contains conversations; each message is written as '
        "'<|{role}|>\\n{content}\\n'"
    ]


def test_other_keys_and_parts_of_messages(tmp_path: Path) -> None:
    shared = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": None}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]
    with collecting() as report:
        assert texts(written(tmp_path / "a.jsonl", lines({"conversations": shared}))) == [
            "<|user|>\nHi\n<|assistant|>\n\n"
        ]
    assert report.notes()[1] == "the roles human and gpt are written as user and assistant"
    assert texts(written(tmp_path / "b.jsonl", lines({"messages": parts}))) == ["<|user|>\na\n"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", lines(CHAT, CHAT)),
        ("a.json", json.dumps([CHAT, CHAT])),
        ("a.json", json.dumps({"version": 2, "data": {"threads": [{"messages": CHAT}] * 2}})),
        ("a.json", json.dumps({"chats": [CHAT, CHAT], "users": [1, 2]}, indent=1)),
        ("a.jsonl", lines(*[{"conversation": {"turns": CHAT, "n": 2}}] * 2)),
        ("a.jsonl", lines(*[{"title": "Of some greetings, title", "chat_history": CHAT}] * 2)),
    ],
)
def test_conversations_are_found_wherever_they_are(tmp_path: Path, name: str, content: str) -> None:
    assert texts(written(tmp_path / name, content)) == [TEXT, TEXT]


def test_one_conversation_in_a_file(tmp_path: Path) -> None:
    assert texts(written(tmp_path / "a.json", json.dumps({"messages": CHAT}, indent=1))) == [TEXT]


def test_a_tree_of_messages_is_read_along_its_last_branch(tmp_path: Path) -> None:
    def node(parent: str | None, role: str, *parts: Any) -> dict[str, Any]:
        message = {"author": {"role": role}, "content": {"content_type": "text", "parts": parts}}
        return {"parent": parent, "children": [], "message": message}

    tree = {
        "root": {"parent": None, "children": ["s"], "message": None},
        "s": node("root", "system", ""),
        "q": node("s", "user", "Hi"),
        "first": node("q", "assistant", "An answer that was written again"),
        "again": node("q", "assistant", {"asset": "a picture"}, "Hello {role}!"),
    }
    rows = [{"title": f"Greetings in a chat {n}", "mapping": tree} for n in range(2)]
    assert texts(written(tmp_path / "a.json", json.dumps(rows))) == [TEXT, TEXT]


def test_senders_and_their_texts(tmp_path: Path) -> None:
    chat = [{"sender": "human", "text": "Hi", "content": []}, {"sender": "assistant", "text": "Ho"}]
    rows = [{"name": "A chat about one thing", "chat_messages": chat}]
    path = written(tmp_path / "a.json", json.dumps(rows))
    assert texts(path) == ["<|user|>\nHi\n<|assistant|>\nHo\n"]


def test_other_texts_beside_a_conversation_can_be_named(tmp_path: Path) -> None:
    rows = [{"title": f"Of {n} greetings", "text": "Hi", "messages": CHAT} for n in range(9)]
    path = written(tmp_path / "a.jsonl", lines(*rows))
    assert texts(path)[0] == TEXT
    assert texts(path, text_column=["title", "messages"])[0] == f"Of 0 greetings\n{TEXT}"


def test_json_that_is_read_as_it_is_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", json.dumps({"data": [{"text": "a"}]}, indent=1))
    assert columns_of(CorpusConfig(paths=(path,))) == [
        f"{path} is read as text as it is: it is no array of objects, or of messages"
    ]


def test_messages_in_rows_are_one_conversation(tmp_path: Path) -> None:
    assert texts(written(tmp_path / "a.jsonl", lines(*CHAT))) == [TEXT]


def test_messages_in_rows_are_grouped_by_their_conversation(tmp_path: Path) -> None:
    rows = [{"conversation_id": n, "id": 10 * n + m, **CHAT[m]} for n in (1, 2) for m in (0, 1)]
    assert texts(written(tmp_path / "a.jsonl", lines(*rows))) == [TEXT, TEXT]


def test_the_template_is_a_setting(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", lines({"messages": CHAT[:1]}))
    assert texts(path, chat_template=("[{role}] ", "{content};")) == ["[user] Hi;"]
    assert CorpusConfig(paths=("a",)).chat_template == ("<|{role}|>\n", "{content}\n")


def test_a_row_that_is_no_conversation_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", lines(*[{"messages": CHAT}] * 200, {"messages": ["Hi"]}))
    with pytest.raises(
        GlassformerError, match=r":201: column \"messages\" does not contain a conv"
    ):
        texts(path)


def test_conversations_can_have_labels(tmp_path: Path) -> None:
    rows = [{"messages": CHAT, "label": "good"}, {"messages": CHAT[:1], "label": "bad"}]
    found = read_examples([written(tmp_path / "a.jsonl", lines(*rows))]).examples
    assert found[0][:2] == (TEXT, ("good",))


def test_text_inside_nested_objects_has_a_dotted_path(tmp_path: Path) -> None:
    rows = [{"post": {"body": {"text": "deep"}, "kind": "a"}}, {"post": None}]
    path = written(tmp_path / "a.jsonl", lines(*rows))
    assert texts(path, text_column=["post.body.text"]) == ["deep"]
    found = read_examples([path], ["post.body.text"], "post.kind")
    assert found.examples[0][:2] == ("deep", ("a",))
    with pytest.raises(GlassformerError, match=r'has no column "post.body.txt"'):
        texts(path, text_column=["post.body.txt"])


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_objects_is_a_table(tmp_path: Path, indent: int | None) -> None:
    rows = [{"text": f'é "{n}" ]', "n": [n, {}]} for n in range(3000)]
    path = written(tmp_path / "a.json", json.dumps(rows, indent=indent))
    found = list(open_table(path, "utf-8").rows)
    assert [row.values for row in found] == rows
    assert (found[1].line > 2) == (indent is not None)


def test_objects_on_lines_are_a_table_whatever_the_ending(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", lines({"text": "a"}, {"text": "b"}))
    assert texts(path) == ["a", "b"]


@pytest.mark.parametrize("content", ['{"text": "a"}', '{\n"text": "a"\n}\n', "[1, 2]", '"a"'])
def test_other_json_is_text(tmp_path: Path, content: str) -> None:
    assert texts(written(tmp_path / "a.json", content)) == [content]


@pytest.mark.parametrize(
    "content", ['[{"text": "a"}, 7]', '[{"text": "a"}, {"text": ', '[{"a": }]']
)
def test_a_bad_array_is_refused_with_its_line(tmp_path: Path, content: str) -> None:
    with pytest.raises(GlassformerError, match=r"a\.json:1: (not a JSON object|invalid JSON)"):
        texts(written(tmp_path / "a.json", content))


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("<|user|>\nHi\n<|assistant|>\nHello\n<|user|>\nBye\n", "<|user|>\nHi\n<|assistant|>\n"),
        ("<|human|>\nHi\n<|gpt|>\nHello\n", "<|human|>\nHi\n<|gpt|>\n"),
        ("<|ada|>\nHi\n<|bob|>\nHello\n", None),
        ("Once upon a time there was an <|assistant|>\n", None),
    ],
)
def test_a_prompt_ends_where_the_answer_begins(text: str, prompt: str | None) -> None:
    assert before_answer(text, TEMPLATE) == prompt
