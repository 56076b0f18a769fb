"""Data of another kind than the model reads: the error says of which, and what reads it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

STEPS = [(number, step) for number in range(30) for step in range(3)]


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path.name


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """The same sequences as a table, without labels, and as arrays."""
    rows = [f"s{n},{t},{n + t}.5,{t}" for n, t in STEPS]
    written(tmp_path / "s.csv", "id,step,x,y,label", *(f"{row},{row[1]}" for row in rows))
    written(tmp_path / "nolabel.csv", "id,step,x,y", *rows)
    np.savez(tmp_path / "s.npz", x=np.zeros((30, 3, 2)), y=np.arange(30) % 2)
    return tmp_path


@pytest.mark.parametrize("name", ["s.csv", "s.npz"])
def test_a_trained_model_of_words_is_not_finetuned_on_numbers(
    glassformer: Any, shelf: Path, series: Path, name: str
) -> None:
    for model in ("bert", "gpt"):
        run = shelf / "runs" / model
        result = glassformer("finetune", run, "--task", "classify", "--data", name, "--out", "r")
        assert (result.code, result.out) == (2, "")
        for part in (f"{name} contains time series", str(run), "rnn-classifier or class"):
            assert part in result.error
    error = glassformer("train", "bag", "--data", name).error
    assert f"{name} contains time series" in error
    assert "bag" in error


def test_a_label_that_is_missing_is_missed(glassformer: Any, series: Path) -> None:
    result = glassformer("train", "rnn-classifier", "--data", "nolabel.csv")
    said = "nolabel.csv has no label column (columns: id, step, x, y)."
    assert (result.code, result.error) == (1, f"{said} Add one, or pass --label-column NAME.")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("t.conll", "it contains tagged words. Use train tagger"),
        ("t.txt", "and its lines are not text, tab, label. Pass one of these, or a folder"),
        ("tabs", "Rename it to tabs.tsv to have it read as a table."),
        ("s.npz", "it contains time series"),
    ],
)
def test_what_holds_no_labelled_texts_points_to_what_does(
    glassformer: Any, shelf: Path, series: Path, name: str, said: str
) -> None:
    written(series / "t.conll", "Ada\tB-NAME", "runs\tO", "", "the\tO", "fox\tO")
    written(series / "tabs", "a fox\tyes\t1", "a dog\tno\t2")
    written(series / "t.txt", "the quick brown fox", "jumps over a lazy dog")
    result = glassformer("evaluate", shelf / "runs/reviews", "--data", name)
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(f"{name} is not a table")
    assert said in result.error
    if name != "s.npz":  # which rnn-classifier would read
        assert glassformer("train", "bag", "--data", name).error == result.error
