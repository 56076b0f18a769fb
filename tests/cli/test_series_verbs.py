"""Sequences of numbers are classified from the command line, with labels and without."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LABELS = ("walk", "run")
ROWS = [(number, step) for number in range(40) for step in range(4)]


def table(path: Path, *columns: str) -> Path:
    """Walks are small, runs are large; x and z are their values."""
    lines = [",".join(columns)]
    for number, step in ROWS:
        size = (1, 9)[number % 2]
        row = {
            "id": number,
            "step": step,
            "x": size + (step + number) / 99,
            "z": -size,
            "note": "fine",
        }
        row["label"] = LABELS[number % 2]
        lines.append(",".join(str(row[column]) for column in columns))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("series")


@pytest.fixture
def run(glassformer: Any, home: Path) -> Path:
    if not (home / "r").exists():
        data = table(home / "walks.csv", "id", "step", "x", "z", "label")
        words = ["train", "rnn-classifier", "--data", data, "--out", home / "r", "--layers", 1]
        keys = {"model.d_model": 16, "training.learning_rate": 0.02, "training.num_threads": 1}
        keys |= {"training.precision": "float32", "training.eval_steps": 20}
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        result = glassformer(*words, "--max-steps", 40, *settings)
        assert result.code == 0, result.err
    return home / "r"


def classified(glassformer: Any, run: Path, data: Path) -> list[dict[str, Any]]:
    result = glassformer("classify", run, "--data", data, "--json")
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize(
    "columns",
    [
        ("id", "step", "x", "z"),
        ("z", "step", "note", "id", "x"),
        ("id", "step", "x", "z", "label"),
    ],
)
def test_a_table_needs_no_label(
    glassformer: Any, run: Path, tmp_path: Path, columns: tuple[str, ...]
) -> None:
    data = table(tmp_path / "new.csv", *columns)
    found = classified(glassformer, run, data)
    assert [each["label"] for each in found] == [*LABELS] * 20
    assert [each["source"] for each in found[:2]] == [f"{data}:2", f"{data}:6"]


@pytest.mark.parametrize("more", [{}, {"y": np.array([7.5] * 40)}])
def test_arrays_need_no_labels(
    glassformer: Any, run: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    data = tmp_path / "new.npz"
    sizes = np.array([1.0, 9.0] * 20)[:, None]
    x = np.stack([sizes + np.arange(4) / 8, -sizes + np.zeros(4)], axis=2)
    np.savez(data, x=x, **more)
    found = classified(glassformer, run, data)
    assert [each["label"] for each in found] == [*LABELS] * 20


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (("id", "step", "x"), "has no column z, which the model requires (columns: id, step, x)."),
        (("id", "x", "z"), "must have exactly one column named step or time"),
    ],
)
def test_values_that_are_missing_are_named(
    glassformer: Any, run: Path, tmp_path: Path, columns: tuple[str, ...], problem: str
) -> None:
    data = table(tmp_path / "new.csv", *columns)
    assert problem in glassformer("classify", run, "--data", data).error


def test_without_labels_nothing_can_be_measured(
    glassformer: Any, run: Path, tmp_path: Path
) -> None:
    data = table(tmp_path / "new.csv", "id", "step", "x", "z")
    assert "label" in glassformer("evaluate", run, "--data", data).error


def test_the_shape_is_looked_at_before_the_labels(
    glassformer: Any, run: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 4, 3)), y=np.array(["swim"] * 3))
    error = glassformer("evaluate", run, "--data", "a.npz").error
    assert error == "a.npz:1 has the shape (4, 3), but the model reads (steps, 2)."


def test_labels_never_seen_are_listed_beside_those_it_knows(
    glassformer: Any, run: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 4, 2)), y=np.array(["swim", "fly", "swim"]))
    error = glassformer("evaluate", run, "--data", "a.npz").error
    assert error.endswith("does not know: swim (2), fly (1). It knows: run, walk.")
