"""The commands of the course, as a student uses them."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.course import check
from glassformer.course.checking import verdict_on
from glassformer.course.notebook import from_markdown, notebook, read_notebook
from glassformer.course.running import run_checks
from glassformer.errors import GlassformerError

IMPORT = "```{code-cell}\nimport torch\nfrom glassformer.course import check\n```\n"
MASK = """
```{code-cell}
def causal_mask(length):
    return torch.ones(length, length)DIFFERENCE.bool()


check("causal_mask", causal_mask)
```
"""


def checked(text: str, folder: Path, limit: float = 60) -> list[str]:
    return run_checks(from_markdown(IMPORT + text), folder, limit).text().splitlines()


def test_a_check_prints_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    check("causal_mask", lambda length: [[True] * length] * length)
    said = capsys.readouterr().out
    assert said.startswith("causal_mask: it returned a list, not a tensor. Hint: stay in torch")


def test_a_result_in_place_of_the_function_is_no_error() -> None:
    import torch

    said = str(verdict_on("causal_mask", torch.ones(3, 3)))
    assert "was given a tensor of shape (3, 3), not a function" in said
    assert 'check("causal_mask", causal_mask)' in said


def test_an_unknown_exercise_names_the_nearest() -> None:
    with pytest.raises(GlassformerError, match="Did you mean causal_mask"):
        check("casual_mask", len)


def test_a_check_with_too_few_arguments_says_what_it_takes() -> None:
    with pytest.raises(GlassformerError, match=r"check\('causal_mask', …\) takes a function"):
        check("causal_mask")


def test_an_error_in_a_solution_is_part_of_the_sentence() -> None:
    said = str(verdict_on("split_heads", lambda x: x))
    assert "it raised TypeError" in said
    assert "for a tensor of shape (5, 6), 2" in said


def test_checking_changes_no_random_state_and_is_repeatable() -> None:
    import torch

    before = torch.random.get_rng_state()
    said = [str(verdict_on("similarity_weights", lambda x: x @ x.T)) for _ in range(2)]
    assert said[0] == said[1]
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_notebook_of_a_student_is_checked(tmp_path: Path) -> None:
    assert checked(MASK.replace("DIFFERENCE", ".tril()"), tmp_path) == [
        "causal_mask: passed",
        "1 of 1 exercise passed",
    ]
    said, total = checked(MASK.replace("DIFFERENCE", ""), tmp_path)
    assert said.startswith("causal_mask: row 0 attends to position 1, which is later. Hint:")
    assert total == "0 of 1 exercise passed"


def test_a_cell_that_fails_is_named_and_the_others_run(tmp_path: Path) -> None:
    text = "```{code-cell}\n%matplotlib inline\n1 / 0\n```\n" + MASK.replace(
        "DIFFERENCE", ".tril()"
    )
    said = checked(text, tmp_path)
    assert said[0] == "causal_mask: passed"
    assert said[1].startswith("cell 2 of code (it begins '%matplotlib")
    assert said[1].endswith("failed: ZeroDivisionError: division by zero.")


def test_a_cell_that_never_ends_is_stopped(tmp_path: Path) -> None:
    text = "```{code-cell}\nwhile True:\n    pass\n```\n" + MASK.replace("DIFFERENCE", ".tril()")
    said = checked(text, tmp_path, limit=4)
    assert said[0] == "causal_mask: not reached."
    assert "did not end within 4 s; the cells after it were not run" in said[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.timeout(60)
def test_what_a_cell_has_started_is_stopped_with_it(tmp_path: Path) -> None:
    fork = "```{code-cell}\nimport os, time\nif os.fork() == 0:\n    time.sleep(600)\n```\n"
    said = checked(fork + MASK.replace("DIFFERENCE", ".tril()"), tmp_path)
    assert said == ["causal_mask: passed", "1 of 1 exercise passed"]


def test_a_cell_that_ends_python_is_reported(tmp_path: Path) -> None:
    text = "```{code-cell}\nimport os\nos._exit(3)\n```\n" + MASK.replace("DIFFERENCE", ".tril()")
    assert "Python ended in cell 2" in checked(text, tmp_path)[1]


def test_what_needs_a_solution_that_is_missing_is_no_fault(tmp_path: Path) -> None:
    missing = "```{code-cell}\nmask = 1\nraise NotImplementedError\n```\n"
    use = "```{code-cell}\nx = (9\n  %4)\nprint(mask, nothing)\n```\n"
    assert checked(missing + use + MASK.replace("DIFFERENCE", ".tril()"), tmp_path) == [
        "causal_mask: passed",
        "1 of 1 exercise passed",
    ]
    assert "NameError" in checked(use + MASK.replace("DIFFERENCE", ""), tmp_path)[1]


@pytest.mark.parametrize("limit", ["abc", "0s", "5"])
def test_a_time_that_is_none_is_wrong_usage(limit: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(IMPORT)
    done = CliRunner().invoke(
        app, ["course", "check", str(tmp_path / "a.md"), "--time-limit", limit]
    )
    assert done.exit_code == 2
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_the_notebook_for_jupyter_has_the_same_cells(tmp_path: Path) -> None:
    empty = notebook("attention").without_solutions()
    (tmp_path / "a.ipynb").write_text(empty.as_jupyter())
    (tmp_path / "a.md").write_text(empty.as_markdown())
    jupyter, markdown = (read_notebook(tmp_path / name) for name in ("a.ipynb", "a.md"))
    assert [cell.text for cell in jupyter.cells] == [cell.text for cell in markdown.cells]
    assert json.loads((tmp_path / "a.ipynb").read_text())["nbformat"] == 4
    assert jupyter.as_jupyter() == markdown.as_jupyter()


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"cells": 3}'])
def test_what_is_no_notebook_gets_a_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(content)
    with pytest.raises(GlassformerError):
        read_notebook(tmp_path / "a.ipynb")
