"""A part of each of the long proofs; `make prove` does them at full length."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")


@pytest.mark.parametrize(
    ("proof", "verdict"),
    [
        (("kills", "5"), "5 kills in "),
        (("kills", "2", "from"), "2 kills in "),
        (("signals", "2"), "2 SIGTERMs: saved, 143, identical"),
        (("mutations", "2000"), "2,000 mutations: "),
        (("faults", "60"), "9 faults at "),
        (("rivals", "3"), "3 rounds: "),
        pytest.param(
            ("pages", "60", "gpt-history", "captioner", "--seed", "0"),
            "60 gestures on each of 2 pages, seed 0: no fault",
            marks=needs_chromium,
        ),
    ],
)
def test_a_promise_holds(proof: tuple[str, ...], verdict: str) -> None:
    # In a process of its own: it forks, which this one, with its threads, must not.
    command = [sys.executable, "-m", f"proofs.{proof[0]}", *proof[1:]]
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(verdict)
