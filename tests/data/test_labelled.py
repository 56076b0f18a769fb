"""Every labelled file becomes examples, and no text stands on both sides of the split."""

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.examples import Example, read_examples, read_texts
from glassformer.data.labelled import LabelledConfig, LabelledSplit, read_labelled
from glassformer.data.splits import hold_out, in_order
from glassformer.errors import GlassformerError, UsageError


def written(path: Path, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def pairs(path: str | Path) -> list[tuple[str, tuple[str, ...]]]:
    return [(example.text, example.labels) for example in read_examples([str(path)]).examples]


def complaint(*paths: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        read_examples(paths, label_column=label_column)
    return str(error.value)


def split(path: str, seed: int = 0, **settings: object) -> LabelledSplit:
    values = {"paths": path, **settings}
    return read_labelled(LabelledConfig.model_validate(values), seed)


def table(path: Path, **sizes: int) -> str:
    """A .csv with so many different texts of each label."""
    rows = [f"{label} number {n},{label}" for label, size in sizes.items() for n in range(size)]
    return written(path, "\n".join(["text,label", *rows]))


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
    assert note.startswith("2 of 4 labels stand alone, the others in lists (first: ")
    assert "a.jsonl:2): taken as data in which a text may have several labels" in note


def test_a_label_may_begin_with_a_bracket(tmp_path: Path) -> None:
    assert pairs(written(tmp_path / "a.csv", "text,label\na,[odd\n")) == [("a", ("[odd",))]


@pytest.mark.parametrize("label", ["", " ", "NaN"])
def test_a_missing_label_is_said_with_its_place(tmp_path: Path, label: str) -> None:
    path = written(tmp_path / "a.csv", f"text,label\na,x\nb,{label}\n")
    cure = "Fill it in, or delete the row."
    assert complaint(path) == f'{path}:3 has no label in column "label". {cure}'


@pytest.mark.parametrize("label", ["null", "NaN", '""', "[null]"])
def test_a_missing_label_in_json_is_said_too(tmp_path: Path, label: str) -> None:
    path = written(tmp_path / "a.jsonl", f'{{"text": "a", "label": {label}}}\n')
    assert f'{path}:1 has no label in column "label".' in complaint(path)


def test_a_label_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "a", "label": {"b": 1}}\n')
    assert f'{path}:1: column "label" holds a value of type dict, not a label.' in complaint(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text,label,class\na,x,y\n", "has more than one column that may be the label"),
        ("text,n,m\na,1,2\n", "has no column that is plainly the label. It has: text, n, m."),
        ("one,two,label\na,b,1\n", "has no column that is plainly the text. It has: one, two"),
        ("text,label\n1,2,3\n", ":2: the number of fields is 3, but 2 in the header"),
        ("", "is empty"),
        ("text,label\n", "has no rows"),
        ("text,label\n ,x\n", "has no text with a label"),
    ],
)
def test_a_table_that_is_not_clear_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.csv", content))


def test_a_column_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,label\na,x\n")
    assert "Say --label-column label." in complaint(path, label_column="lable")
    with pytest.raises(UsageError, match="cannot be both the text and the label"):
        read_examples([path], text_column=["text"], label_column="text")


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": 7, "label": 1}\n')
    assert f'{path}:1: column "text" holds a value of type int, not text.' in complaint(path)
    path = written(tmp_path / "b.jsonl", '{"text": "\\u0000", "label": 1}\n')
    assert f"{path}:1: a NUL byte." in complaint(path)


def test_a_bad_byte_is_refused_unless_the_encoding_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,label\né,1\n".encode("latin-1"))
    assert "not UTF-8" in complaint(path)
    assert read_examples([path], encoding="latin-1").examples[0].text == "é"


def test_a_text_file_alone_has_no_labels(tmp_path: Path) -> None:
    assert "is not a table" in complaint(written(tmp_path / "a.txt", "text"))


def test_examples_without_text_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,label\na,1\n ,2\n,3\nb,4\n")
    found = read_examples([path])
    assert [example.text for example in found.examples] == ["a", "b"]
    assert found.notes == [f"2 examples have no text and are left out (first: {path}:3)"]


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
    assert f"{path} has no header; its columns are taken as " in found.notes[0]


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
    assert "It has: headline, kind." in complaint(path)
    found = read_examples([path], text_column=["headline"])
    assert [example.labels for example in found.examples] == [("pos",), ("pos",)]


def test_a_line_too_long_in_a_tsv_without_header_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "fine\t1\nbad\t0\t1\n")
    assert f"{path}:2: the number of fields is 3, but 2 in the first line." in complaint(path)


# --- folders ---


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    for name in ("pos/b.txt", "pos/a.md", "neg/c.txt.gz", ".git/x.txt", "pos/.hidden.txt"):
        written(tmp_path / name, name)
    written(tmp_path / "neg/empty.txt", " ")
    written(tmp_path / "table.csv", "text,label\na,x\n")
    written(tmp_path / "README.md", "about")
    found = read_examples([str(tmp_path)])
    assert found.examples == [
        Example("neg/c.txt.gz", ("neg",), str(tmp_path / "neg/c.txt.gz")),
        Example("pos/a.md", ("pos",), str(tmp_path / "pos/a.md")),
        Example("pos/b.txt", ("pos",), str(tmp_path / "pos/b.txt")),
    ]
    assert [note.split(" (first")[0] for note in found.notes] == [
        f"1 text file in {tmp_path} outside the folders of the labels is left out",
        "1 example has no text and is left out",
    ]
    assert (found.text_column, found.label_column) == ((), None)


def test_a_folder_of_tables(tmp_path: Path) -> None:
    written(tmp_path / "b.csv", "text,label\nb,2\n")
    written(tmp_path / "more/a.jsonl", '{"text": "a", "label": 1}')
    written(tmp_path / "empty.csv", "")
    assert pairs(tmp_path) == [("b", ("2",)), ("a", ("1",))]


def test_a_folder_without_either_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "train/pos/a.txt", "a")
    assert "has neither a folder of text files for each label" in complaint(str(tmp_path))
    assert pairs(tmp_path / "train") == [("a", ("pos",))]


# --- splitting ---


def test_a_tenth_of_every_label_is_held_out(tmp_path: Path) -> None:
    found = split(table(tmp_path / "a.csv", common=200, rare=10, pair=2))
    counts = Counter(example.labels[0] for example in found.validation)
    assert counts == {"common": 20, "rare": 1, "pair": 1}
    assert len(found.training) == 190
    assert found.held_out == "22 of 212 examples, by lot from every label"
    assert (found.labels, found.notes) == (("common", "pair", "rare"), [])


def test_the_split_depends_on_the_seed_only(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", pos=50, neg=50)
    assert split(path) == split(path)
    assert split(path).validation != split(path, seed=1).validation


def test_neither_order_nor_other_labels_change_the_split(tmp_path: Path) -> None:
    first = split(table(tmp_path / "a.csv", pos=50, neg=50))
    second = split(table(tmp_path / "b.csv", new=30, neg=50, pos=50))
    assert {example.text for example in first.validation} == {
        example.text for example in second.validation if example.labels != ("new",)
    }


def test_equal_texts_stay_on_one_side(tmp_path: Path) -> None:
    rows = [f"text {n % 40},{'pos' if n % 3 else 'neg'}" for n in range(120)]
    found = split(written(tmp_path / "a.csv", "\n".join(["text,label", *rows])))
    trained = {example.text for example in found.training}
    assert found.validation
    assert not trained & {example.text for example in found.validation}
    assert found.notes[0] == (
        "40 examples repeat another exactly, on the same side of the split as it"
    )


def test_equal_texts_with_different_labels_are_said_apart(tmp_path: Path) -> None:
    rows = [f"text {n},{'pos' if n % 2 else 'neg'}" for n in range(40)]
    rows += ["text 3,neg", "text 3,pos", "text 8,pos", "text 8,pos", "text 9,pos"]
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    found = split(path)
    said = "all are kept, on the same side of the split, and no model can be right on all of them"
    assert found.notes == [
        "3 examples repeat another exactly, on the same side of the split as it",
        f"2 texts stand more than once with different labels (first: {path}:42): {said}",
    ]
    assert len(found.training) + len(found.validation) == 45
    sides = [{each.text for each in part} for part in (found.training, found.validation)]
    assert not sides[0] & sides[1]
    assert found == split(path)
    own = split(path, validation_paths=table(tmp_path / "b.csv", pos=3, neg=3))
    assert own.notes == found.notes[1:]


def test_the_order_of_several_labels_contradicts_nothing(tmp_path: Path) -> None:
    rows = [f'{{"text": "t{n % 9}", "labels": {["[1, 2]", "[2, 1]"][n % 2]}}}' for n in range(18)]
    rows += [f'{{"text": "u{n}", "labels": [3]}}' for n in range(9)]
    found = split(written(tmp_path / "a.jsonl", "\n".join(rows)))
    assert found.notes == ["9 examples repeat another exactly, on the same side of the split as it"]


def test_a_label_with_one_example_is_only_trained_on(tmp_path: Path) -> None:
    found = split(table(tmp_path / "a.csv", pos=20, neg=20, odd=1))
    assert "odd" in found.labels
    assert not [example for example in found.validation if example.labels == ("odd",)]
    assert found.notes == [
        "1 label has too few examples to hold one out and is only trained on: odd"
    ]


def test_one_label_is_nothing_to_learn(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match='has only the label "pos"'):
        split(table(tmp_path / "a.csv", pos=20))


@pytest.mark.parametrize("step", [0.37, 0.25])
@pytest.mark.parametrize("count", [12, 900])
def test_amounts_are_no_classes(tmp_path: Path, step: float, count: int) -> None:
    rows = [f"text {n},{n % 400 * step}" for n in range(count)]
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    with pytest.raises(GlassformerError) as error:
        split(path)
    assert str(error.value) == (
        f"{path}:3: the label is {step}, one of {min(count, 400)} different numbers. These are "
        "amounts, and what is learned here are classes: sort them into a few (low, high), or say "
        "another --label-column."
    )


@pytest.mark.parametrize(
    "labels",
    [
        [str(n / 2) for n in range(10)] * 4,  # half stars
        [str(n) for n in range(150)] * 2,  # many whole numbers
        [f"{n}.0" for n in range(40)],
        [*(str(n / 7) for n in range(40)), "other"],
        ["1e999", "0.5", "nan-like"] * 3,
    ],
)
def test_classes_may_look_like_numbers(tmp_path: Path, labels: list[str]) -> None:
    rows = [f"text {n},{label}\nsame {n},{label}" for n, label in enumerate(labels)]
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    assert len(split(path).labels) == len(set(labels))


def test_labels_without_a_second_example_cannot_be_held_out(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match="no label has two different examples"):
        split(table(tmp_path / "a.csv", a=1, b=1, c=1))


def test_validation_of_its_own(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", pos=5, neg=5)
    other = written(tmp_path / "b.csv", "text,label\npos number 1,pos\nx,neg\ny,odd\nz,odd\n")
    found = split(path, validation_paths=other)
    assert len(found.training) == 10
    assert [example.text for example in found.validation] == ["pos number 1", "x"]
    assert (found.labels, found.held_out) == (("neg", "pos"), f"all of {other}")
    assert found.notes == [
        "2 examples of validation are left out, since training has no such label: odd (2)",
        "1 example of validation is also in training",
    ]


def test_a_test_part_keeps_what_cannot_be_learned(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", pos=5, neg=5)
    other = written(tmp_path / "b.csv", "text,label\npos number 1,pos\nx,neg\ny,odd\nz,odd\n")
    found = split(path, test_paths=other)
    assert len(found.training) + len(found.validation) == 10
    assert [example.text for example in found.test] == ["pos number 1", "x", "y", "z"]
    assert found.notes == [
        "training lacks 1 label of the test, so that these will count as wrong: odd (2)",
        "1 example of the test is also in training or validation, so that the test flatters the "
        "model",
    ]


def test_validation_without_a_known_label_is_refused(tmp_path: Path) -> None:
    path, other = table(tmp_path / "a.csv", a=5, b=5), table(tmp_path / "b.csv", c=5)
    with pytest.raises(GlassformerError, match=r"has no label that .* has"):
        split(path, validation_paths=other)


def test_several_labels_are_split_by_the_rarest(tmp_path: Path) -> None:
    rows = [
        f'{{"text": "t{n}", "labels": {["[]", chr(91) + "1" + chr(93), "[1, 2]"][n % 3]}}}'
        for n in range(90)
    ]
    found = split(written(tmp_path / "a.jsonl", "\n".join(rows)))
    counts = Counter(example.labels for example in found.validation)
    assert counts == {(): 3, ("1",): 3, ("1", "2"): 3}
    assert (found.is_multi_label, found.labels) == (True, ("1", "2"))


def test_labels_are_in_order() -> None:
    assert in_order(["10", "b", "2", "-1", "a", "2", "inf"]) == ("-1", "2", "10", "a", "b", "inf")


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sets(st.sampled_from("abc"))), max_size=60),
    st.integers(0, 5),
)
def test_whatever_is_held_out_can_be_learnt(items: list[tuple[int, set[str]]], seed: int) -> None:
    contents = [str(content).encode() for content, _ in items]
    chosen = hold_out(contents, [labels for _, labels in items], 0.1, seed)
    rest = set(range(len(items))) - chosen
    assert not {contents[i] for i in chosen} & {contents[i] for i in rest}
    assert {label for i in chosen for label in items[i][1]} <= {
        label for i in rest for label in items[i][1]
    }
    assert not items or rest


def test_texts_of_a_file_without_a_header_are_read_from_its_first_line_on(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("a good fox\t1\na bad dog\t0\nthe good dog\t1\n")
    found = [(each.text, each.source) for each in read_texts([str(path)])]
    assert found[0] == ("a good fox", f"{path}:1")
    assert len(found) == 3
