"""Arrays are read as plain numbers; forged or damaged archives are refused."""

import io
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_files import saved, written

from glassformer.data import time_series as arrays_module
from glassformer.data.time_series import Series, read_series
from glassformer.errors import GlassformerError


def complaint(path: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        read_series([path], label_column)
    return str(error.value)


def values(found: list[Series]) -> list[list[list[float]]]:
    return [series.values.tolist() for series in found]


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
        ({"x": [[1.0]]}, "has no array y (arrays: x)."),
        ({"a": [1.0]}, "has no array x and y (arrays: a)."),
        ({"values": [1.0], "labels": [0]}, "x and y (arrays: values, labels). Save it with"),
        ({}, "has no array x and y (arrays: none)."),
        ({"x": [1.0], "y": [1]}, "array x has shape (1,) and type float64"),
        ({"x": [["a"]], "y": [1]}, "array x has shape (1, 1, 1) and type <U1"),
        ({"x": np.zeros((0, 3)), "y": []}, "contains no sequences"),
        ({"x": np.zeros((1, 0)), "y": [1]}, "at least one step and one feature"),
        ({"x": [[1.0]], "y": [1, 2]}, "one label for each sequence of x, shape (1,)"),
        ({"x": [[1.0]], "y": [np.nan]}, ':1: no label in array "y".'),
        ({"x": [[1.0], [np.inf]], "y": [1, 2]}, ":2: step 0, feature 0 of x is inf"),
        ({"x": [[1e300]], "y": [1]}, ":1: step 0, feature 0 of x is 1e+300"),
        ({"x": [[1.0]], "y": [1], "lengths": [2]}, ":1: the length 2 is not between 1 and 1."),
        ({"x": [[1.0]], "y": [1], "lengths": [1.0]}, "whole numbers of shape (1,)"),
        ({"x": [[1.0]], "y": np.array(["a"], dtype=object)}, "array y contains Python objects"),
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
            "declares the shape (1000000000000, 9), which does not match its size",
        ),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", bytes(8)), "declares"),
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
    assert "unpacks to 80.1 kB; the limit is 10 kB" in complaint(path)


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


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_labels_in_bytes_are_text(tmp_path: Path, encoding: str) -> None:
    labels = np.array(["Tanz".encode(encoding), "Rückwärts".encode(encoding)])
    found = read_series([saved(tmp_path / "a.npz", x=[[1.5], [2]], y=labels)])
    assert [each.label for each in found] == ["Tanz", "Rückwärts"]
