"""A task is its files and a row, a model its file and a row: nothing else has to know of them.

The task and the models stand beside this test, not in the package."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import bigram
import pytest
import straight_line
import torch

from glassformer.cli.main import main
from glassformer.models import MODELS
from glassformer.tasks import TASKS, load

HERE = Path(__file__).parent
QUICK = ["--set", "training.max_steps=12", "--set", "training.save_steps=3"]
QUICK += ["--set", "training.num_threads=1", "--set", "training.precision=float32"]

Command = Callable[..., str]


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    """The rows of the toys, for as long as a test takes."""
    models, tasks = dict(MODELS), dict(TASKS)
    bigram.add_row()
    straight_line.add_rows()
    TASKS["solve-line"] = replace(straight_line.LINE, fit=least_squares)
    MODELS["solved-line"] = replace(straight_line.ROW, task="solve-line", code=solved_line)
    yield
    for table, before in ((MODELS, models), (TASKS, tasks)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


def least_squares(objective: Any, model: Any, stream: Any) -> None:
    """A line without gradient steps."""
    # In double precision: LAPACK's last digit depends on where in memory the points are.
    points = objective.dataset.training.double()
    columns = torch.cat((points[:, :1], torch.ones(len(points), 1)), dim=1)
    slope, intercept = torch.linalg.lstsq(columns, points[:, 1:]).solution
    model.linear.weight.data.copy_(slope[None])
    model.linear.bias.data.copy_(intercept)


def solved_line() -> Any:
    """A class of its own, since the table finds the name of a model by its class."""
    return straight_line.LineConfig, SolvedLine


class SolvedLine(straight_line.Line):
    pass


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a verb as a user does, in a folder with data; what it printed."""
    points = "".join(f"{x / 50},{3 * x / 50 - 1}\n" for x in range(100))
    (tmp_path / "points.csv").write_text(points)
    (tmp_path / "notes.txt").write_text("the cat sat on the mat. the dog sat on the log.\n" * 40)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["glassformer", *words])
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as end:
            main()
        assert (end.value.code or 0) == code, printed.getvalue()
        return printed.getvalue()

    return run


def files(run: str) -> dict[str, bytes]:
    found = (path for path in Path(run).rglob("*") if path.is_file())
    kept = (path for path in found if not path.name.startswith("events.out"))
    return {str(path.relative_to(run)): path.read_bytes() for path in kept}


def test_the_toys_are_as_small_as_promised() -> None:
    def num_lines(name: str) -> int:
        return sum(bool(line.strip()) for line in (HERE / name).read_text().splitlines())

    assert num_lines("straight_line.py") < 100
    assert num_lines("bigram.py") < 40


def test_a_new_task_trains_and_can_be_used_by_every_verb(command: Command) -> None:
    assert "line" in command("train", "--help")
    plan = json.loads(command("train", "line", "--data", "points.csv", "--dry-run", "--json"))
    assert plan["num_parameters"] == 2
    assert plan["num_points"] == 90
    shown = command("train", "line", "--data", "points.csv", "--out", "run", *QUICK)
    assert "validation loss" in shown
    assert "90 points" in shown
    assert "mean squared error" in Path("run/README.md").read_text()
    found = json.loads(command("evaluate", "run", "--data", "points.csv", "--json"))
    assert found["loss"] == load("run").evaluate("points.csv").loss
    assert "--label-column" in command(
        "evaluate", "run", "--data", "points.csv", "--label-column", "y", code=2
    )
    assert "identical" in command("verify", "run")
    command("train", "line", "--data", "points.csv", "--out", "other", *QUICK, "--seed", "3")
    assert command("compare", "run", "other", "--data", "points.csv").count("\n") == 3
    assert "evaluate" in command("generate", "run", "once upon", code=2)


def test_a_new_task_resumes_to_the_same_bytes_after_a_kill(command: Command) -> None:
    command("train", "line", "--data", "points.csv", "--out", "straight", *QUICK)
    words = ["glassformer", "train", "line", "--data", "points.csv", "--out", "killed", *QUICK]
    program = (
        "import os, signal, sys, straight_line\n"
        "straight_line.add_rows()\n"
        "learn = straight_line.FitLine.batch\n"
        "def batch(self, number, most=None):\n"
        "    if number == 7: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return learn(self, number, most)\n"
        "straight_line.FitLine.batch = batch\n"
        f"sys.argv = {words}\n"
        "from glassformer.cli.main import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    command("train", "--resume", "--out", "killed")
    assert files("killed") == files("straight")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{HERE}:{HERE.parent.parent}"}


def test_a_task_may_bring_its_own_way_to_train(command: Command) -> None:
    assert "2 parameters" in command("train", "solved-line", "--data", "points.csv", "--dry-run")
    limit = ("--time-limit", "1h")
    shown = command("train", "solved-line", "--data", "points.csv", "--out", "run", *limit)
    assert "validation loss 0.0000" in shown
    assert load("run").evaluate("points.csv").loss < 1e-9
    assert "already finished" in command("train", "--resume", "--out", "run")
    assert "identical" in command("verify", "run")


def test_a_new_model_of_a_known_task_is_one_file_and_one_row(command: Command) -> None:
    quick = [*QUICK, "--set", "training.learning_rate=0.1"]
    command("train", "bigram", "--data", "notes.txt", "--out", "run", *quick)
    assert command("generate", "run", "the ", "--max-new-tokens", "8", "--seed", "1")
    assert json.loads(command("score", "run", "the cat", "--json"))["total"] < 0
    assert json.loads(command("evaluate", "run", "--data", "notes.txt", "--json"))["loss"] < 3
    assert "identical" in command("verify", "run")
