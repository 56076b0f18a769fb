"""Sequences come out step by step, and an .npz can neither run code nor fill the memory."""

from pathlib import Path

import numpy as np
import pytest
from written_files import saved, written

from glassformer.data.time_series import Series, is_series, read_series
from glassformer.errors import GlassformerError

WALKS = "id,step,x,y,label\na,1,0.5,2,walk\nb,0,5,6,run\na,0,1,1.5,walk\nb,1,7,8,run\n"


def complaint(path: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        read_series([path], label_column)
    return str(error.value)


def values(found: list[Series]) -> list[list[list[float]]]:
    return [series.values.tolist() for series in found]


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
        ("a,2,x,1,walk", ":6: column \"x\" contains 'x', not a finite"),
        ("a,2,nan,1,walk", ":6: column \"x\" contains 'nan', not a finite"),
        ("a,2,1,,walk", ":6: column \"y\" contains '', not a finite"),
        ("a,2,1e39,1,walk", ":6: column \"x\" contains '1e39', not a finite"),
        ("a,soon,1,1,walk", ":6: column \"step\" contains 'soon', not a finite"),
        ("a,1.0,1,1,walk", ":6: step 1.0 of id a is repeated."),
        ("a,2,1,1,run", ':6: id a has the label "run", but "walk" at '),
        ("a,2,1,1,", ':6: no label in column "label".'),
        (",2,1,1,run", ':6: column "id" is empty.'),
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path: Path, row: str, problem: str) -> None:
    path = written(tmp_path / "a.csv", f"{WALKS}{row}\n")
    assert f"{path}{problem}" in complaint(path)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("id,step,label", "has no value column besides id, step, label."),
        (
            "id,v,label",
            "must have exactly one column named step or time, but has none (columns: id, v, label)",
        ),
        ("id,t,step,v,label", "must have exactly one column named step or time, but has t, step"),
        ("id,step,u,v", "has no label column (columns: id, step, u, v)."),
    ],
)
def test_an_unclear_table_is_refused(tmp_path: Path, header: str, problem: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    assert problem in complaint(written(tmp_path / "a.csv", f"{header}\n{row}\n"))


def test_tables_must_have_the_same_values(tmp_path: Path) -> None:
    first = written(tmp_path / "a.csv", "id,step,u,label\na,0,1,x\n")
    second = written(tmp_path / "b.csv", "id,step,v,label\na,0,1,x\n")
    with pytest.raises(GlassformerError, match="has the value columns v; expected u"):
        read_series([first, second])
    third = saved(tmp_path / "c.npz", x=np.zeros((1, 2, 3)), y=[0])
    with pytest.raises(GlassformerError, match=r"has 3 values per step, but .* has 1"):
        read_series([first, third])


def test_sequences_may_have_no_labels(tmp_path: Path) -> None:
    bare = written(tmp_path / "a.csv", "id,step,v,u\na,0,1,2\n")
    found = read_series([bare], features=("u", "v"), is_labelled=False)
    assert (values(found), found[0].label) == ([[[2, 1]]], "")
    labelled = written(tmp_path / "b.csv", "id,step,u,kind,label\na,0,1,x,z\n")
    assert values(read_series([labelled], "kind", is_labelled=False)) == [[[1]]]
    with pytest.raises(GlassformerError, match=r"has no column v, which the model requires"):
        read_series([labelled], features=("u", "v"), is_labelled=False)
    arrays = saved(tmp_path / "c.npz", x=[[1.0]])
    assert values(read_series([arrays], is_labelled=False)) == [[[1]]]


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
