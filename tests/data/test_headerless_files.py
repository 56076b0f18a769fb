"""Lines of text, tab and label are read without a header, and told from other lines."""

from pathlib import Path

import pytest
from written_files import written

from glassformer.data.labelled_texts import (
    Example,
    LabelledTextsConfig,
    read_examples,
    read_labelled,
    read_texts,
)
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError


def pairs(path: str | Path) -> list[tuple[str, tuple[str, ...]]]:
    return [(example.text, example.labels) for example in read_examples([str(path)]).examples]


def complaint(*paths: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        read_examples(paths, label_column=label_column)
    return str(error.value)


def split(path: str, seed: int = 0, **settings: object) -> LabelledSplit[Example]:
    values = {"paths": path, **settings}
    return read_labelled(LabelledTextsConfig.model_validate(values), seed)


# --- no header ---


@pytest.mark.parametrize(
    "content",
    [
        "fine\tpos\nbad\tneg\ngood\tpos\n",
        "fine\t1\nbad\t0\ngood\t2\n",
        "\n pos\tfine\nneg\tbad\npos\tgood\nneg\tvile\npos\tsweet\n",
    ],
)
def test_a_tsv_may_have_no_header(tmp_path: Path, content: str) -> None:
    path = written(tmp_path / "a.tsv", content)
    found = read_examples([path])
    assert [example.text for example in found.examples[:3]] == ["fine", "bad", "good"]
    assert found.examples[0].labels in [("pos",), ("1",)]
    assert (found.text_column, found.label_column) == ((), None)
    assert f"{path} has no header; its columns are read as " in found.notes[0]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "SMSSpamCollection", "a.data"])
def test_lines_with_a_tab_are_text_and_label_whatever_the_ending(tmp_path: Path, name: str) -> None:
    lines = '\nham\tsee you, "soon"\nspam\twin now\nham\tok\nham\tyes\nspam\tfree\n'
    path = written(tmp_path / name, lines)
    assert pairs(path)[:2] == [('see you, "soon"', ("ham",)), ("win now", ("spam",))]
    assert [each.text for each in read_texts([path])][1:3] == ["win now", "ok"]
    assert split(path).labels == ("ham", "spam")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "fine\t1\nbad\t0\t1\n"),
        ("a.txt", "fine\t1\nbad\n"),
        ("a.txt", "\tone\ttwo\n"),
        ("a.txt", "\n"),
        ("a.conll", "EU\tORG\nis\tO\n\nit\tO\nis\tO\n"),  # of a tagger
        ("a.xlsx", b"PK\x03\x04\xff\t1\n"),
    ],
)
def test_other_lines_are_no_pairs(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert "is not a table" in complaint(written(tmp_path / name, content))


def test_texts_in_folders_may_have_tabs(tmp_path: Path) -> None:
    for label in ("pos", "neg"):
        written(tmp_path / label / "a.txt", "one\t1\ntwo\t1\n")
    assert pairs(tmp_path) == [("one\t1\ntwo\t1\n", ("neg",)), ("one\t1\ntwo\t1\n", ("pos",))]


def test_a_plain_text_is_read_as_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one\ntwo\n")
    assert [each.text for each in read_texts([path])] == ["one\ntwo\n"]


def test_a_tsv_with_a_header_is_not_taken_for_one_without(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "headline\tkind\nfine\tpos\nbad\tpos\n")
    assert "(columns: headline, kind)" in complaint(path)
    found = read_examples([path], text_column=["headline"])
    assert [example.labels for example in found.examples] == [("pos",), ("pos",)]


def test_a_line_too_long_in_a_tsv_without_header_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "fine\t1\nbad\t0\t1\n")
    assert f"{path}:2: expected 2 fields, found 3." in complaint(path)


# --- splitting ---


def test_texts_of_a_file_without_a_header_are_read_from_its_first_line_on(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("a good fox\t1\na bad dog\t0\nthe good dog\t1\n")
    found = [(each.text, each.source) for each in read_texts([str(path)])]
    assert found[0] == ("a good fox", f"{path}:1")
    assert len(found) == 3
