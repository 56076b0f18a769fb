"""Runs the cells of a notebook in a process of its own, which is stopped if a cell does not end."""

import ast
import contextlib
import io
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from glassformer.course.checking import UNWRITTEN, Verdict, exercises, verdicts
from glassformer.course.notebook import Notebook
from glassformer.errors import GlassformerError
from glassformer.wording import beginning, counted, first_line

NOT_PYTHON = re.compile(r"^[ \t]*[%!?].*$", re.MULTILINE)  # commands of Jupyter


@dataclass(frozen=True)
class Checked:
    """What the checks in a notebook said, and what went wrong between them."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...] = field(default=())

    @property
    def is_passed(self) -> bool:
        return not self.problems and all(each.is_passed for each in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        exercises = [asdict(each) | {"passed": each.is_passed} for each in self.verdicts]
        return {"exercises": exercises, "problems": list(self.problems)}

    def text(self) -> str:
        passed = sum(each.is_passed for each in self.verdicts)
        total = f"{passed} of {counted(len(self.verdicts), 'exercise')} passed"
        return "\n".join([*map(str, self.verdicts), *self.problems, total])


def run_checks(notebook: Notebook, folder: Path, limit: float) -> Checked:
    """Run all cells in this folder, each for at most `limit` seconds. A cell that fails is
    reported, and the others run."""
    codes = [cell.text for cell in notebook.cells if cell.is_code]
    expected = [_checks(code) for code in codes]
    if not any(expected):
        raise GlassformerError("this notebook has no exercises: no cell calls check(…).")
    found: dict[str, Verdict] = {}
    problems: list[str] = []
    number = 0
    for number, answer in enumerate(_answers(codes, folder, limit), 1):
        name = f"cell {number} of code (it begins {beginning(codes[number - 1].strip(), 40)!r})"
        if answer is None:
            problems.append(
                f"{name} did not end within {limit:g} s; the cells after it were not run."
            )
            break
        found |= {each["exercise"]: Verdict(**each) for each in answer["verdicts"]}
        if answer["error"]:
            problems.append(f"{name} failed: {answer['error']}")
    else:
        if number < len(codes):
            problems.append(f"Python ended in cell {number + 1} of code; nothing after it was run.")
    for names in expected:
        for name in names:
            if name in exercises():
                found.setdefault(name, Verdict(name, UNWRITTEN))
    return Checked(tuple(found.values()), tuple(problems))


def _checks(code: str) -> list[str]:
    """The exercises that a cell checks."""
    return re.findall(r"^\s*check\(\s*[\"'](\w+)[\"']", code, re.MULTILINE)


def _answers(codes: list[str], folder: Path, limit: float) -> Iterator[dict[str, Any] | None]:
    """What each cell did; None: it did not end in time."""
    command = [sys.executable, "-c", f"from {__name__} import run_cells; run_cells()"]
    environment = os.environ | {"MPLBACKEND": "Agg"}
    ends: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=folder, env=environment, **ends)
    lines: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    try:
        reader.start()
        with cast(IO[str], process.stdin) as stream:
            json.dump(codes, stream)
        for _ in codes:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                yield None
                return
            if not line:
                return  # it ended
            yield json.loads(line)
    finally:
        process.kill()
        process.wait()
        reader.join()


def _read(stream: IO[str], lines: "queue.Queue[str]") -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")


def run_cells() -> None:
    """In the process of the notebook: cells from stdin, what each did to stdout, line by line."""
    codes = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")  # what cells print must not get between them
    os.dup2(2, 1)
    names: dict[str, Any] = {"__name__": "__main__"}
    sys.path.insert(0, "")
    for number, code in enumerate(codes, 1):
        error = _error_of(code, f"cell {number}", names)
        answer = {"error": error, "verdicts": [asdict(each) for each in verdicts]}
        verdicts.clear()
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # whatever a cell has started


def _error_of(code: str, name: str, names: dict[str, Any]) -> str:
    """Run a cell. Returns its error; a solution that is not written yet is none."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            tree = ast.parse(NOT_PYTHON.sub("", code), name)
            exec(compile(tree, name, "exec"), names)
    except NotImplementedError:
        return ""
    except SystemExit:
        return "it called exit()"
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return ""
