"""Every labelled file becomes examples, and no text stands on both sides of the split."""

from pathlib import Path

import pytest
from written_files import written

from glassformer.data.labelled_texts import Example, read_examples
from glassformer.errors import GlassformerError, UsageError


def pairs(path: str | Path) -> list[tuple[str, tuple[str, ...]]]:
    return [(example.text, example.labels) for example in read_examples([str(path)]).examples]


def complaint(*paths: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        read_examples(paths, label_column=label_column)
    return str(error.value)


# --- tables ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"Fine, really.",pos\nBad.,neg\n'),
        ("a.csv.gz", 'Sentiment,id,Review\npos,1,"Fine, really."\nneg,2,Bad.\n'),
        ("a.tsv", "sentence\tclass\nFine, really.\tpos\nBad.\tneg\n"),
        ("a.jsonl", '{"label": "pos", "text": "Fine, really."}\n{"label": "neg", "text": "Bad."}'),
        ("a.csv", 'headline,intent,n\n"Fine, really.",pos,1\nBad.,neg,2\n'),
        ("a.csv", 'text,kind\n"Fine, really.",pos\nBad.,neg\n'),
    ],
)
def test_the_text_and_the_label_are_found(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path / name, content)
    assert pairs(path) == [("Fine, really.", ("pos",)), ("Bad.", ("neg",))]


def test_an_example_knows_where_it_stands_and_which_columns_it_is_from(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'text,label,source\n"a\nb",1,x\nc,0,y\n')
    found = read_examples([path])
    assert found.examples == [
        Example("a\nb", ("1",), f"{path}:2"),
        Example("c", ("0",), f"{path}:4"),
    ]
    assert (found.text_column, found.label_column) == (("text",), "label")
    assert (found.is_multi_label, found.notes) == (False, [])


def test_parquet_has_labels_of_any_kind(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"text": ["a", "b", "c"], "label": [1, 0, 1]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    assert pairs(tmp_path / "a.parquet") == [("a", ("1",)), ("b", ("0",)), ("c", ("1",))]
    several = {"text": ["a", "b"], "labels": [["x", "y"], []]}
    parquet.write_table(pyarrow.table(several), tmp_path / "b.parquet")
    assert pairs(tmp_path / "b.parquet") == [("a", ("x", "y")), ("b", ())]


def test_several_text_columns_are_joined_by_a_line_break(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "title,body,label\nOne,Once.,1\n,Twice.,2\n")
    found = read_examples([path], text_column=("title", "body"))
    assert [example.text for example in found.examples] == ["One\nOnce.", "Twice."]
    assert found.text_column == ("title", "body")


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        *(("1", "1"), ("1.0", "1"), ("-2.0", "-2"), ("0.5", "0.5"), ("true", "true")),
        *(("false", "false"), ('" pos "', "pos"), ('"1"', "1"), ("1e300", str(int(1e300)))),
    ],
)
def test_a_label_becomes_a_string(tmp_path: Path, spelt: str, name: str) -> None:
    path = written(tmp_path / "a.jsonl", f'{{"text": "a", "label": {spelt}}}')
    assert pairs(path) == [("a", (name,))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "a", "labels": ["x", "y", "x"]}\n{"text": "b", "labels": []}\n'),
        ("a.csv", 'text,labels\na,"[""x"", ""y""]"\nb,[]\n'),
        ("a.tsv", 'text\tlabels\na\t["x", "y"]\nb\t[]\n'),
        ("a.csv", "text,labels\na,\"['x', 'y']\"\nb,[]\n"),  # as pandas writes it
    ],
)
def test_a_list_of_labels_makes_a_set_multi_label(tmp_path: Path, name: str, content: str) -> None:
    found = read_examples([written(tmp_path / name, content)])
    assert [example.labels for example in found.examples] == [("x", "y"), ()]
    assert found.is_multi_label


def test_labels_alone_and_in_lists_are_remarked_on(tmp_path: Path) -> None:
    rows = ['"label": "a"', '"label": ["a", "b"]', '"label": "b"', '"label": []']
    lines = "".join(f'{{"text": "x", {row}}}\n' for row in rows)
    found = read_examples([written(tmp_path / "a.jsonl", lines)])
    assert found.is_multi_label
    (note,) = found.notes
    assert note.startswith("2 of 4 examples have a single label, the others a list (first: ")
    assert "a.jsonl:2): all are treated as multi-label data" in note


def test_a_label_may_begin_with_a_bracket(tmp_path: Path) -> None:
    assert pairs(written(tmp_path / "a.csv", "text,label\na,[odd\n")) == [("a", ("[odd",))]


@pytest.mark.parametrize("label", ["", " ", "NaN"])
def test_a_missing_label_is_said_with_its_place(tmp_path: Path, label: str) -> None:
    path = written(tmp_path / "a.csv", f"text,label\na,x\nb,{label}\n")
    cure = "Fill it in, or delete the row."
    assert complaint(path) == f'{path}:3: no label in column "label". {cure}'


@pytest.mark.parametrize("label", ["null", "NaN", '""', "[null]"])
def test_a_missing_label_in_json_is_said_too(tmp_path: Path, label: str) -> None:
    path = written(tmp_path / "a.jsonl", f'{{"text": "a", "label": {label}}}\n')
    assert f'{path}:1: no label in column "label".' in complaint(path)


def test_a_label_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "a", "label": {"b": 1}}\n')
    assert f'{path}:1: column "label" contains a value of type dict, not a label.' in complaint(
        path
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text,label,class\na,x,y\n", "has several columns that could be the label"),
        ("text,n,m\na,1,2\n", "has no obvious label column (columns: text, n, m). "),
        ("one,two,label\na,b,1\n", "has no obvious text column (columns: one, two"),
        ("text,label\n1,2,3\n", ":2: expected 2 fields (text, label), found 3."),
        ("", "is empty"),
        ("text,label\n", "has no rows"),
        ("text,label\n ,x\n", "contains no labelled text"),
    ],
)
def test_a_table_that_is_not_clear_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.csv", content))


def test_a_column_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,label\na,x\n")
    assert "Pass --label-column label." in complaint(path, label_column="lable")
    with pytest.raises(UsageError, match="cannot be both the text and the label"):
        read_examples([path], text_column=["text"], label_column="text")


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": 7, "label": 1}\n')
    assert f'{path}:1: column "text" contains a value of type int, not text.' in complaint(path)
    path = written(tmp_path / "b.jsonl", '{"text": "\\u0000", "label": 1}\n')
    assert f"{path}:1: NUL byte." in complaint(path)


def test_a_table_in_another_encoding_is_read_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,label\ncafé,1\n".encode("latin-1"))
    found = read_examples([path])
    assert found.examples[0].text == "café"
    assert found.notes == [
        f"1 file is not UTF-8 and read in another encoding: {path} (windows-1252). If it is wrong, "
        "pass --encoding"
    ]
    assert read_examples([path], encoding="cp850").examples[0].text == "cafÚ"


def test_a_text_file_alone_has_no_labels(tmp_path: Path) -> None:
    assert "is not a table" in complaint(written(tmp_path / "a.txt", "text"))


def test_examples_without_text_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,label\na,1\n ,2\n,3\nb,4\n")
    found = read_examples([path])
    assert [example.text for example in found.examples] == ["a", "b"]
    assert found.notes == [f"left out: 2 examples without text (first: {path}:3)"]


# --- folders ---


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    for name in ("pos/b.txt", "pos/a.md", "neg/c.txt.gz", ".git/x.txt", "pos/.hidden.txt"):
        written(tmp_path / name, name)
    written(tmp_path / "neg/empty.txt", " ")
    written(tmp_path / "table.csv", "text,label\na,x\n")
    written(tmp_path / "README.md", "about")
    written(tmp_path / "pos/more/d.txt", "not seen")
    found = read_examples([str(tmp_path)])
    assert found.examples == [
        Example("neg/c.txt.gz", ("neg",), str(tmp_path / "neg/c.txt.gz")),
        Example("pos/a.md", ("pos",), str(tmp_path / "pos/a.md")),
        Example("pos/b.txt", ("pos",), str(tmp_path / "pos/b.txt")),
    ]
    assert [note.split(" (first")[0] for note in found.notes] == [
        f"left out: 3 files in {tmp_path} that are not directly in a label folder",
        "read 1 .gz, 1 .md, 1 .txt",
        "left out: 1 example without text",
    ]
    assert (found.text_column, found.label_column) == ((), None)


def test_a_folder_of_tables(tmp_path: Path) -> None:
    written(tmp_path / "b.csv", "text,label\nb,2\n")
    written(tmp_path / "more/a.jsonl", '{"text": "a", "label": 1}')
    written(tmp_path / "empty.csv", "")
    assert pairs(tmp_path) == [("b", ("2",)), ("a", ("1",))]


def test_texts_beside_tables_are_counted(tmp_path: Path) -> None:
    written(tmp_path / "b.csv", "text,label\nb,2\n")
    first = written(tmp_path / "README.md", "about")
    written(tmp_path / "more/deep/x.txt", "about")
    why = "that are neither tables nor in a label folder"
    assert read_examples([str(tmp_path)]).notes == [
        f"left out: 2 files in {tmp_path} {why} (first: {first})",
        "read 1 .csv",
    ]


def test_a_folder_without_either_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "train/pos/a.txt", "a")
    assert pairs(tmp_path) == [("a", ("pos",))]  # the only folder is not a label
    written(tmp_path / "test/pos/a.txt", "a")
    assert "nor a subfolder of text files for each label" in complaint(str(tmp_path))
    assert pairs(tmp_path / "train") == [("a", ("pos",))]
