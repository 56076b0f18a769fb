"""Labelled texts are split by label, reproducibly and without leaks."""

from collections import Counter
from pathlib import Path

import pytest
from written_files import written

from glassformer.data.labelled_texts import Example, LabelledTextsConfig, read_labelled
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError


def split(path: str, seed: int = 0, **settings: object) -> LabelledSplit[Example]:
    values = {"paths": path, **settings}
    return read_labelled(LabelledTextsConfig.model_validate(values), seed)


def table(path: Path, **sizes: int) -> str:
    """A .csv with so many different texts of each label."""
    rows = [f"{label} number {n},{label}" for label, size in sizes.items() for n in range(size)]
    return written(path, "\n".join(["text,label", *rows]))


def test_a_tenth_of_every_label_is_held_out(tmp_path: Path) -> None:
    found = split(table(tmp_path / "a.csv", common=400, rare=10, pair=2))
    counts = Counter(example.labels[0] for example in found.validation)
    assert counts == {"common": 40, "rare": 1, "pair": 1}
    assert len(found.training) == 370
    assert found.held_out == "42 of 412 examples, a random sample of every label"
    assert (found.labels, found.notes) == (("common", "pair", "rare"), [])


@pytest.mark.parametrize(
    ("number", "expected"), [(30, 10), (60, 20), (100, 20), (200, 20), (1000, 100)]
)
def test_of_few_texts_a_larger_share_is_held_out(
    tmp_path: Path, number: int, expected: int
) -> None:
    path = table(tmp_path / "a.csv", pos=number // 2, neg=number // 2)
    found = split(path)
    assert abs(len(found.validation) - expected) <= 1  # each label is rounded
    assert found.held_out.startswith(f"{len(found.validation)} of {number:,} examples")
    assert len(split(path, validation_fraction=0.2).validation) == number // 5


def test_the_split_depends_on_the_seed_only(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", pos=50, neg=50)
    assert split(path) == split(path)
    assert split(path).validation != split(path, seed=1).validation


def test_neither_order_nor_other_labels_change_the_split(tmp_path: Path) -> None:
    first = split(table(tmp_path / "a.csv", pos=50, neg=50), validation_fraction=0.1)
    second = split(table(tmp_path / "b.csv", new=30, neg=50, pos=50), validation_fraction=0.1)
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
        "40 examples repeat another exactly; equal examples stay on the same side of the split"
    )


def test_equal_texts_with_different_labels_are_said_apart(tmp_path: Path) -> None:
    rows = [f"text {n},{'pos' if n % 2 else 'neg'}" for n in range(40)]
    rows += ["text 3,neg", "text 3,pos", "text 8,pos", "text 8,pos", "text 9,pos"]
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    found = split(path)
    said = "all are kept, on the same side of the split, but no model can get all of them right"
    assert found.notes == [
        "3 examples repeat another exactly; equal examples stay on the same side of the split",
        f"2 texts occur more than once with different labels (first: {path}:42); {said}",
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
    assert found.notes == [
        "9 examples repeat another exactly; equal examples stay on the same side of the split"
    ]


def test_a_label_with_one_example_is_only_trained_on(tmp_path: Path) -> None:
    found = split(table(tmp_path / "a.csv", pos=20, neg=20, odd=1))
    assert "odd" in found.labels
    assert not [example for example in found.validation if example.labels == ("odd",)]
    assert found.notes == [
        "1 label has too few examples to hold one out and is used only for training: odd"
    ]


def test_one_label_is_nothing_to_learn(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match='has only the label "pos"'):
        split(table(tmp_path / "a.csv", pos=20))


@pytest.mark.parametrize("step", [0.37, 0.25])
@pytest.mark.parametrize("count", [12, 900])
def test_continuous_values_are_not_classes(tmp_path: Path, step: float, count: int) -> None:
    rows = [f"text {n},{n % 400 * step}" for n in range(count)]
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    with pytest.raises(GlassformerError) as error:
        split(path)
    assert str(error.value) == (
        f"{path}:3: the label {step} is one of {min(count, 400)} different numbers. Continuous "
        "values cannot be classes: group them (low, high), or pass another --label-column."
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
        "left out: 2 examples in the validation data with labels that do not occur in training: "
        "odd (2)",
        "1 example in the validation data also occurs in training",
    ]


def test_a_test_part_keeps_what_cannot_be_learned(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", pos=5, neg=5)
    other = written(tmp_path / "b.csv", "text,label\npos number 1,pos\nx,neg\ny,odd\nz,odd\n")
    found = split(path, test_paths=other)
    assert len(found.training) + len(found.validation) == 10
    assert [example.text for example in found.test] == ["pos number 1", "x", "y", "z"]
    assert found.notes == [
        "1 label in the test data does not occur in training and will count as wrong: odd (2)",
        "1 example in the test data also occurs in training or validation, so the test score is "
        "too optimistic",
    ]


def test_validation_without_a_known_label_is_refused(tmp_path: Path) -> None:
    path, other = table(tmp_path / "a.csv", a=5, b=5), table(tmp_path / "b.csv", c=5)
    with pytest.raises(GlassformerError, match="has no label in common with"):
        split(path, validation_paths=other)


def test_several_labels_are_split_by_the_rarest(tmp_path: Path) -> None:
    rows = [
        f'{{"text": "t{n}", "labels": {["[]", chr(91) + "1" + chr(93), "[1, 2]"][n % 3]}}}'
        for n in range(90)
    ]
    found = split(written(tmp_path / "a.jsonl", "\n".join(rows)))
    counts = Counter(example.labels for example in found.validation)
    assert counts == {(): 7, ("1",): 7, ("1", "2"): 7}
    assert (found.is_multi_label, found.labels) == (True, ("1", "2"))


def test_spellings_of_a_number_are_one_class(tmp_path: Path) -> None:
    rows = [
        f"text {n},{('1', '1.0', '2', '2.0', 'True', 'true', 'TRUE')[n % 7]}" for n in range(70)
    ]
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    found = split(path)
    assert found.labels == ("1", "2", "true")
    assert Counter(
        each.labels[0] for part in (found.training, found.validation) for each in part
    ) == {"1": 20, "2": 20, "true": 30}


def test_texts_that_differ_in_case_blanks_or_unicode_stay_on_one_side(tmp_path: Path) -> None:
    rows = [f"{text},{'pos' if n % 2 else 'neg'}" for n in range(40) for text in (
        f"Straße ﬁne {n}", f"STRASSE fine {n}", f"  strasse   FINE {n} "
    )]  # fmt: skip
    path = written(tmp_path / "a.csv", "\n".join(["text,label", *rows]))
    found = split(path, validation_fraction=0.1)
    sides = [
        {each.text.split()[-1] for each in part} for part in (found.training, found.validation)
    ]
    assert len(found.validation) == 12
    assert not sides[0] & sides[1]
    assert found.notes == [
        "80 examples differ from another only in case, whitespace or Unicode normalization; they "
        "stay on the same side of the split"
    ]


def test_leaks_are_counted_up_to_case_and_blanks(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", pos=5, neg=5)
    other = written(tmp_path / "b.csv", "text,label\nPOS  Number 1,pos\nx,neg\nneg number 2 ,odd\n")
    assert (
        "1 example in the validation data also occurs in training"
        in split(path, validation_paths=other).notes
    )
    (note,) = (
        note for note in split(path, test_paths=other).notes if "occur in training or" in note
    )
    assert note.startswith("2 examples in the test data also occur in training or validation")


def test_examples_may_be_on_disk(tmp_path: Path) -> None:
    config = LabelledTextsConfig(paths=(table(tmp_path / "a.csv", pos=50, neg=50),))
    in_memory, on_disk = (read_labelled(config, 0, folder) for folder in (None, tmp_path))
    assert list(on_disk.training) == in_memory.training
    assert list(on_disk.validation) == in_memory.validation
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


def test_labels_that_are_nearly_the_same_are_pointed_out(tmp_path: Path) -> None:
    found = split(table(tmp_path / "a.csv", Pos=9, pos=9, neg=9))
    assert found.labels == ("Pos", "neg", "pos")
    assert found.notes[0] == (
        "labels that differ only in case, whitespace or Unicode normalization are separate: "
        "Pos, pos"
    )


def test_a_table_whose_first_line_may_be_no_header_is_pointed_out(tmp_path: Path) -> None:
    rows = ["text,0", *(f"text number {n},{n % 2}" for n in range(20))]
    path = written(tmp_path / "a.csv", "\n".join(rows))
    assert split(path).notes[0] == (
        f'the label column is named "0", which is also one of its labels. If {path} has no header, '
        "its first line was taken for one: add a header"
    )


def test_the_number_of_a_column_without_a_header_is_not_taken_for_a_label(tmp_path: Path) -> None:
    rows = [f"{n % 2},This is the text with the number {n}" for n in range(20)]
    path = written(tmp_path / "a.csv", "\n".join(rows))
    found = split(path)
    assert (found.label_column, found.labels) == ("1", ("0", "1"))
    assert [note for note in found.notes if "header" in note] == [
        f"{path} has no header: its first line is read as a row, and its columns are called 1, 2"
    ]
