"""Every readable file becomes documents."""

import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from written_files import written

from glassformer.config import parse
from glassformer.data.documents import CorpusConfig, Document, read_documents, stream_documents
from glassformer.errors import GlassformerError, UsageError


def texts(*paths: str, text_column: tuple[str, ...] = (), encoding: str = "utf-8") -> list[str]:
    return [document.text for document in read_documents(paths, text_column, encoding)]


def complaint(*paths: str, encoding: str = "utf-8") -> str:
    with pytest.raises(GlassformerError) as error:
        texts(*paths, encoding=encoding)
    return str(error.value)


# --- reading ---


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.txt.gz", "a.py", "Makefile", "a.gz"])
def test_a_text_file_is_one_document(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, "\ufeffOne\r\ntwo\n\ufeff\n")
    assert list(read_documents([path])) == [Document("One\ntwo\n\ufeff\n", path)]


def test_each_row_with_text_is_a_document(tmp_path: Path) -> None:
    rows = '{"text": "a\\r\\nb"}\n{"text": ""}\n{"id": 1}\n{"text": null}\n{"text": " "}\n'
    path = written(tmp_path / "a.jsonl", rows + '{"text": "c"}\n')
    assert list(read_documents([path])) == [
        Document("a\nb", f"{path}:1"),
        Document("c", f"{path}:6"),
    ]


def test_parquet_rows_are_documents(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"id": range(600), "content": ["words"] * 600}), path)
    assert texts(str(path)) == ["words"] * 600


def test_several_text_columns_are_joined_by_a_line_break(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "title,n,body\nOne,1,Once.\n,2,Twice.\n,3,\n")
    assert texts(path, text_column=("title", "body")) == ["One\nOnce.", "Twice."]


def test_a_folder_is_read_by_name_and_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/y.csv.gz", ".git/x.txt", ".hidden.txt", "c.py", "d"):
        written(tmp_path / name, f"text\n{name}\n")
    written(tmp_path / "empty.txt", "")
    assert texts(str(tmp_path)) == [
        *("a/y.csv.gz", "text\na/z.md\n"),
        *("text\nb.txt\n", "text\nc.py\n", "text\nd\n"),
    ]


def test_a_loop_of_links_is_walked_once(tmp_path: Path) -> None:
    written(tmp_path / "a/one.txt", "one")
    (tmp_path / "a/back").symlink_to(tmp_path)
    (tmp_path / "a/self.txt").symlink_to(tmp_path / "a/self.txt")
    assert texts(str(tmp_path)) == ["one"]


def test_documents_stream(tmp_path: Path) -> None:
    good, bad = written(tmp_path / "a.txt", "good"), written(tmp_path / "b.txt", b"\x81\x8d\x8f")
    documents = read_documents([good, bad])
    assert next(documents).text == "good"
    with pytest.raises(GlassformerError, match="invalid UTF-8"):
        next(documents)


def test_a_long_text_streams(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b" \n" * 2**20 + "wörd\r\n".encode() * 2**19 + b"caf\xe9")
    (document,) = stream_documents([path])
    parts = iter(document.parts)
    read = "".join(next(parts) for _ in range(4))
    assert len(read) < 5_000_000
    assert read.startswith(" \n" * 2**20 + "wörd\nwörd\n")
    assert list(parts)[-1].endswith("wörd\ncafé")


def test_the_line_of_a_nul_is_right_however_far_in(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "line\n" * 500_000 + "nul\0")
    assert ":500001: NUL byte." in complaint(path)


@pytest.mark.parametrize("name", ["notes.txt", "notes.txt.gz"])
@pytest.mark.parametrize("good", [0, 10_482, 3_000_000])
def test_a_byte_of_another_encoding_is_read_however_far_in(
    tmp_path: Path, name: str, good: int
) -> None:
    path = written(tmp_path / name, b"x" * good + b"\xe9" + b"y" * 100_000)
    assert texts(path)[0][good] == "é"
    assert texts(path, encoding="latin-1")[0][good] == "é"


def test_utf_16_is_recognised_by_its_mark(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "Hällo".encode("utf-16"))
    assert texts(path) == texts(path, encoding="latin-1") == ["Hällo"]


def test_a_picture_is_not_taken_for_latin_1(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert "is a binary file, not text" in complaint(path)


def test_a_file_that_ends_inside_a_character_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "abc😀".encode()[:-1])
    assert "byte 3: invalid UTF-8 (0xF0)" in complaint(path)


def test_other_encodings_are_refused_by_their_own_name(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"abc\xff\xff")
    assert "byte 3: invalid shift_jis (0xFF)." in complaint(path, encoding="shift_jis")
    assert "invalid utf-16" in complaint(path, encoding="utf-16")


@pytest.mark.parametrize("content", ["", " \n\t\r\n"])
@pytest.mark.parametrize("name", ["notes.txt", "notes.txt.gz", "notes.csv", "notes.jsonl"])
def test_an_empty_file_is_an_error(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path / name, content)
    assert re.match(f"{path} (is empty|contains only whitespace)", complaint(path))


def test_a_table_without_any_text_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,stars\n,4\n,5\n")
    assert complaint(path) == f'{path} has no text in column "text".'


def test_a_folder_without_readable_files_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "picture.png", b"\x89PNG\0\0")
    assert "contains no files to read. Text files and tables are read" in complaint(str(tmp_path))
    written(tmp_path / "a.txt", " ")
    assert complaint(str(tmp_path)) == f"{tmp_path} contains only empty files."


def test_a_binary_file_is_refused_at_the_line_of_its_first_nul(tmp_path: Path) -> None:
    assert ":2: NUL byte." in complaint(written(tmp_path / "a.txt", "one\ntw\0o"))
    path = written(tmp_path / "a.jsonl", '{"text": "one"}\n{"text": "a\\n\\u0000"}\n')
    assert ":2: NUL byte." in complaint(path)


def test_a_column_of_something_else_than_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "one"}\n{"text": ["two"]}\n')
    assert f'{path}:2: column "text" contains a value of type list' in complaint(path)


@pytest.mark.parametrize("line", ['{"dialogue": ["Hi.", "Yes?"]}', '["Hi.", "Yes?"]'])
def test_messages_without_roles_are_refused_with_the_cure(tmp_path: Path, line: str) -> None:
    said = complaint(written(tmp_path / "a.jsonl", f"{line}\n{line}\n"))
    assert 'Write each message of a conversation as {"role": "user", "content": "…"}' in said
    assert "--text-column" not in said


def test_an_unknown_encoding_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown encoding 'utf9'"):
        texts(written(tmp_path / "a.txt", "a"), encoding="utf9")


def test_home_is_found_without_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    written(tmp_path / "a.txt", "text")
    written(tmp_path / "a.csv", "text\nrow\n")
    assert texts("~/a.txt", "~/a.csv") == ["text", "row"]


def test_a_path_that_is_nothing_is_a_clear_error(tmp_path: Path) -> None:
    assert "does not exist. Pass a file, a folder" in complaint(str(tmp_path / "x.txt"))
    assert "cannot be read: File name too long" in complaint("once upon a time " * 30)
    os.mkfifo(tmp_path / "pipe")
    assert complaint(str(tmp_path / "pipe")).endswith("pipe is neither a file nor a folder.")


# --- config ---


def test_one_path_in_a_recipe_needs_no_list() -> None:
    assert parse(CorpusConfig, {"paths": "notes.txt"}).paths == ("notes.txt",)


@pytest.mark.parametrize("wrong", [{"paths": ()}, {"validation_fraction": 0.5}])
def test_a_config_without_text_or_with_too_much_held_out_is_refused(
    wrong: dict[str, object],
) -> None:
    with pytest.raises(ValidationError):
        CorpusConfig.model_validate({"paths": ("a.txt",)} | wrong)
