"""Runs the cells of a notebook in a process of its own, which is stopped if a cell does not end."""

import ast
import contextlib
import io
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from glassformer.course.checking import UNWRITTEN, Verdict, exercises, verdicts
from glassformer.course.notebook import Notebook
from glassformer.errors import GlassformerError
from glassformer.wording import beginning, counted, first_line

CHECK = re.compile(r"^\s*check\(\s*[\"'](\w+)[\"']", re.MULTILINE)
FAILED, UNREACHED = "its cell failed", "not reached"
JUPYTER = re.compile(r"^[ \t]*[%!?].*$", re.MULTILINE)  # commands of Jupyter, which are left out


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


def run_checks(
    notebook: Notebook,
    folder: Path,
    limit: float,
    notify: Callable[[int, int], None] = lambda number, count: None,
) -> Checked:
    """Run all cells in this folder, each for at most `limit` seconds. A cell that fails is
    reported, and the others run. `notify` hears how many cells of how many have run."""
    codes = [cell.text for cell in notebook.cells if cell.is_code]
    named = [CHECK.findall(code) for code in codes]
    if not any(named):
        raise GlassformerError("this notebook has no exercises: no cell calls check(…).")
    expected = [[name for name in names if name in exercises()] for names in named]
    found: dict[str, Verdict] = {}
    problems: list[str] = []
    count = 0  # of the cells that have ended
    for count, answer in enumerate(_answers(codes, folder, limit), 1):
        notify(count, len(codes))
        code = codes[count - 1]
        name = f"cell {count} of code (it begins {beginning(code.strip(), 40)!r})"
        if answer is None:
            end = f"did not end within {limit:g} s; the cells after it were not run"
            problems.append(f"{name} {end}.")
            count -= 1
            break
        if answer["error"]:
            problems.append(f"{name} failed: {answer['error']}")
        found |= {each["exercise"]: Verdict(**each) for each in answer["verdicts"]}
        for missing in expected[count - 1]:
            found.setdefault(missing, Verdict(missing, FAILED if answer["error"] else UNWRITTEN))
    else:
        if count < len(codes):
            problems.append(f"Python ended in cell {count + 1} of code; nothing after it was run.")
    for names in expected[count:]:
        for missing in names:
            found.setdefault(missing, Verdict(missing, UNREACHED))
    return Checked(tuple(found.values()), tuple(problems))


def _answers(codes: list[str], folder: Path, limit: float) -> Iterator[dict[str, Any] | None]:
    """What each cell did; None: it did not end in time."""
    command = [sys.executable, "-c", f"from {__name__} import run_cells; run_cells()"]
    environment = os.environ | {"MPLBACKEND": "Agg"}
    ends: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    # In a session of its own: what the cells have started is stopped with it.
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **ends)
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
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
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
    is_complete = True  # so far, no solution was missing, which others may need
    for number, code in enumerate(codes, 1):
        error = ""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(_parsed(code, f"cell {number}"), f"cell {number}", "exec"), names)
        except NotImplementedError:
            is_complete = False
        except SystemExit:
            error = "it called exit()"
        except Exception as raised:
            if is_complete or not isinstance(raised, NameError):
                error = f"{type(raised).__name__}: {first_line(raised)}"
        answer = {"error": error, "verdicts": [asdict(each) for each in verdicts]}
        verdicts.clear()
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # whatever a cell has started


def _parsed(code: str, name: str) -> ast.Module:
    """The Python of a cell, without the commands of Jupyter that may stand in it."""
    if code.lstrip().startswith("%%"):
        return ast.parse("")
    try:
        return ast.parse(code, name)
    except SyntaxError:
        return ast.parse(JUPYTER.sub("", code), name)
