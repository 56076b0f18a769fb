"""Running means, early ends, time limits, and what may change on the way."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassformer.checkpoint.state import load_state
from glassformer.errors import GlassformerError
from glassformer.training import begin, command
from glassformer.training.command import Request
from glassformer.training.metrics import read_metrics
from glassformer.training.prepare import rehearsed
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.sections import TrainingConfig

Make = Callable[..., Recipe]


def trained(folder: Path, recipe: Recipe) -> RunFolder:
    begin.train(recipe, RunFolder(folder), io.StringIO())
    return RunFolder(folder)


# --- the running mean of the weights ---


def test_the_mean_is_what_is_validated_and_kept(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(ema=0.9))
    state = load_state(run.checkpoint(12))["state_dict"]
    learned, averaged = state["model.embedding.weight"], state["averaged.embedding.weight"]
    kept = load_file(run.path / "model.safetensors")["embedding.weight"]
    assert not torch.equal(learned, averaged)
    assert torch.equal(kept, averaged)


def test_the_mean_is_as_its_equation_says(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(ema=0.7, save_steps=1, save_total_limit=99))
    states = [load_state(run.checkpoint(step))["state_dict"] for step in range(1, 13)]
    name = "blocks.0.feedforward.up.weight"
    mean = states[0][f"averaged.{name}"]
    for step, state in enumerate(states[1:], 2):
        mean = torch.lerp(mean, state[f"model.{name}"], 1 - min(0.7, step / (9 + step)))
    torch.testing.assert_close(states[-1][f"averaged.{name}"], mean)


def test_a_run_with_a_mean_resumes_to_the_same_bytes(
    tmp_path: Path, tiny: Make, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    recipe = tiny(ema=0.9, early_stopping=5)
    straight, run = trained(tmp_path / "straight", recipe), RunFolder(tmp_path / "run")
    begin.begin(recipe, run, lambda text: None)
    from glassformer.training.fit import fit

    for until in (2, 5, 7, 12):
        fit(run, io.StringIO(), until=until)
    assert contents(run.path) == contents(straight.path)


# --- an early end ---


def test_a_run_that_no_longer_gets_better_stops_and_stays_stopped(
    tmp_path: Path, tiny: Make
) -> None:
    recipe = tiny(early_stopping=2, max_steps=200, eval_steps=1, learning_rate=1e-12)
    outcome = begin.train(recipe, RunFolder(tmp_path / "run"), io.StringIO())
    assert outcome.stopped_early
    assert outcome.exit_code == 0
    assert outcome.step < 200
    assert "no longer better" in outcome.summary()
    assert RunFolder(tmp_path / "run").is_finished()
    again = begin.resume(RunFolder(tmp_path / "run"), io.StringIO())
    assert (again.step, again.stopped_early) == (outcome.step, True)


# --- a time limit ---


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("15m", 900), ("1.5 h", 5400), (20, 20)])
def test_a_time_limit_may_have_a_unit(text: str | int, seconds: float) -> None:
    assert TrainingConfig.model_validate({"time_limit": text}).time_limit == seconds


@pytest.mark.parametrize("text", ["abc", "-5m", "5 minutes", ""])
def test_a_time_limit_that_is_none_is_answered_with_a_good_one(tiny: Make, text: str) -> None:
    with pytest.raises(GlassformerError, match="say a number of seconds, or 90s, 15m, 2h, 1d"):
        tiny(time_limit=text)


def test_a_time_limit_that_is_too_short_is_told(tmp_path: Path, tiny: Make) -> None:
    stream = io.StringIO()
    begin.train(tiny(time_limit=5.01), RunFolder(tmp_path / "run"), stream)
    assert "1 step planned for 0:05; that is very little" in stream.getvalue()


def test_a_time_limit_lowers_the_steps_and_all_that_follows(tiny: Make) -> None:
    recipe = tiny(max_steps=1000, eval_steps=None, save_steps=None, time_limit=105)
    with rehearsed(recipe) as ready:
        fitted = begin.within_time_limit(ready, seconds_per_step=1.0).recipe.decided
        assert 50 < fitted.max_steps < 95
        assert fitted.save_steps == fitted.max_steps // 10
        assert fitted.warmup_steps <= fitted.max_steps // 4
        roomy = begin.within_time_limit(ready, seconds_per_step=1e-6).recipe.decided
        assert roomy.max_steps == 1000
        tight = begin.within_time_limit(ready, seconds_per_step=1e6).recipe.decided
        assert tight.max_steps == 1


# --- what may change when a run goes on ---


def resumed(run: RunFolder, *assignments: str, force: bool) -> None:
    command.train(Request(None, {}, list(assignments), run.path, True, force), io.StringIO())


def test_fewer_steps_than_were_made_are_refused(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    with pytest.raises(GlassformerError, match="is at step 12 already"):
        resumed(run, "training.max_steps=10", force=True)


def test_a_change_that_breaks_exactness_needs_force(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    with pytest.raises(GlassformerError, match=r"max_steps was 12, now 14.*--force goes on"):
        resumed(run, "training.max_steps=14", force=False)
    resumed(run, "training.max_steps=14", force=True)
    assert run.last_step() == 14
    assert run.recipe().training.max_steps == 14


def test_a_forced_learning_rate_is_the_one_that_is_learned_with(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(lr_scheduler_type="constant", logging_steps=1))
    changes = ("training.max_steps=14", "training.learning_rate=0.5", "training.weight_decay=0.7")
    resumed(run, *changes, force=True)
    rates = [float(row["learning_rate"]) for row in read_metrics(run.path / "metrics.csv")]
    assert rates[-3] == pytest.approx(0.007)
    assert rates[-2:] == [0.5, 0.5]
    (state,) = load_state(run.checkpoint(14))["optimizer_states"]
    assert state["param_groups"][0]["weight_decay"] == 0.7


@pytest.mark.parametrize(
    "change", ["model.d_model=32", "training.ema=0.5", "training.optimizer=adamw"]
)
def test_what_the_state_would_not_fit_cannot_be_changed_even_by_force(
    tmp_path: Path, tiny: Make, change: str
) -> None:
    run = trained(tmp_path / "run", tiny())
    before = run.recipe()
    with pytest.raises(GlassformerError, match=r"was begun with another recipe.*Leave that out"):
        resumed(run, change, force=True)
    assert run.recipe() == before


def test_the_same_command_resumes_a_run_with_a_time_limit(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(time_limit=60))
    resumed(run, "training.max_steps=9999", "training.time_limit=1m", force=False)
    assert run.last_step() == 12


def test_a_recipe_that_was_edited_in_the_run_is_refused(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    recipe = run.path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 0", "seed: 4"))
    with pytest.raises(GlassformerError, match=r"is not the recipe.*training\.seed was 0, now 4"):
        begin.resume(run, io.StringIO())
