"""A time limit lowers the number of steps, and everything that depends on it."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import Recipe, TrainingConfig
from glassformer.training import run as story
from glassformer.training.preparation import rehearsed
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import fewer_steps

Make = Callable[..., Recipe]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("15m", 900), ("1.5 h", 5400), (20, 20)])
def test_a_time_limit_may_have_a_unit(text: str | int, seconds: float) -> None:
    assert TrainingConfig.model_validate({"time_limit": text}).time_limit == seconds


@pytest.mark.parametrize("text", ["abc", "-5m", "5 minutes", ""])
def test_a_time_limit_that_is_none_is_answered_with_a_good_one(tiny: Make, text: str) -> None:
    with pytest.raises(GlassformerError, match="use a number of seconds, or 90s, 15m, 2h, 1d"):
        tiny(time_limit=text)


def test_a_time_limit_that_is_too_short_is_told(tmp_path: Path, tiny: Make) -> None:
    stream = io.StringIO()
    story.train(tiny(time_limit=5.01), RunFolder(tmp_path / "run"), stream)
    assert "1 step planned for 0:05; that is very few" in stream.getvalue()


def test_a_time_limit_lowers_the_steps_and_all_that_follows(tiny: Make) -> None:
    recipe = tiny(max_steps=1000, eval_steps=None, save_steps=None, time_limit=105)
    with rehearsed(recipe) as ready:
        fitted = fewer_steps(ready, 105, seconds_per_step=1.0).recipe.decided
        assert 50 < fitted.max_steps < 95
        assert fitted.save_steps == fitted.max_steps // 10
        assert fitted.warmup_steps <= fitted.max_steps // 4
        roomy = fewer_steps(ready, 105, seconds_per_step=1e-6).recipe.decided
        assert roomy.max_steps == 1000
        tight = fewer_steps(ready, 105, seconds_per_step=1e6).recipe.decided
        assert tight.max_steps == 1
