"""Sequences come out step by step, and an .npz can neither run code nor fill the memory."""

import io
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import arrays as arrays_module
from glassformer.data.labelled import LabelledConfig
from glassformer.data.series import (
    Series,
    SeriesSplit,
    is_series,
    read_series,
    read_series_split,
)
from glassformer.errors import GlassformerError

WALKS = "id,step,x,y,label\na,1,0.5,2,walk\nb,0,5,6,run\na,0,1,1.5,walk\nb,1,7,8,run\n"


def written(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def saved(path: Path, **arrays: Any) -> str:
    np.savez_compressed(path, **{name: np.asarray(array) for name, array in arrays.items()})
    return str(path)


def complaint(path: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        read_series([path], label_column)
    return str(error.value)


def split(path: str, seed: int = 0, **settings: object) -> SeriesSplit:
    return read_series_split(LabelledConfig.model_validate({"paths": path, **settings}), seed)


def values(found: list[Series]) -> list[list[list[float]]]:
    return [series.values.tolist() for series in found]


# --- tables ---


def test_steps_of_a_table_are_gathered_and_sorted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", WALKS)
    found = read_series([path])
    assert values(found) == [[[1, 1.5], [0.5, 2]], [[5, 6], [7, 8]]]
    assert [(each.label, each.source) for each in found] == [
        ("walk", f"{path}:2"),
        ("run", f"{path}:3"),
    ]
    assert found[0].values.dtype == np.float32


def test_steps_are_sorted_as_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,t,v,class\na,10,3,x\na,9,2,x\na,-1.5,1,x\n")
    assert values(read_series([path])) == [[[1], [2], [3]]]


def test_the_same_id_in_two_files_is_two_sequences(tmp_path: Path) -> None:
    first = written(tmp_path / "a.csv", "id,step,u,v,label\na,0,1,2,x\n")
    second = written(tmp_path / "b.csv", "label,v,u,step,id\ny,4,3,0,a\n")
    assert values(read_series([first, second])) == [[[1, 2]], [[3, 4]]]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a,2,x,1,walk", ":6: column \"x\" holds 'x', which is not a number"),
        ("a,2,nan,1,walk", ":6: column \"x\" holds 'nan', which is not a number"),
        ("a,2,1,,walk", ":6: column \"y\" holds '', which is not a number"),
        ("a,2,1e39,1,walk", ":6: column \"x\" holds '1e39', which is not a number"),
        ("a,soon,1,1,walk", ":6: column \"step\" holds 'soon', which is not a number"),
        ("a,1.0,1,1,walk", ":6: step 1.0 of id a comes twice."),
        ("a,2,1,1,run", ':6: id a has the label "run" here, but "walk" in '),
        ("a,2,1,1,", ':6 has no label in column "label".'),
        (",2,1,1,run", ':6 has nothing in column "id".'),
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path: Path, row: str, problem: str) -> None:
    path = written(tmp_path / "a.csv", f"{WALKS}{row}\n")
    assert f"{path}{problem}" in complaint(path)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("id,step,label", "has no column of values beside id, step, label."),
        ("id,v,label", "must have exactly one column called step or time, but has none among"),
        ("id,t,step,v,label", "must have exactly one column called step or time, but has t, step"),
        ("id,step,u,v", "has no label column. It has: id, step, u, v."),
    ],
)
def test_an_unclear_table_is_refused(tmp_path: Path, header: str, problem: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    assert problem in complaint(written(tmp_path / "a.csv", f"{header}\n{row}\n"))


def test_tables_must_have_the_same_values(tmp_path: Path) -> None:
    first = written(tmp_path / "a.csv", "id,step,u,label\na,0,1,x\n")
    second = written(tmp_path / "b.csv", "id,step,v,label\na,0,1,x\n")
    with pytest.raises(GlassformerError, match="has the values v, but u are wanted"):
        read_series([first, second])
    third = saved(tmp_path / "c.npz", x=np.zeros((1, 2, 3)), y=[0])
    with pytest.raises(GlassformerError, match=r"has 3 values at each step, but .* has 1"):
        read_series([first, third])


@pytest.mark.parametrize(
    ("header", "row", "is_one"),
    [
        ("id,step,x,y,label", "1,2,3,4,5", True),
        ("\ufeffSeries,Time,x,Class", "a,2,3,b", True),
        ("id,step,x", "1,2,3", True),  # its label is missed when it is read
        ("id,step", "1,2", False),
        ("id,x,label", "1,2,3", False),
        ("id,step,label", "1,2,3", False),
        ("id,time,text,label", "1,2,3,4", False),
        ("id,time,likes,tweet,label", "1,2,nice,really nice,4", False),
    ],
)
def test_a_table_of_numbers_is_told_from_texts(
    tmp_path: Path, header: str, row: str, is_one: bool
) -> None:
    assert is_series([written(tmp_path / "a.csv", f"{header}\n{row}\n")]) is is_one


def test_what_else_is_a_series(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", "id,step,v,kind\n1,0,1,x\n")
    arrays = saved(tmp_path / "a.npz", x=[[1.0]], y=[0])
    assert is_series([arrays])
    assert is_series([table, arrays], label_column="kind")
    assert not is_series([table, arrays])
    assert not is_series([])
    assert not is_series([str(tmp_path / "none.csv"), written(tmp_path / "a.txt", "a")])
    assert "does not exist" in complaint(str(tmp_path / "none.npz"))


# --- arrays ---


def test_arrays_with_and_without_features(tmp_path: Path) -> None:
    x = np.arange(12).reshape(2, 3, 2)
    path = saved(tmp_path / "a.npz", x=x, y=["walk", "run"], other=[1])
    found = read_series([path])
    assert values(found) == x.tolist()
    assert [(each.label, each.source) for each in found] == [
        ("walk", f"{path}:1"),
        ("run", f"{path}:2"),
    ]
    flat = saved(tmp_path / "b.npz", X=[[1.5, 2], [3, 4]], Y=[1.0, 0.0])
    assert values(read_series([flat])) == [[[1.5], [2]], [[3], [4]]]
    assert [each.label for each in read_series([flat])] == ["1", "0"]


@pytest.mark.parametrize("y", [[True, False], [b"true", b"false"]])
def test_labels_of_arrays_are_strings(tmp_path: Path, y: list[object]) -> None:
    path = saved(tmp_path / "a.npz", x=[[1.0], [2.0]], y=y)
    assert [each.label for each in read_series([path])] == ["true", "false"]


def test_lengths_cut_the_padding_off(tmp_path: Path) -> None:
    x = [[1, 2, np.nan], [3, np.nan, np.nan]]
    path = saved(tmp_path / "a.npz", x=x, y=[0, 1], lengths=[2, 1])
    assert values(read_series([path])) == [[[1], [2]], [[3]]]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"x": [[1.0]]}, "has no array y. It has: x."),
        ({"a": [1.0]}, "has no array x and y. It has: a."),
        ({"values": [1.0], "labels": [0]}, "x and y. It has: values, labels. Save it with"),
        ({}, "has no array x and y. It has: none."),
        ({"x": [1.0], "y": [1]}, "array x has shape (1,) and type float64"),
        ({"x": [["a"]], "y": [1]}, "array x has shape (1, 1, 1) and type <U1"),
        ({"x": np.zeros((0, 3)), "y": []}, "has no sequences in it"),
        ({"x": np.zeros((1, 0)), "y": [1]}, "at least one step and one feature"),
        ({"x": [[1.0]], "y": [1, 2]}, "a label for each sequence of x, so shape (1,)"),
        ({"x": [[1.0]], "y": [np.nan]}, ':1 has no label in array "y".'),
        ({"x": [[1.0], [np.inf]], "y": [1, 2]}, ":2: step 0, feature 0 of x is inf"),
        ({"x": [[1e300]], "y": [1]}, ":1: step 0, feature 0 of x is 1e+300"),
        ({"x": [[1.0]], "y": [1], "lengths": [2]}, ":1: the length is 2, not 1 to 1."),
        ({"x": [[1.0]], "y": [1], "lengths": [1.0]}, "whole numbers of shape (1,)"),
        ({"x": [[1.0]], "y": np.array(["a"], dtype=object)}, "array y holds Python objects"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], problem: str) -> None:
    assert problem in complaint(saved(tmp_path / "a.npz", **arrays))


def zipped(path: Path, x: bytes) -> str:
    y = io.BytesIO()
    np.save(y, np.zeros(1))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", x)
        archive.writestr("y.npy", y.getvalue())
    return str(path)


def npy(header: str, data: bytes = b"") -> bytes:
    text = f"{header}\n".encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    ("x", "problem"),
    [
        (b"not an array", "array x cannot be read"),
        (b"", "array x cannot be read"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (10**9, 1)}"), "cannot be read"),
        (
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 9)}", b"8bytes"),
            "claims the shape (1000000000000, 9), which is not what the file holds",
        ),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", bytes(8)), "claims"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1)}", b"x"), "Python objects"),
        (npy("(" * 5000), "cannot be read"),
        (npy("{'descr': '"), "cannot be read"),
    ],
)
def test_a_forged_array_is_refused_before_room_is_made(
    tmp_path: Path, x: bytes, problem: str
) -> None:
    assert problem in complaint(zipped(tmp_path / "a.npz", x))


def test_a_zip_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays_module, "MOST_BYTES", 10_000)
    path = saved(tmp_path / "a.npz", x=np.zeros((100, 100)), y=np.zeros(100))
    assert "unpacks to 80.1 kB; the most that is read is 10 kB" in complaint(path)


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.npz", "not a zip")
    assert "is not .npz, or is damaged" in complaint(path)


@given(st.integers(0, 600), st.integers(0, 255))
def test_a_damaged_file_gives_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    np.savez(path, x=np.array([[1.0, 2.0]]), y=np.array([3]))  # not packed: each byte counts
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(data)
    with suppress(GlassformerError):  # or it is read: anything else would be a traceback
        read_series([str(path)])


# --- splitting ---


def many(path: Path, **sizes: int) -> str:
    labels = [label for label, size in sizes.items() for _ in range(size)]
    x = np.random.default_rng(0).normal(size=(len(labels), 4, 2))
    return saved(path, x=x, y=labels)


def test_a_tenth_of_every_label_is_held_out(tmp_path: Path) -> None:
    path = many(tmp_path / "a.npz", walk=40, run=20, odd=1)
    found = split(path)
    assert Counter(each.label for each in found.validation) == {"walk": 4, "run": 2}
    assert (len(found.training), found.num_features) == (55, 2)
    assert (found.labels, found.held_out) == (
        ("odd", "run", "walk"),
        "6 of 61 sequences, by lot from every label",
    )
    assert found.notes == [
        "1 label has too few sequences to hold one out and is only trained on: odd"
    ]


def test_the_split_depends_on_the_seed_only(tmp_path: Path) -> None:
    path = many(tmp_path / "a.npz", walk=40, run=20)
    first, again = (split(path).validation for _ in range(2))
    assert values(first) == values(again)
    assert values(first) != values(split(path, seed=1).validation)


def test_equal_sequences_stay_on_one_side(tmp_path: Path) -> None:
    x = np.tile(np.arange(20.0), 3)[:, None]
    found = split(saved(tmp_path / "a.npz", x=x, y=np.arange(60) % 2))
    trained = {each.values.tobytes() for each in found.training}
    assert found.validation
    assert not trained & {each.values.tobytes() for each in found.validation}


def test_validation_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", WALKS)
    other = written(
        tmp_path / "b.csv", "label,y,x,step,id\nwalk,1.5,1,0,c\nwalk,2,0.5,1,c\nfly,1,1,0,d\n"
    )
    found = split(path, validation_paths=other)
    assert values(found.validation) == [[[1, 1.5], [0.5, 2]]]
    assert found.held_out == f"all of {other}"
    assert found.notes == [
        "1 sequence of validation is left out, since training has no such label: fly (1)",
        "1 sequence of validation is also in training",
    ]


def test_amounts_are_no_classes(tmp_path: Path) -> None:
    y = np.linspace(0, 1, 30)
    path = saved(tmp_path / "a.npz", x=np.arange(60.0).reshape(30, 2), y=y)
    with pytest.raises(GlassformerError, match=r"a\.npz:2: the label is 0\.03.* 30 different numb"):
        split(path)


def test_one_label_is_nothing_to_learn(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match='has only the label "walk"'):
        split(many(tmp_path / "a.npz", walk=9))
