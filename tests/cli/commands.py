"""The command line as a user runs it."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from glassformer.cli.main import main

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "it")


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


def in_new_process(*words: object, cwd: Path, stdin: str = "") -> Result:
    command = [sys.executable, "-m", "glassformer", *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, encoding="utf-8", timeout=120
    )
    return Result(done.returncode, done.stdout, done.stderr)


def in_this_process(*words: object, cwd: Path, stdin: str | bytes = "") -> Result:
    """As if typed in that folder, which spares the imports."""
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.delenv("GLASSFORMER_DEBUG", raising=False)
        patch.setattr(sys, "argv", ["glassformer", *map(str, words)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), "utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
    return Result(int(ended.value.code or 0), out.getvalue(), err.getvalue())
