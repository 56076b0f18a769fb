"""What takes long is done once, and shown while it lasts."""

import io
import json
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.main import main
from glassformer.tasks.labels import scores as classification
from glassformer.tasks.language import scores as language


def rows(result: Any) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_the_baseline_is_trained_once_for_the_same_data(
    glassformer: Any, shelf: Path, tmp_path: Path
) -> None:
    run, test_csv = tmp_path / "run", tmp_path / "test.csv"
    test_csv.write_text("review,sentiment\na good fox,good\na bad dog,bad\nthe lazy fox,good\n")
    shutil.copytree(shelf / "runs" / "reviews", run)
    shutil.copy(shelf / "reviews.csv", tmp_path)
    training = "training the baseline (TF-IDF + logistic regression) …"
    command = ("compare", run, "--data", test_csv, "--json")
    first, again = glassformer(*command), glassformer(*command)
    assert training in first.err
    assert training not in again.err
    assert rows(first) == rows(again)
    (run / "baseline.json").write_text("[")
    assert rows(glassformer(*command)) == rows(first)
    test_csv.write_text("review,sentiment\na good dog,good\na bad dog,bad\n")
    assert training in glassformer(*command).err
    with (tmp_path / "reviews.csv").open("a") as file:
        file.write("an entirely good duck,good\n")
    assert training in glassformer(*command).err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("run", "data"),
    [("reviews", "reviews.csv"), ("names", "names.conll"), ("gpt", "text.txt")],
)
def test_evaluate_shows_its_progress_on_a_terminal_only(
    shelf: Path, glassformer: Any, monkeypatch: Any, run: str, data: str
) -> None:
    words = ["evaluate", str(shelf / "runs" / run), "--data", str(shelf / data)]
    assert "evaluating" not in glassformer(*words).err
    for module in (classification, language):
        monkeypatch.setattr(module, "READ_AT_ONCE", 64, raising=False)
        monkeypatch.setattr(module, "BATCH_TOKENS", 64, raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "argv", ["glassformer", *words])
    with redirect_stderr(terminal), redirect_stdout(io.StringIO()), pytest.raises(SystemExit):
        main()
    assert "\revaluating ▰" in terminal.getvalue()
    assert terminal.getvalue().rstrip(" ").endswith("\r")
