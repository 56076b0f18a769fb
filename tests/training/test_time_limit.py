"""A training that was given a time ends in time, however the machine's speed changes, with a plan
that is written down."""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
import yaml
from torch import nn

from glassformer.config import Config
from glassformer.errors import GlassformerError
from glassformer.models import row
from glassformer.tasks.recipe import Recipe, TrainingConfig, model_config
from glassformer.tasks.task import Objective
from glassformer.training import run as story
from glassformer.training import time_limit
from glassformer.training import time_limit as smaller_preset
from glassformer.training.optimizer_and_schedule import rate_of
from glassformer.training.preparation import prepare_temporarily
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import Pace, TimeLimit, fitting_plan, seconds_of_plan
from glassformer.training.verify import verify

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


# --- a plan ---


@contextmanager
def limited(tiny: Make, **training: object) -> Iterator[Objective]:
    recipe = tiny(max_steps=100_000, eval_steps=None, save_steps=None, time_limit=300, **training)
    with prepare_temporarily(recipe) as objective:
        yield objective


@pytest.mark.parametrize(
    "pace", [Pace(0.01), Pace(0.01, validation=3), Pace(0.01, saving=5), Pace(0.01, 1, 1, 30)]
)
@pytest.mark.parametrize("step", [0, 3000])
def test_a_plan_fills_the_time_that_is_left(tiny: Make, pace: Pace, step: int) -> None:
    with limited(tiny) as objective:
        plan = fitting_plan(objective, step, 200, pace)
        assert 180 < seconds_of_plan(plan, step, pace) <= 200


def test_everything_that_depends_on_the_number_of_steps_follows(tiny: Make) -> None:
    with limited(tiny) as objective:
        plan = fitting_plan(objective, 0, 1000, Pace(1.0))
        assert plan.max_steps == 1000
        assert (plan.save_steps, plan.warmup_steps) == (100, 100)
        assert fitting_plan(objective, 0, 1000, Pace(1e-6)).max_steps == 100_000
        assert fitting_plan(objective, 0, 1000, Pace(1e6)).max_steps == 1
        assert fitting_plan(objective, 7, 1000, Pace(1e6)).max_steps == 7


def test_where_time_is_short_only_the_end_is_validated(tiny: Make) -> None:
    with limited(tiny) as objective:
        plan = fitting_plan(objective, 4, 30, Pace(1.0, validation=15.0))
        assert plan.eval_steps == plan.max_steps == 19


def test_an_interval_that_was_given_stays(tiny: Make) -> None:
    with limited(tiny) as objective:
        objective.change_recipe(objective.recipe.with_training(eval_steps=123, warmup_steps=5))
        plan = fitting_plan(objective, 0, 1000, Pace(1.0, validation=500.0))
        assert (plan.eval_steps, plan.warmup_steps) == (123, 5)


# --- on the way ---

Speed = Callable[[float], float]  # how many times as slow as usual at a time


class Untimed(nn.Module):
    """An evaluation of it fails at once, and so takes no time."""


def simulated(objective: Objective, slowness: Speed, pace: Pace) -> tuple[float, int]:
    """Seconds that a training takes if the clock is a computation, and its steps."""
    now, step = 0.0, 0
    limit = TimeLimit(300, 0.0, objective, clock=lambda: now)

    def passing(seconds: float) -> float:
        nonlocal now
        seconds *= slowness(now)
        now += seconds
        return seconds

    while step < objective.config.last_step:
        step += 1
        limit.stepped(passing(pace.step))
        if (plan := limit.replan(step, Untimed())) is not None:
            replans = (*objective.config.replans, plan)
            objective.change_recipe(objective.recipe.with_training(replans=replans))
        plan = objective.config.plan_at(step)
        if step % plan.eval_steps == 0 or step == plan.max_steps:
            limit.validated(passing(pace.validation))
        if step % plan.save_steps == 0 or step == plan.max_steps:
            limit.saved(passing(pace.saving))
    return now + time_limit.ENDING, step


PACES = [Pace(0.02), Pace(0.5, 1.0), Pace(2.0, 4.0, 1.0), Pace(8.0, 5.0)]


@pytest.mark.parametrize("pace", PACES)
def test_at_a_steady_pace_the_end_comes_in_time(tiny: Make, pace: Pace) -> None:
    with limited(tiny) as objective:
        seconds, steps = simulated(objective, lambda now: 1.0, pace)
        assert 270 < seconds <= 303
        assert len(objective.config.replans) < 10
        assert [rate_of(objective.config, step) > 0 for step in range(steps)] == [True] * steps


@pytest.mark.parametrize("pace", PACES[:3])
@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_the_end_follows_the_clock_when_the_speed_changes(
    tiny: Make, pace: Pace, factor: float
) -> None:
    """Another program computes from one moment to another."""
    with limited(tiny) as objective:
        for begin, duration in product((0, 15, 150, 220), (10, 100, 1000)):

            def slowness(now: float, busy: range = range(begin, begin + duration)) -> float:
                return factor if int(now) in busy else 1.0

            objective.change_recipe(objective.recipe.with_training(replans=()))
            seconds, _ = simulated(objective, slowness, pace)
            assert 225 < seconds < 375, (begin, duration)


# --- what is written down ---


class ChangingSpeed(TimeLimit):
    """On a clock of its own, steps take a tenth of a second, and after ten of them a fifth."""

    def __init__(self, limit: float, spent: float, objective: Objective) -> None:
        self.now = 0.0
        super().__init__(limit, spent, objective, clock=lambda: self.now)

    def stepped(self, seconds: float) -> None:
        seconds = 0.2 if self._num_timed >= 10 else 0.1
        self.now += seconds
        super().stepped(seconds)

    def validated(self, seconds: float) -> None:
        self.now += 0.5
        super().validated(0.5)

    def saved(self, seconds: float) -> None:
        self.now += 0.1
        super().saved(0.1)

    def _time_evaluations(self, model: nn.Module) -> None:
        super()._time_evaluations(model)  # it must not change what is learned
        self._validation = self._ending = 5.0


@pytest.fixture
def changing_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "TimeLimit", ChangingSpeed)


@pytest.mark.usefixtures("changing_speed")
def test_a_run_with_a_time_limit_is_repeated_from_its_recipe(tmp_path: Path, tiny: Make) -> None:
    recipe = tiny(max_steps=1000, eval_steps=None, save_steps=None, time_limit=60)
    stream = io.StringIO()
    run = RunFolder(tmp_path / "limited")
    outcome = story.train(recipe, run, stream)
    written = run.recipe().decided
    assert 30 < outcome.step == written.last_step < 400
    assert len(written.replans) >= 2
    assert "steps planned for 1:00" in stream.getvalue()
    assert verify(run, io.StringIO()).identical
    again = RunFolder(tmp_path / "again")
    story.train(run.recipe(), again, io.StringIO())
    assert again.recipe().decided.replans == written.replans
    assert again.recipe().decided.time_limit is None
    weights = [(each.path / "model.safetensors").read_bytes() for each in (run, again)]
    assert weights[0] == weights[1]


@pytest.mark.usefixtures("changing_speed")
@pytest.mark.parametrize("batch", [12, 30])  # of two a step, before and after a change of plan
def test_a_run_with_a_time_limit_goes_on_after_it_was_interrupted(
    tmp_path: Path, tiny: Make, at_batch: Callable[[int, Callable[[], None]], None], batch: int
) -> None:
    class PowerCutError(Exception):
        pass

    def cut() -> None:
        raise PowerCutError

    at_batch(batch, cut)
    run = RunFolder(tmp_path / "run")
    recipe = tiny(max_steps=1000, eval_steps=None, save_steps=5, time_limit=60)
    with pytest.raises(PowerCutError):
        story.train(recipe, run, io.StringIO())
    assert story.resume(run, io.StringIO()).stopped_by is None
    state = run.state(run.last_step(), "")
    assert state.standing.seconds is not None
    assert 50 < state.standing.seconds < 61  # with those before the interruption
    again = RunFolder(tmp_path / "again")
    story.train(run.recipe(), again, io.StringIO())
    weights = [(each.path / "model.safetensors").read_bytes() for each in (run, again)]
    assert weights[0] == weights[1]


# --- too little time ---


def test_a_time_limit_for_a_few_steps_says_why_and_what_fits(tmp_path: Path, tiny: Make) -> None:
    stream = io.StringIO()
    story.train(tiny(max_steps=100, time_limit=1e-5), RunFolder(tmp_path / "run"), stream)
    said = stream.getvalue()
    assert "1 step planned for 0:00" in said
    assert "note: 1 step cannot teach it much: " in said
    assert "Allow more time" in said


def slow(objective: Objective, before: float = 0.0) -> TimeLimit:
    """Steps take two seconds."""
    limit = TimeLimit(60, before, objective)
    limit.stepped(2.0)
    return limit


def test_a_smaller_preset_that_fits_is_named(tiny: Make) -> None:
    large = {"num_layers": 8, "d_model": 512, "num_heads": 8, "d_feedforward": 2048}
    with prepare_temporarily(tiny(large)) as objective:
        said = smaller_preset.advice(objective, 20, slow(objective))
        late = smaller_preset.advice(objective, 20, slow(objective, before=150))
    assert "a step takes 2 s" in said
    assert "150 s passed before the first step" in late
    assert "--preset" not in late
    preset = re.search(r"--preset ([\w-]+), which would take about ([\d,]+) steps", said)
    assert preset
    assert int(preset[2].replace(",", "")) >= 50
    with prepare_temporarily(tiny()) as objective:  # as small as a model can be
        assert "--preset" not in smaller_preset.advice(objective, 20, slow(objective))


@pytest.mark.parametrize("name", ["gpt", "rnn-lm", "bert", "translator", "image-gpt"])
def test_every_preset_is_compared_with_the_others(name: str) -> None:
    """What only one preset sets, such as the number of key-value heads, may not fit another one."""
    for preset in row(name).presets:
        chosen = {"name": name, "preset": preset}
        values = model_config(chosen | {"vocab_size": 500}).model_dump()
        recipe = Recipe(model=values | chosen, data=Config())
        smaller = smaller_preset.preset_that_fits(recipe, 20)
        assert smaller is None or smaller[1] >= 50


def test_a_machine_that_is_busy_is_named_as_the_reason(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smaller_preset, "busy_cores", lambda: 1.7)
    with prepare_temporarily(tiny()) as objective:
        said = smaller_preset.advice(objective, 20, slow(objective))
    assert "while other programs use 1.7 cores" in said
