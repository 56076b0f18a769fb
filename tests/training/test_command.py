"""What a command means: begin or continue, with which recipe, in which folder."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from glassformer.checkpoint.training_state import load_state, read_metrics
from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import Recipe
from glassformer.training import command
from glassformer.training import run as story
from glassformer.training.command import Request
from glassformer.training.preparation import make_recipe, prepare_temporarily
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]
SILENT = io.StringIO()


def request(out: Path | None = None, *sets: str, **said: Any) -> command.Request:
    switches = {"resume": False, "force": False} | said
    return command.Request(flags={}, assignments=list(sets), out=out, **{"recipe": None} | switches)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def trained(folder: Path, recipe: Recipe) -> RunFolder:
    story.train(recipe, RunFolder(folder), io.StringIO())
    return RunFolder(folder)


# --- printed ---


def test_a_printed_recipe_decides_everything_and_reads_back_as_itself(
    tmp_path: Path, notes: Path
) -> None:
    values = {"model": {"name": "gpt", "d_model": 64}, "data": {"paths": [str(notes)]}}
    file = written(tmp_path / "r.yaml", yaml.safe_dump(values | {"training": {"seed": 5}}))
    text = command.recipe_text(request(recipe=file), as_json=False, stream=io.StringIO())
    file = written(tmp_path / "again.yaml", text)
    assert command.recipe_text(request(recipe=file), as_json=False, stream=io.StringIO()) == text
    printed = json.loads(
        command.recipe_text(request(recipe=file), as_json=True, stream=io.StringIO())
    )
    assert printed == yaml.safe_load(text)
    assert printed["training"]["seed"] == 5
    assert printed["training"]["learning_rate"] > 0
    assert printed["model"].items() >= {"preset": "modern-xs", "d_model": 64}.items()
    assert make_recipe(printed).decided.max_steps >= 1


# --- begin or continue ---


@pytest.fixture
def run(tmp_path: Path, tiny: Make) -> RunFolder:
    """A run that has a recipe and has not taken a step."""
    (tmp_path / "run").mkdir()
    run = RunFolder(tmp_path / "run")
    with prepare_temporarily(tiny(save_total_limit=2)) as objective:
        run.write_recipe(objective.recipe)
    return run


def test_every_changed_key_is_named_with_both_values(run: RunFolder) -> None:
    said = request(run.path, "training.seed=5", "model.d_model=32", resume=True)
    with pytest.raises(GlassformerError) as error:
        command.train(said, io.StringIO())
    assert "training.seed was 0, is now 5; model.d_model was 16, is now 32" in str(error.value)
    assert "another --out" in str(error.value)


def test_a_misspelt_key_is_an_error_on_resume_too(run: RunFolder) -> None:
    with pytest.raises(GlassformerError, match="Did you mean max_steps"):
        command.train(request(run.path, "training.max_step=5", resume=True), io.StringIO())


def test_how_often_to_save_may_change_on_resume(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[RunFolder] = []
    monkeypatch.setattr(command, "resume", lambda run, stream, began: resumed.append(run))
    sets = "training.save_steps=7", "training.save_total_limit=9", "training.logging_steps=null"
    command.train(request(run.path, *sets, resume=True), io.StringIO())
    config = run.recipe().training
    assert (config.save_steps, config.save_total_limit, config.logging_steps) == (7, 9, 5)
    assert len(resumed) == 1


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match="there is nothing to resume"):
        command.train(request(tmp_path / "nothing", resume=True), io.StringIO())


def test_a_run_that_is_there_is_not_overwritten(
    run: RunFolder, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = request(run.path, "model.name=gpt", f"data.paths={notes}")
    with pytest.raises(
        GlassformerError, match=r"\(stopped at step 0\)\. Use --resume to continue it, --force"
    ):
        command.train(said, io.StringIO())
    run.checkpoint(12).mkdir(parents=True)
    monkeypatch.setattr(RunFolder, "last_good_state", lambda run: (SimpleNamespace(step=12), []))
    with pytest.raises(GlassformerError, match="already contains a finished run"):
        command.train(said, io.StringIO())


@pytest.mark.parametrize(
    ("data", "folder"),
    [
        ("notes.txt", "runs/gpt-notes"),
        ("texts/old.tar.gz", "runs/gpt-old"),
        ("poems/", "runs/gpt-poems"),
        ("roneneldan/TinyStories@train", "runs/gpt-TinyStories"),
    ],
)
def test_a_run_is_named_after_its_model_and_its_data(
    data: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(
        command, "train_from_recipe", lambda recipe, run, stream, began: begun.append(run.path)
    )
    command.train(request(None, "model.name=gpt", f"data.paths={data}"), io.StringIO())
    assert begun == [Path(folder)]


# --- what may change when a run continues ---


def resumed(run: RunFolder, *assignments: str, force: bool) -> None:
    command.train(Request(None, {}, list(assignments), run.path, True, force), io.StringIO())


def test_fewer_steps_than_were_made_are_refused(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    with pytest.raises(GlassformerError, match="is already at step 12"):
        resumed(run, "training.max_steps=10", force=True)


def test_a_change_that_breaks_exactness_needs_force(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    with pytest.raises(GlassformerError, match=r"max_steps was 12, is now 14.*--force continues"):
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
    state = load_state(run.checkpoint(14))["optimizer"]
    assert state["param_groups"][0]["weight_decay"] == 0.7


@pytest.mark.parametrize(
    "change", ["model.d_model=32", "training.ema=0.5", "training.optimizer=adamw"]
)
def test_what_the_state_would_not_fit_cannot_be_changed_even_by_force(
    tmp_path: Path, tiny: Make, change: str
) -> None:
    run = trained(tmp_path / "run", tiny())
    before = run.recipe()
    with pytest.raises(GlassformerError, match=r"started with a different recipe.*Omit the change"):
        resumed(run, change, force=True)
    assert run.recipe() == before


def test_the_same_command_resumes_a_run_with_a_time_limit(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(time_limit=60))
    resumed(run, "training.max_steps=9999", "training.time_limit=1m", force=False)
    assert run.last_step() == 12


def limited(tiny: Make, folder: Path) -> RunFolder:
    """A run whose time limit allowed six steps."""
    run = RunFolder(folder)
    plan = {"step": 2, "max_steps": 6, "warmup_steps": 0, "eval_steps": 3, "save_steps": 3}
    story.train(tiny(max_steps=40, eval_steps=None, save_steps=None, replans=[plan]), run, SILENT)
    assert run.last_step() == 6
    return run


@pytest.mark.parametrize("length", ["max_steps=8", "num_train_epochs=0.1", "time_limit=1h"])
def test_another_length_does_away_with_the_plans_of_a_recipe(
    tmp_path: Path, tiny: Make, length: str
) -> None:
    recipe = limited(tiny, tmp_path / "limited").path / "recipe.yaml"
    same = request(tmp_path / "same", recipe=recipe)
    other = request(tmp_path / "other", f"training.{length}", recipe=recipe)
    assert "max_steps: 6" in command.recipe_text(same, as_json=False, stream=SILENT)
    assert "max_steps: 6" not in command.recipe_text(other, as_json=False, stream=SILENT)


def test_a_run_with_a_time_limit_is_continued_for_more_steps_again_and_again(
    tmp_path: Path, tiny: Make
) -> None:
    run = limited(tiny, tmp_path / "limited")
    for steps in (9, 12):
        longer = request(run.path, f"training.max_steps={steps}", resume=True, force=True)
        assert command.train(longer, SILENT).step == steps
        last = read_metrics(run.path / "metrics.csv")[-1]
        assert float(last["learning_rate"]) > 0
