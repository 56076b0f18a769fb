"""Texts with several labels: in one cell with a separator, or in a column of 0 and 1 for each."""

from pathlib import Path

import pytest

from glassformer.data.labelled_texts import LabelledTextsConfig, read_examples, read_labelled
from glassformer.data.labels import likely_separator
from glassformer.errors import GlassformerError

COMMENTS = (
    "id,comment_text,toxic,insult,threat\n"
    "7,you are a fool really,1,1,0\n"
    "8,what a lovely day it is,0,0,0\n"
    "9,go away from this page,1,0,0\n"
)
COLUMNS = "toxic,insult,threat"


def written(folder: Path, text: str, name: str = "rows.csv") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def labels_of(path: str, **options: str) -> list[tuple[str, ...]]:
    return [each.labels for each in read_examples([path], **options).examples]


def refusal(path: str, **options: str) -> str:
    with pytest.raises(GlassformerError) as error:
        read_examples([path], **options)
    return str(error.value)


# --- a separator ---


def test_a_separator_makes_several_labels_of_a_cell(tmp_path: Path) -> None:
    films = "text,label\nA storm.,drama; crime\nA joke.,comedy\nA kiss.,comedy;drama;\n"
    found = labels_of(written(tmp_path, films), label_separator=";")
    assert found == [("drama", "crime"), ("comedy",), ("comedy", "drama")]


def test_a_separator_also_serves_files_without_a_header(tmp_path: Path) -> None:
    films = "A storm came up.\tdrama|crime\nA joke was told.\tcomedy\n" * 3
    found = labels_of(written(tmp_path, films, "films.tsv"), label_separator="|")
    assert found[:2] == [("drama", "crime"), ("comedy",)]


def test_a_separator_is_no_surprise_but_its_absence_is(tmp_path: Path) -> None:
    path = written(tmp_path, "text,label\nA storm.,a|b\nA joke.,a\n")
    assert read_examples([path], label_separator="|").notes == []
    notes = read_examples([path], label_separator=";").notes
    assert notes == ['no label contains the separator ";"']


@pytest.mark.parametrize("cell", ["", " ", '";"'])
def test_a_cell_without_a_label_is_an_error_with_a_separator_too(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path, f"text,label\nA storm.,a;b\nA joke.,{cell}\nA kiss.,a\n")
    if cell == '";"':
        assert labels_of(path, label_separator=";")[1] == (";",)
    else:
        assert "rows.csv:3: no label" in refusal(path, label_separator=";")


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        ({"a;b", "a", "b;c"}, ";"),
        ({"drama|crime", "crime|comedy", "drama"}, "|"),
        ({"sci-fi, horror", "horror", "sci-fi"}, ","),
        ({"Portland, OR", "Salem, OR", "Boise, ID"}, None),
        ({"yes, really", "yes", "no"}, None),
        ({"a", "b"}, None),
        (set(), None),
    ],
)
def test_joined_labels_are_recognised(labels: set[str], separator: str | None) -> None:
    assert likely_separator(labels) == separator


def test_a_note_or_an_error_proposes_the_separator(tmp_path: Path) -> None:
    kinds = ["drama;crime", "drama", "crime;comedy", "comedy"]
    rows = "".join(f"A film number {n},{kinds[n % 4]}\n" for n in range(40))
    path = written(tmp_path, f"text,label\n{rows}")
    split = read_labelled(LabelledTextsConfig(paths=(path,)), seed=0)
    assert any('pass --label-separator ";"' in note for note in split.notes)
    config = LabelledTextsConfig(paths=(path,), label_separator=";")
    split = read_labelled(config, seed=0)
    assert split.is_multi_label
    assert split.labels == ("comedy", "crime", "drama")
    assert not any("--label-separator" in note for note in split.notes)


def test_very_many_joined_labels_are_explained(tmp_path: Path) -> None:
    names = "abcdefgh"
    pairs = [f"{a};{b}" for a in names for b in names if a < b]
    rows = "".join(f"A film number {n},{pair}\n" for n, pair in enumerate(pairs))
    path = written(tmp_path, f"text,label\n{rows}")
    with pytest.raises(GlassformerError, match='joined by ";": pass --label-separator ";"'):
        read_labelled(LabelledTextsConfig(paths=(path,)), seed=0)


# --- columns of 0 and 1 ---


@pytest.mark.parametrize("columns", [COLUMNS, "toxic, insult, threat,", "3,4,5"])
def test_columns_of_0_and_1_are_labels(tmp_path: Path, columns: str) -> None:
    found = read_examples([written(tmp_path, COMMENTS)], label_column=columns)
    assert [each.labels for each in found.examples] == [("toxic", "insult"), (), ("toxic",)]
    assert found.is_multi_label
    assert found.text_column == ("comment_text",)
    assert found.label_column == COLUMNS
    assert found.notes == ["no text has the label threat"]
    assert [*found.columns] == ["text comment_text; labels toxic, insult, threat; not used: id"]


def test_a_column_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, 'text,"good, bad"\nA fine film,good\nAn awful film,bad\n')
    assert labels_of(path, label_column="good, bad") == [("good",), ("bad",)]


def test_truth_values_and_numbers_are_read_alike(tmp_path: Path) -> None:
    path = written(tmp_path, "text,a,b\nA fine film,True,1.0\nAn awful film,FALSE,0\n")
    assert labels_of(path, label_column="a,b") == [("a", "b"), ()]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("1,1,0", "1,,0", 'rows.csv:2: no label in column "insult"'),
        ("1,1,0", "1,-1,0", 'rows.csv:2: column "insult" contains "-1", not 0 or 1.'),
        ("insult", "abuse", 'has no column "insult"'),
    ],
)
def test_bad_columns_are_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    path = written(tmp_path, COMMENTS.replace(before, after, 1))
    assert message in refusal(path, label_column=COLUMNS)


def test_without_a_name_the_columns_are_proposed(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, COMMENTS))
    assert "several columns of 0 and 1 that could be the label (toxic, insult, threat)" in message
    assert "--label-column toxic,insult" in message


def test_a_column_cannot_be_text_and_label(tmp_path: Path) -> None:
    path = written(tmp_path, COMMENTS)
    with pytest.raises(GlassformerError, match="cannot be both"):
        read_examples([path], ["toxic"], COLUMNS)
