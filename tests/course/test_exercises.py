"""Every exercise: the solution in the notebook passes, typical wrong ones get the hint for them."""

from importlib import import_module
from typing import Any

import pytest

from glassformer.course.checking import Exercise, exercises, verdict_on
from glassformer.course.notebook import SOLUTION, notebook
from glassformer.course.notebooks import NOTEBOOKS

ALL = list(exercises().values())


def wrong_solutions(name: str) -> dict[str, list[tuple[str, Any]]]:
    found: dict[str, list[tuple[str, Any]]] = import_module(f"course.wrong.{name}").WRONG
    return found


@pytest.mark.parametrize("exercise", ALL, ids=lambda each: each.name)
def test_the_reference_solution_passes(exercise: Exercise) -> None:
    if exercise.is_experiment:
        pytest.skip("its solution trains a model: see test_experiments.py")
    codes = [cell.text for cell in notebook(exercise.notebook).cells if cell.is_code]
    (solution,) = [code for code in codes if f'check("{exercise.name}"' in code]
    assert SOLUTION.search(solution)
    names: dict[str, Any] = {}
    for code in (codes[0], solution.partition("\ncheck(")[0]):
        exec(compile(code, exercise.name, "exec"), names)
    verdict = verdict_on(exercise.name, names[exercise.name])
    assert verdict.is_passed, str(verdict)


@pytest.mark.parametrize("exercise", ALL, ids=lambda each: each.name)
def test_typical_wrong_solutions_get_the_hint_for_them(exercise: Exercise) -> None:
    if exercise.is_experiment:
        pytest.skip("its wrong solutions need runs: see test_experiments.py")
    wrong = wrong_solutions(exercise.notebook)[exercise.name]
    assert len(wrong) >= 3
    for words, solution in wrong:
        given = solution if isinstance(solution, tuple) else (solution,)
        verdict = verdict_on(exercise.name, *given)
        assert not verdict.is_passed, words
        assert words in f"{verdict.problem} {verdict.hint}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_gives_no_solution_away(name: str) -> None:
    solved = notebook(name)
    empty = solved.without_solutions()
    for cell, stripped in zip(solved.cells, empty.cells, strict=True):
        for match in SOLUTION.finditer(cell.text):
            lines = [line.strip() for line in match[2].splitlines() if len(line.strip()) > 12]
            assert not any(line in stripped.text for line in lines)
    checks = [cell.text.count("check(") for cell in empty.cells if cell.is_code]
    own = [each.name for each in ALL if each.notebook == name]
    assert sum(checks) == len(own)
    assert all(any(f'check("{each}"' in cell.text for cell in empty.cells) for each in own)
