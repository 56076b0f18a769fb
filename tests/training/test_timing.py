"""A time limit lowers the number of steps, and everything that depends on it."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from glassformer.training.lightning_import import import_trial

from glassformer.errors import GlassformerError
from glassformer.evaluation.reading_progress import tracked
from glassformer.tasks.recipe import Recipe, TrainingConfig
from glassformer.training import run as story
from glassformer.training.finetuning import new_model
from glassformer.training.preparation import rehearsed, use_machine
from glassformer.training.run_folder import RunFolder
from glassformer.training.timing import (
    Pace,
    fewer_steps,
    measured,
    seconds_of_training,
    within_time_limit,
)

Make = Callable[..., Recipe]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90", 90), (20, 20), ("90s", 90), ("90 sec", 90), ("15m", 900), ("5min", 300)],
        *[("5 min", 300), ("5 Minutes", 300), ("1.5 h", 5400), ("2 days", 172800)],
        *[
            ("1h30", 5400),
            ("1h30m", 5400),
            ("1h 30 min", 5400),
            ("1m30", 90),
            ("1h5s", 3605),
            ("1h30m5", 5405),
        ],
        *[("1:30:00", 5400), ("2:41", 161), ("0:05", 5)],
    ],
)
def test_a_time_limit_may_have_a_unit(text: str | int, seconds: float) -> None:
    assert TrainingConfig.model_validate({"time_limit": text}).time_limit == seconds


@pytest.mark.parametrize("text", ["abc", "-5m", "5 parsecs", "", "h", "30s1h", "1s5", "1:75"])
def test_a_time_limit_that_is_none_is_answered_with_a_good_one(tiny: Make, text: str) -> None:
    with pytest.raises(GlassformerError, match="use a time such as 90s, 15m, 1h30 or 1:30:00"):
        tiny(time_limit=text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("300", 300), ("1:30:00", 5400), ("1:30", 90), ("5min", 300)]
)
def test_in_a_recipe_a_number_is_seconds(text: str, seconds: float) -> None:
    found = yaml.safe_load(f"time_limit: {text}")  # YAML, too, reads 1:30 as minutes and seconds
    assert TrainingConfig.model_validate(found).time_limit == seconds


def test_a_time_limit_that_is_too_short_is_told(tmp_path: Path, tiny: Make) -> None:
    stream = io.StringIO()
    story.train(tiny(time_limit=0.01), RunFolder(tmp_path / "run"), stream)
    assert "1 step planned for 0:00; that is very few" in stream.getvalue()


def test_a_time_limit_lowers_the_steps_and_all_that_follows(tiny: Make) -> None:
    recipe = tiny(max_steps=1000, eval_steps=None, save_steps=None, time_limit=105)
    with rehearsed(recipe) as ready:
        fitted = fewer_steps(ready, 105, Pace(1.0)).recipe.decided
        assert 90 < fitted.max_steps < 105
        assert fitted.save_steps == fitted.max_steps // 10
        assert fitted.warmup_steps <= fitted.max_steps // 4
        roomy = fewer_steps(ready, 105, Pace(1e-6)).recipe.decided
        assert roomy.max_steps == 1000
        tight = fewer_steps(ready, 105, Pace(1e6)).recipe.decided
        assert tight.max_steps == 1


@pytest.mark.parametrize(
    "pace", [Pace(0.01), Pace(0.01, validation=3), Pace(0.01, saving=5), Pace(0.01, 1, 1, 30)]
)
@pytest.mark.parametrize("spent", [0, 100])
def test_the_whole_time_is_used_and_no_more(tiny: Make, pace: Pace, spent: float) -> None:
    recipe = tiny(max_steps=100_000, eval_steps=None, save_steps=None, time_limit=300)
    with rehearsed(recipe) as ready:
        fitted = fewer_steps(ready, 300, pace, spent)
        assert 270 < spent + seconds_of_training(fitted, pace) + pace.ending <= 300


def test_what_was_spent_before_the_first_step_counts(tiny: Make) -> None:
    recipe = tiny(max_steps=10**6, eval_steps=None, save_steps=None, time_limit=60)
    with rehearsed(recipe) as ready:
        setup = use_machine(recipe)
        late = within_time_limit(ready, setup, spent=lambda: 59.0).config.max_steps
        assert late == 1 < within_time_limit(ready, setup).config.max_steps


def test_validation_and_sampling_are_measured(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny(max_steps=100)
    with rehearsed(recipe) as ready:
        objective = ready.objective()
        model, setup = new_model(objective.recipe), use_machine(recipe)
        monkeypatch.setattr(objective, "sample", lambda model, step: time.sleep(0.2))
        monkeypatch.setattr(objective, "validate", lambda model: slow_reading(4))
        assert 0.6 < measured(objective, setup, model).validation < 2
        monkeypatch.setattr(objective, "validate", lambda model: slow_reading(1000))
        begin = time.perf_counter()
        assert measured(objective, setup, model, patience=0.3).validation > 50
        assert time.perf_counter() - begin < 20  # it is broken off


def test_the_steps_of_the_real_loop_are_counted(tiny: Make) -> None:
    recipe = tiny(max_steps=10**6, eval_steps=None, save_steps=None, time_limit=1000)
    with rehearsed(recipe) as ready:
        setup = use_machine(recipe)
        slow = within_time_limit(ready, setup, try_steps=lambda *_: (1.0, 0.0))
        assert 900 < slow.config.max_steps < 1000
        saving = within_time_limit(ready, setup, try_steps=lambda *_: (1.0, 10.0))
        assert saving.config.max_steps < slow.config.max_steps
        before = {path.name for path in ready.dataset.folder.parent.iterdir()}
        objective = ready.objective()
        model = new_model(objective.recipe)
        found = measured(objective, setup, model, 0.2, ready.dataset.folder.parent, import_trial())
        assert found.step > 0
        assert found.saving > 0
        assert {path.name for path in ready.dataset.folder.parent.iterdir()} == before


def test_steps_that_were_tried_change_nothing(tmp_path: Path, tiny: Make) -> None:
    limited = RunFolder(tmp_path / "limited")
    story.train(tiny(max_steps=12, time_limit="1h"), limited, io.StringIO())
    plain = RunFolder(tmp_path / "plain")
    story.train(tiny(max_steps=12), plain, io.StringIO())
    weights = [(run.path / "model.safetensors").read_bytes() for run in (limited, plain)]
    assert weights[0] == weights[1]


def slow_reading(parts: int) -> None:
    for _ in tracked(range(parts), [1] * parts):
        time.sleep(0.1)


def test_steps_are_measured_all_over_an_epoch(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny(max_steps=100_000)
    with rehearsed(recipe) as ready:
        objective, read = ready.objective(), set[int]()
        batch, last = objective.batch, objective.batches.per_epoch

        def noted(number: int, most: int | None = None) -> Any:
            read.add(number)
            return batch(number, most)

        monkeypatch.setattr(objective, "batch", noted)
        measured(objective, use_machine(recipe), new_model(objective.recipe))
        assert 0.8 * last < max(read) < last
        assert len(read) > 10
