"""The command line as a user runs it, and one small run that all tests share."""

import io
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from glassformer.cli import main

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "it")

SMALL = {
    "model.num_layers": 1,
    "model.d_model": 32,
    "model.num_heads": 2,
    "model.context_length": 32,
    "training.per_device_train_batch_size": 4,
    "training.precision": "float32",
    "training.num_threads": 1,
}


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one sentence for the user, which must come last and without a traceback."""
        assert "Traceback" not in self.err
        last = self.err.splitlines()[-1]
        kind, _, sentence = last.partition(": ")
        assert kind in ("error", "Error")  # the second is the option parser's
        return sentence


@dataclass(frozen=True)
class Run:
    """A finished training."""

    folder: Path
    notes: Path
    training: Result


Command = Callable[..., Result]


def in_new_process(*words: object, cwd: Path, stdin: str = "") -> Result:
    command = [sys.executable, "-m", "glassformer", *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, encoding="utf-8", timeout=120
    )
    return Result(done.returncode, done.stdout, done.stderr)


def small_options() -> list[str]:
    return [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Options for a model that trains in a moment, on a machine that need not be measured."""
    return small_options()


@pytest.fixture(scope="session")
def text() -> str:
    """Twenty thousand characters of sentences."""
    draw = random.Random(0)
    return "".join(" ".join(draw.choices(WORDS, k=9)) + ".\n" for _ in range(480))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, text: str) -> Run:
    """`glassformer train gpt --data notes.txt`, for 20 steps, in a folder of its own."""
    home = tmp_path_factory.mktemp("home")
    (home / "notes.txt").write_text(text)
    words = ["train", "gpt", "--data", "notes.txt", "--max-steps", "20", *small_options()]
    training = in_new_process(*words, cwd=home)
    assert training.code == 0, training.err
    return Run(home / "runs" / "gpt-notes", home / "notes.txt", training)


@pytest.fixture
def program(tmp_path: Path) -> Command:
    """`python -m glassformer …` in an empty folder."""

    def call(*words: object, stdin: str = "") -> Result:
        return in_new_process(*words, cwd=tmp_path, stdin=stdin)

    return call


@pytest.fixture
def glassformer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The same within this process, which spares the imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GLASSFORMER_DEBUG", raising=False)

    def call(*words: object, stdin: str | bytes = "") -> Result:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["glassformer", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), "utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return call
