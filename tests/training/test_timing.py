"""What is tried before a training: the number of threads, and how long a step takes."""

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.machine.host import Setup
from glassformer.tasks.evaluating import tracked
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.training import loop
from glassformer.training import run as story
from glassformer.training import time_limit as timing
from glassformer.training.finetuning import new_model
from glassformer.training.learner import Learner
from glassformer.training.preparation import prepare_temporarily, use_machine
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import choose_threads, measured

Make = Callable[..., Recipe]


def seconds_of(objective: Objective) -> Any:
    return measured(objective, use_machine(objective.recipe), new_model(objective.recipe))


def slow_reading(parts: int) -> None:
    for _ in tracked(range(parts), [1] * parts):
        time.sleep(0.1)


def test_validation_and_sampling_are_measured(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with prepare_temporarily(tiny(max_steps=100)) as objective:
        monkeypatch.setattr(objective, "sample", lambda model, step: time.sleep(0.2))
        monkeypatch.setattr(objective, "validate", lambda model: slow_reading(4))
        assert seconds_of(objective).validation > 0.6


def test_a_long_validation_is_broken_off(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "PATIENCE", 0.3)
    with prepare_temporarily(tiny(max_steps=100)) as objective:
        parts = []

        def validate(model: object) -> None:
            for part in tracked(range(1000), [1] * 1000):
                parts.append(part)
                time.sleep(0.1)

        monkeypatch.setattr(objective, "validate", validate)
        assert seconds_of(objective).validation > 50
        assert len(parts) < 100


def test_steps_are_measured_all_over_an_epoch(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with prepare_temporarily(tiny(max_steps=100_000)) as objective:
        read = set[int]()
        batch, last = objective.batch, objective.batches.per_epoch

        def noted(number: int, most: int | None = None) -> Any:
            read.add(number)
            return batch(number, most)

        monkeypatch.setattr(objective, "batch", noted)
        seconds_of(objective)
        assert 0.8 * last < max(read) < last
        assert len(read) > 10


# --- the number of threads ---


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("fastest", [1, 2, 4])
@pytest.mark.usefixtures("threads")
def test_the_fastest_number_of_threads_is_found_on_real_steps(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, fastest: int
) -> None:
    def learn(learner: Learner, step: int, rate: float, most: int | None = None) -> float:
        time.sleep(0.002 if torch.get_num_threads() == fastest else 0.01)
        return 1.0

    monkeypatch.setattr(loop, "learn", learn)
    with prepare_temporarily(tiny(num_threads=None)) as objective:
        assert choose_threads(objective, Setup("cpu", "float32", 4)) == fastest


@pytest.mark.usefixtures("threads")
def test_a_number_of_threads_that_was_given_is_not_tried(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "learn", None)
    with prepare_temporarily(tiny(num_threads=3)) as objective:
        assert choose_threads(objective, Setup("cpu", "float32", 3)) == 3


@pytest.mark.usefixtures("threads")
def test_trying_leaves_the_seed_and_the_data_as_they_were(tmp_path: Path, tiny: Make) -> None:
    """A run whose threads were tried equals one to which the same number was given."""
    tried = RunFolder(tmp_path / "tried")
    story.train(tiny(num_threads=None), tried, io.StringIO())
    given = RunFolder(tmp_path / "given")
    story.train(tiny(num_threads=tried.recipe().training.num_threads), given, io.StringIO())
    weights = [(run.path / "model.safetensors").read_bytes() for run in (tried, given)]
    assert weights[0] == weights[1]
