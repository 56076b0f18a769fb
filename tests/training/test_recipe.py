"""A recipe: what was said, in which order, what it lacks, and whether it is still the same."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.checkpoint.state import save_state
from glassformer.errors import GlassformerError, UsageError
from glassformer.training import command
from glassformer.training.recipe import Recipe, complete, differences, given_values, make_recipe
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]
MINIMAL: dict[str, Any] = {"model": {"name": "gpt"}, "data": {"paths": "notes.txt"}}


def request(out: Path | None = None, *sets: str, **said: Any) -> command.Request:
    switches = {"resume": False, "force": False} | said
    return command.Request(flags={}, assignments=list(sets), out=out, **{"recipe": None} | switches)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# --- what was said ---


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "r.yaml", "training: {seed: 1, max_steps: 1, eval_steps: 1}\n")
    flags = {"training": {"seed": 2, "max_steps": 2, "eval_steps": None}}
    options = {"training.seed": "--seed", "training.max_steps": "--max-steps"}
    values, origins = given_values(file, flags, ["training.seed=3"], options)
    assert values["training"] == {"seed": 3, "max_steps": 2, "eval_steps": 1}
    assert origins["training.seed"] == "--set training.seed"
    assert origins["training.max_steps"] == "--max-steps"
    assert origins["training.eval_steps"] == 1


def test_a_section_without_keys_is_an_empty_one(tmp_path: Path) -> None:
    file = written(tmp_path / "r.yaml", "model: {name: gpt}\ndata: {paths: x}\ntraining:\n")
    values, _ = given_values(file, {"training": {"seed": 2}}, ["training.eval_steps=5"])
    assert make_recipe(values).training.seed == 2
    assert make_recipe(values).training.eval_steps == 5


@pytest.mark.parametrize("section", ["model", "data", "tokenizer", "training"])
def test_a_value_where_a_section_must_be_is_named(tmp_path: Path, section: str) -> None:
    file = written(tmp_path / "r.yaml", f"{section}: 5\n")
    values, _ = given_values(file, {section: {"seed": 2}}, [])
    with pytest.raises(GlassformerError, match=f"^{section} in r.yaml must be a section"):
        make_recipe(values, "r.yaml")


@pytest.mark.parametrize("missing", ["model", "data"])
def test_a_recipe_without_model_or_data_is_wrong_usage(missing: str) -> None:
    with pytest.raises(UsageError, match="Say"):
        make_recipe({name: section for name, section in MINIMAL.items() if name != missing})


def test_a_misspelt_key_of_the_model_is_found_before_any_work(tmp_path: Path) -> None:
    file = written(tmp_path / "r.yaml", "data: {paths: x}\nmodel:\n  name: gpt\n  d_modle: 48\n")
    values, lines = given_values(file, {}, [])
    with pytest.raises(GlassformerError, match=r"model\.d_modle.*line 4.*mean d_model\?"):
        make_recipe(values, str(file), lines)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(GlassformerError, match=r'"gpt3".*nano, lecture, gpt2'):
        make_recipe(MINIMAL | {"model": {"name": "gpt", "preset": "gpt3"}})


def test_what_is_said_wins_over_the_preset() -> None:
    recipe = make_recipe(MINIMAL | {"model": {"name": "gpt", "preset": "nano", "num_layers": 9}})
    assert recipe.architecture().model_dump()["num_layers"] == 9
    assert recipe.architecture().model_dump()["d_model"] == 48


# --- printed ---


def test_a_printed_recipe_decides_everything_and_reads_back_as_itself(
    tmp_path: Path, notes: Path
) -> None:
    values = {"model": {"name": "gpt", "d_model": 64}, "data": {"paths": [str(notes)]}}
    file = written(tmp_path / "r.yaml", yaml.safe_dump(values | {"training": {"seed": 5}}))
    text = command.recipe_text(request(recipe=file), as_json=False)
    file = written(tmp_path / "again.yaml", text)
    assert command.recipe_text(request(recipe=file), as_json=False) == text
    printed = json.loads(command.recipe_text(request(recipe=file), as_json=True))
    assert printed == yaml.safe_load(text)
    assert printed["training"]["seed"] == 5
    assert printed["training"]["learning_rate"] > 0
    assert printed["model"].items() >= {"preset": "modern-xs", "d_model": 64}.items()
    assert make_recipe(printed).decided.max_steps >= 1


@pytest.mark.parametrize(
    ("section", "meant"),
    [("modle", "model"), ("learning_rate", "training.learning_rate"), ("num_layer", "model.num_")],
)
def test_an_unknown_section_suggests_what_may_have_been_meant(
    tmp_path: Path, section: str, meant: str
) -> None:
    file = written(tmp_path / "r.yaml", f"data: {{paths: x}}\n{section}: {{}}\n")
    values, lines = given_values(file, {}, [])
    with pytest.raises(GlassformerError, match=rf"{section} in .*, line 2\. Did you mean {meant}"):
        make_recipe(values, str(file), lines)


# --- still the same? ---


@pytest.fixture
def run(tmp_path: Path, tiny: Make) -> RunFolder:
    """A run that has a recipe and has not taken a step."""
    (tmp_path / "run").mkdir()
    run = RunFolder(tmp_path / "run")
    run.write_recipe(tiny(save_total_limit=2))
    return run


def test_saying_the_same_again_is_no_difference(tiny: Make) -> None:
    assert list(differences(tiny(), complete(tiny()))) == []
    assert list(differences(tiny(), {"training": {"max_steps": "12"}})) == []


def test_leaving_a_choice_open_is_no_difference(tiny: Make) -> None:
    given = {"training": {"max_steps": None, "device": "auto"}, "tokenizer": {"kind": "auto"}}
    assert list(differences(tiny(), given)) == []


def test_every_changed_key_is_named_with_both_values(run: RunFolder) -> None:
    said = request(run.path, "training.seed=5", "model.d_model=32", resume=True)
    with pytest.raises(GlassformerError) as error:
        command.train(said, io.StringIO())
    assert "training.seed was 0, now 5; model.d_model was 16, now 32" in str(error.value)
    assert "another --out" in str(error.value)


def test_a_misspelt_key_is_an_error_on_resume_too(run: RunFolder) -> None:
    with pytest.raises(GlassformerError, match="Did you mean max_steps"):
        command.train(request(run.path, "training.max_step=5", resume=True), io.StringIO())


def test_how_often_to_save_may_change_on_resume(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.training import begin

    resumed: list[RunFolder] = []
    monkeypatch.setattr(begin, "resume", lambda run, stream: resumed.append(run))
    sets = "training.save_steps=7", "training.save_total_limit=9", "training.logging_steps=null"
    command.train(request(run.path, *sets, resume=True), io.StringIO())
    config = run.recipe().training
    assert (config.save_steps, config.save_total_limit, config.logging_steps) == (7, 9, 5)
    assert len(resumed) == 1


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match="There is nothing to resume"):
        command.train(request(tmp_path / "nothing", resume=True), io.StringIO())


def test_a_run_that_is_there_is_not_overwritten(run: RunFolder, notes: Path) -> None:
    said = request(run.path, "model.name=gpt", f"data.paths={notes}")
    with pytest.raises(GlassformerError, match=r"--resume to go on from step 0, --force"):
        command.train(said, io.StringIO())
    save_state(run.checkpoint(12), {})
    with pytest.raises(GlassformerError, match="holds a finished run"):
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
    from glassformer.training import begin

    begun: list[Path] = []
    monkeypatch.setattr(begin, "train", lambda recipe, run, stream: begun.append(run.path))
    command.train(request(None, "model.name=gpt", f"data.paths={data}"), io.StringIO())
    assert begun == [Path(folder)]
