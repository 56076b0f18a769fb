"""Exercises, and what is said about a solution: passed, or what is wrong with it and a hint.

An exercise has a judge, a function that uses the solution and raises `Wrong` at the first thing
that is not as it should be. Judges look at what a solution does, never at its text: they call it on
random input, compare with the same thing in glassformer, or read the folders of runs.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.course.notebooks import NOTEBOOKS
from glassformer.errors import GlassformerError
from glassformer.wording import an, did_you_mean, first_line, joined

if TYPE_CHECKING:
    from glassformer.training.run_folder import RunFolder

Judge = Callable[..., None]
UNWRITTEN = "not written yet"


@dataclass(frozen=True)
class Exercise:
    name: str
    notebook: str
    title: str
    judge: Judge

    @property
    def is_experiment(self) -> bool:
        """Whether it is about runs, not about a function."""
        return "function" not in signature(self.judge).parameters


@dataclass(frozen=True)
class Verdict:
    """What is said about a solution. `problem` is empty if it passed."""

    exercise: str
    problem: str = ""
    hint: str = ""

    @property
    def is_passed(self) -> bool:
        return not self.problem

    def __str__(self) -> str:
        if self.is_passed:
            return f"{self.exercise}: passed"
        hint = f" Hint: {self.hint}" if self.hint else ""
        return f"{self.exercise}: {self.problem}.{hint}"


class Wrong(Exception):  # noqa: N818
    """What is wrong with a solution, as a sentence without its stop, and a hint, which does not
    give the solution away."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def exercise(judge: Judge) -> Judge:
    """Mark a judge in a file of `exercises/`. The exercise has its name and, as title, its
    docstring."""
    judge.__dict__["is_exercise"] = True
    return judge


@cache
def exercises() -> dict[str, Exercise]:
    """All exercises by name, in the order of the notebooks."""
    found = {}
    for notebook in NOTEBOOKS:
        judges = vars(import_module(f"glassformer.course.exercises.{notebook}")).values()
        for judge in [each for each in judges if getattr(each, "is_exercise", False)]:
            title = (judge.__doc__ or "").strip()
            found[judge.__name__] = Exercise(judge.__name__, notebook, title, judge)
    return found


def exercises_of(notebook: str) -> list[Exercise]:
    return [each for each in exercises().values() if each.notebook == notebook]


verdicts: list[Verdict] = []
"""What `check` said in this process."""


def check(name: str, *solution: Any) -> None:
    """Say what is wrong with the solution of an exercise, or that it passed. The solution is a
    function or, for an experiment, the folders of one or more runs."""
    verdict = verdict_on(name, *solution)
    verdicts.append(verdict)
    print(verdict)  # noqa: T201


def verdict_on(name: str, *solution: Any) -> Verdict:
    if name not in exercises():
        cure = did_you_mean(name, exercises(), "See: glassformer course list.")
        raise GlassformerError(f"there is no exercise {name!r}. {cure}")
    judge = exercises()[name].judge
    wanted = list(signature(judge).parameters)
    if len(solution) != len(wanted):
        asked = joined(an(each.replace("_", " ")) for each in wanted)
        raise GlassformerError(f"check({name!r}, …) takes {asked}.")
    if wanted == ["function"] and not callable(solution[0]):
        hint = f'pass the function itself, without calling it: check("{name}", {name}).'
        return Verdict(name, f"it was given {_kind(solution[0])}, not a function", hint)
    given = [Solution(each) if callable(each) else each for each in solution]
    try:
        with torch.random.fork_rng(), torch.inference_mode(False):
            torch.manual_seed(0)
            judge(*given)
    except NotImplementedError:
        return Verdict(name, UNWRITTEN)
    except Wrong as wrong:
        return Verdict(name, wrong.problem, wrong.hint)
    return Verdict(name)


# --- what judges use ---


@dataclass(frozen=True)
class Solution:
    """The function that somebody wrote, called with care."""

    function: Callable[..., Any]

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """What it returns. An error in it, and a change of what it was given, are wrong."""
        before = [each.clone() if isinstance(each, Tensor) else each for each in inputs]
        try:
            found = self.function(*inputs, **options)
        except (NotImplementedError, Wrong):
            raise
        except Exception as error:
            what = f"it raised {type(error).__name__} ({first_line(error).rstrip('.')})"
            hint = IN_PLACE if "in-place" in str(error) else ""
            raise Wrong(f"{what} for {_described(inputs, options)}", hint) from error
        for old, new in zip(before, inputs, strict=True):
            if isinstance(old, Tensor) and not torch.equal(old, new):
                raise Wrong("it changed its input in place", "compute a new tensor instead.")
        return found

    def tensor(self, *inputs: Any, shape: Sequence[int], **options: Any) -> Tensor:
        """The tensor that it returns, which must have this shape."""
        found = self(*inputs, **options)
        if not isinstance(found, Tensor):
            raise Wrong(f"it returned {_kind(found)}, not a tensor", _how_to_return(found))
        if tuple(found.shape) != tuple(shape):
            given = _described(inputs, options)
            hint = "print the shape after each step." if found.dim() == len(shape) else DIMENSIONS
            raise Wrong(f"its shape is {tuple(found.shape)}, not {tuple(shape)}, for {given}", hint)
        return found.detach()

    def number(self, *inputs: Any, **options: Any) -> float:
        """The number that it returns, also as a tensor."""
        found = self(*inputs, **options)
        if isinstance(found, np.generic) or (isinstance(found, Tensor) and found.numel() == 1):
            found = found.item()
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise Wrong(f"it returned {_kind(found)}, not a number", _how_to_return(found))
        return float(found)


def is_close(found: Tensor | float, wanted: Tensor | float, tolerance: float = 1e-5) -> bool:
    found, wanted = torch.as_tensor(found).double(), torch.as_tensor(wanted).double()
    return bool(torch.allclose(found, wanted, rtol=tolerance, atol=tolerance))


def expect(
    found: Tensor,
    wanted: Tensor,
    hint: str,
    mistakes: Mapping[str, tuple[Tensor, str]] | None = None,
    what: str = "the number",
) -> None:
    """Raise unless it is what is wanted. `mistakes` are typical ones: what is said about each, what
    it gives, and its own hint."""
    if is_close(found, wanted):
        return
    for problem, (value, own_hint) in (mistakes or {}).items():
        if is_close(found, value):
            raise Wrong(problem, own_hint)
    place = first_difference(found, wanted)
    at = ", ".join(map(str, place))
    raise Wrong(f"{what} at [{at}] is {found[place]:.4f}, not {wanted[place]:.4f}", hint)


def first_difference(found: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> tuple[int, ...]:
    """Where a tensor first differs from another of its shape."""
    differs = (found.double() - wanted.double()).abs() > tolerance * (1 + wanted.double().abs())
    differs |= found.isnan() != wanted.isnan()
    return tuple(int(place) for place in differs.nonzero()[0])


def finished_run(path: Any, model: str) -> "RunFolder":
    """The folder of a finished run of this model."""
    from glassformer.training.run_folder import RunFolder

    if not isinstance(path, str | os.PathLike):
        raise Wrong(f"{_kind(path)} is not the folder of a run", "pass its path.")
    path = Path(path)
    run = RunFolder(path)
    if not run.exists:
        raise Wrong(f"{path} is not the folder of a run", "pass what --out or out= named.")
    if (found := run.recipe().model_name) != model:
        raise Wrong(f"{path} is a run of {an(found)}, not of {an(model)}")
    if not run.is_finished():
        raise Wrong(f"the run in {path} is not finished", "continue it with --resume.")
    return run


def check_same_but(run: "RunFolder", other: "RunFolder", keys: Sequence[str]) -> None:
    """Refuse two runs unless their recipes differ in some of these keys, and in nothing else that
    decides what is learned."""
    from glassformer.training.run_folder import changes_between, fingerprint

    first, second = (fingerprint(each.recipe(), 0) for each in (run, other))
    ignored = {f"training.{key}" for key in ("device", "precision", "num_threads")}
    if "data.paths" in keys:  # other texts may have other words
        ignored |= {"model.vocab_size", "tokenizer.vocab_size"}
    changes = [each for each in changes_between(first, second) if each[0] not in ignored]
    if not any(key in keys for key, *_ in changes):
        names = joined(keys)
        raise Wrong(f"both runs have the same {names}", "the experiment is what differs.")
    for key, before, now in changes:
        if key not in keys:
            raise Wrong(
                f"the runs also differ in {key}: {before!r} and {now!r}",
                "change one thing at a time, or nobody knows what made the difference.",
            )


def final_scores(run: "RunFolder") -> dict[str, Any]:
    """The scores of a run on its test data."""
    from glassformer.training.report import read_test

    test = read_test(run.path)
    if test is None:
        problem = f"the run in {run.path} was not tested: it has no result on test data"
        raise Wrong(problem, "train it with test_data.")
    return test.scores


def _described(inputs: Sequence[Any], options: dict[str, Any]) -> str:
    each = [_shape(value) for value in inputs]
    each += [f"{name}={_shape(value)}" for name, value in options.items()]
    return ", ".join(each)


DIMENSIONS = "it has too many dimensions or too few: which is summed, and which stay?"
IN_PLACE = "change weights inside `with torch.no_grad():`."


def _how_to_return(found: Any) -> str:
    if found is None:
        return "return the result; print only shows it."
    if isinstance(found, list | tuple | np.ndarray):
        return "stay in torch: torch.stack, torch.cat or torch.tensor."
    return ""


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, nn.Module):
        return an(type(value).__name__)
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}…"


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return _shape(value)
    return "nothing" if value is None else an(type(value).__name__)
