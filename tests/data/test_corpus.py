"""Every readable file becomes documents, and every document lands on exactly one side."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from written_files import written

from glassformer.config import parse
from glassformer.data.corpus import MANY, CorpusConfig, Document, read_corpus, read_documents, split
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
    for name in ("b.txt", "a/z.md", "a/y.csv.gz", ".git/x.txt", ".hidden.txt", "code.py", "c.rst"):
        written(tmp_path / name, f"text\n{name}\n")
    written(tmp_path / "empty.txt", "")
    assert texts(str(tmp_path)) == [
        *("a/y.csv.gz", "text\na/z.md\n"),
        *("text\nb.txt\n", "text\nc.rst\n"),
    ]


def test_a_loop_of_links_is_walked_once(tmp_path: Path) -> None:
    written(tmp_path / "a/one.txt", "one")
    (tmp_path / "a/back").symlink_to(tmp_path)
    (tmp_path / "a/self.txt").symlink_to(tmp_path / "a/self.txt")
    assert texts(str(tmp_path)) == ["one"]


def test_documents_stream(tmp_path: Path) -> None:
    good, bad = written(tmp_path / "a.txt", "good"), written(tmp_path / "b.txt", b"\xff")
    documents = read_documents([good, bad])
    assert next(documents).text == "good"
    with pytest.raises(GlassformerError, match="invalid UTF-8"):
        next(documents)


@pytest.mark.parametrize("name", ["notes.txt", "notes.txt.gz"])
@pytest.mark.parametrize("good", [0, 10_482, 3_000_000])
def test_a_bad_byte_is_named_with_its_offset(tmp_path: Path, name: str, good: int) -> None:
    path = written(tmp_path / name, b"x" * good + b"\xe9" + b"y" * 100_000)
    assert complaint(path) == (
        f"{path}, byte {good:,}: invalid UTF-8 (0xE9). Save it as UTF-8, or pass --encoding "
        "latin-1."
    )
    assert texts(path, encoding="latin-1")[0][good] == "é"


def test_utf_16_is_recognised_by_its_mark(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "Hällo".encode("utf-16"))
    assert "pass --encoding utf-16." in complaint(path)
    assert texts(path, encoding="utf-16") == ["Hällo"]


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


def test_a_folder_without_readable_files_names_the_endings(tmp_path: Path) -> None:
    written(tmp_path / "picture.png", b"\x89PNG")
    assert ".txt, .md, .rst, .text, .csv, .tsv, .jsonl, .parquet" in complaint(str(tmp_path))
    written(tmp_path / "a.txt", " ")
    assert complaint(str(tmp_path)) == f"{tmp_path} contains only empty files."


def test_a_binary_file_is_refused_at_the_line_of_its_first_nul(tmp_path: Path) -> None:
    assert ":2: NUL byte." in complaint(written(tmp_path / "a.txt", "one\ntw\0o"))
    path = written(tmp_path / "a.jsonl", '{"text": "one"}\n{"text": "a\\n\\u0000"}\n')
    assert ":2: NUL byte." in complaint(path)


def test_a_column_of_something_else_than_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "one"}\n{"text": ["two"]}\n')
    assert f'{path}:2: column "text" contains a value of type list' in complaint(path)


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


# --- splitting ---

anything = st.text(st.sampled_from("ab \n"), min_size=2, max_size=200).filter(
    lambda text: text[0].isalpha() and text[-1].isalpha()
)
fractions = st.floats(0.01, 0.49)


def documents(*parts: str) -> list[Document]:
    return [Document(text, f"{number}.txt") for number, text in enumerate(parts)]


@given(st.lists(anything, min_size=1, max_size=3 * MANY), fractions, st.integers(0, 5))
def test_a_split_covers_all_text_once_and_leaves_no_side_empty(
    parts: list[str], fraction: float, seed: int
) -> None:
    everything = documents(*parts)
    result = split(iter(everything), fraction, seed)
    assert result == split(everything, fraction, seed)
    assert result.training
    assert result.validation
    assert all(document.text for document in result.training + result.validation)
    if len(parts) < MANY:
        assert "".join(each.text for each in result.training + result.validation) == "".join(parts)
    else:
        both = {document.source for document in result.training + result.validation}
        assert len(both) == len(parts) == len(result.training) + len(result.validation)


def test_many_documents_are_held_out_whole() -> None:
    result = split(documents(*["text"] * 370), 0.1, seed=0)
    assert len(result.validation) == 37
    assert result.held_out == "37 of 370 documents, 10% of the text"
    assert {document.text for document in result.validation} == {"text"}


def test_what_is_held_out_is_a_share_of_the_text_whatever_the_sizes() -> None:
    sizes = [10] * 90 + [1000] * 10
    for seed in range(20):
        result = split(documents(*["x" * size for size in sizes]), 0.2, seed)
        share = sum(len(document.text) for document in result.validation) / sum(sizes)
        assert 0.1 < share < 0.31


def test_the_smallest_is_held_out_when_every_document_is_large() -> None:
    result = split(documents(*["text" * 9] * (MANY - 1), "the smallest"), 0.01, seed=0)
    assert [document.text for document in result.validation] == ["the smallest"]


def test_another_seed_holds_out_other_documents() -> None:
    everything = documents(*["text"] * 100)
    assert split(everything, 0.2, seed=0).validation != split(everything, 0.2, seed=1).validation


def test_one_document_is_cut_at_the_line_nearest_to_the_fraction() -> None:
    lines = [f"line {number}\n" for number in range(1000)]
    result = split([Document("".join(lines), "notes.txt")], 0.1, seed=0)
    assert result.held_out == "last 10% of notes.txt"
    (training,), (validation,) = result.training, result.validation
    assert training.text.endswith("\n")
    assert validation.text == "".join(lines[len(training.text.splitlines()) :])
    assert abs(len(validation.text) / sum(map(len, lines)) - 0.1) < 0.001


@pytest.mark.parametrize(
    ("text", "end"), [("word " * 20, "word " * 2), ("x" * 100, "x" * 10), ("ab", "b")]
)
def test_without_lines_the_cut_is_at_a_word_or_a_character(text: str, end: str) -> None:
    (validation,) = split([Document(text, "a.txt")], 0.1, seed=0).validation
    assert validation.text == end


def test_a_few_documents_are_cut_at_the_end_of_the_last() -> None:
    result = split(documents("a\n" * 50, "b\n" * 50), 0.1, seed=0)
    assert [each.text for each in result.training] == ["a\n" * 50, "b\n" * 40]
    assert [each.text for each in result.validation] == ["b\n" * 10]
    assert result.held_out == "last 10% of 2 documents"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "0 documents: too short, so no part can be held out"),
        (["x"], r"0\.txt: too short, so no part can be held out"),
        (["hello" + "\n" * 500], r"0\.txt: blank at one end"),
        (["\n" * 500 + "hello"], r"0\.txt: blank at one end"),
    ],
)
def test_text_of_which_no_part_can_be_held_out_is_refused(parts: list[str], message: str) -> None:
    with pytest.raises(GlassformerError, match=message):
        split(documents(*parts), 0.1, seed=0)


def test_validation_paths_are_the_validation_set(tmp_path: Path) -> None:
    train, held_out = written(tmp_path / "a.txt", "train"), written(tmp_path / "b.txt", "held out")
    result = read_corpus(CorpusConfig(paths=(train,), validation_paths=(held_out,)), seed=0)
    assert result.training == [Document("train", train)]
    assert result.validation == [Document("held out", held_out)]
    assert result.held_out == f"all of {held_out}"


def test_without_validation_paths_a_part_is_held_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "line\n" * 100)
    result = read_corpus(CorpusConfig(paths=(path,), validation_fraction=0.2), seed=0)
    assert result.validation == [Document("line\n" * 20, path)]


def test_one_path_in_a_recipe_needs_no_list() -> None:
    assert parse(CorpusConfig, {"paths": "notes.txt"}).paths == ("notes.txt",)


@pytest.mark.parametrize("wrong", [{"paths": ()}, {"validation_fraction": 0.5}])
def test_a_config_without_text_or_with_too_much_held_out_is_refused(
    wrong: dict[str, object],
) -> None:
    with pytest.raises(ValidationError):
        CorpusConfig.model_validate({"paths": ("a.txt",)} | wrong)
