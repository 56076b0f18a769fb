"""Recipes: what was given, in which order, what is missing, and whether it is still the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import GlassformerError, UsageError
from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import collect_values, complete, make_recipe
from glassformer.training.run_folder import differences

Make = Callable[..., Recipe]
MINIMAL: dict[str, Any] = {"model": {"name": "gpt"}, "data": {"paths": "notes.txt"}}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# --- what was given ---


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "r.yaml", "training: {seed: 1, max_steps: 1, eval_steps: 1}\n")
    flags = {"training": {"seed": 2, "max_steps": 2, "eval_steps": None}}
    options = {"training.seed": "--seed", "training.max_steps": "--max-steps"}
    values, origins = collect_values(file, flags, ["training.seed=3"], options)
    assert values["training"] == {"seed": 3, "max_steps": 2, "eval_steps": 1}
    assert origins["training.seed"] == "--set training.seed"
    assert origins["training.max_steps"] == "--max-steps"
    assert origins["training.eval_steps"] == 1


def test_a_section_without_keys_is_an_empty_one(tmp_path: Path) -> None:
    file = written(tmp_path / "r.yaml", "model: {name: gpt}\ndata: {paths: x}\ntraining:\n")
    values, _ = collect_values(file, {"training": {"seed": 2}}, ["training.eval_steps=5"])
    assert make_recipe(values).training.seed == 2
    assert make_recipe(values).training.eval_steps == 5


@pytest.mark.parametrize("section", ["model", "data", "tokenizer", "training"])
def test_a_value_where_a_section_must_be_is_named(tmp_path: Path, section: str) -> None:
    file = written(tmp_path / "r.yaml", f"{section}: 5\n")
    values, _ = collect_values(file, {section: {"seed": 2}}, [])
    with pytest.raises(GlassformerError, match=f"^{section} in r.yaml must be a section"):
        make_recipe(values, "r.yaml")


@pytest.mark.parametrize("missing", ["model", "data"])
def test_a_recipe_without_model_or_data_is_wrong_usage(missing: str) -> None:
    with pytest.raises(UsageError, match=r"^no (model\. Pass one|data\. Pass --data)"):
        make_recipe({name: section for name, section in MINIMAL.items() if name != missing})


def test_a_misspelt_key_of_the_model_is_found_before_any_work(tmp_path: Path) -> None:
    file = written(tmp_path / "r.yaml", "data: {paths: x}\nmodel:\n  name: gpt\n  d_modle: 48\n")
    values, lines = collect_values(file, {}, [])
    with pytest.raises(GlassformerError, match=r"model\.d_modle.*line 4.*mean d_model\?"):
        make_recipe(values, str(file), lines)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(GlassformerError, match=r'"gpt3".*nano, lecture, gpt2'):
        make_recipe(MINIMAL | {"model": {"name": "gpt", "preset": "gpt3"}})


def test_what_is_said_wins_over_the_preset() -> None:
    recipe = make_recipe(MINIMAL | {"model": {"name": "gpt", "preset": "nano", "num_layers": 9}})
    assert recipe.architecture().model_dump()["num_layers"] == 9
    assert recipe.architecture().model_dump()["d_model"] == 48


@pytest.mark.parametrize(
    ("section", "meant"),
    [("modle", "model"), ("learning_rate", "training.learning_rate"), ("num_layer", "model.num_")],
)
def test_an_unknown_section_suggests_what_may_have_been_meant(
    tmp_path: Path, section: str, meant: str
) -> None:
    file = written(tmp_path / "r.yaml", f"data: {{paths: x}}\n{section}: {{}}\n")
    values, lines = collect_values(file, {}, [])
    with pytest.raises(GlassformerError, match=rf"{section} in .*, line 2\. Did you mean {meant}"):
        make_recipe(values, str(file), lines)


# --- still the same? ---


def test_saying_the_same_again_is_no_difference(tiny: Make) -> None:
    assert list(differences(tiny(), complete(tiny()))) == []
    assert list(differences(tiny(), {"training": {"max_steps": "12"}})) == []


def test_leaving_a_choice_open_is_no_difference(tiny: Make) -> None:
    given = {"training": {"max_steps": None, "device": "auto"}, "tokenizer": {"kind": "auto"}}
    assert list(differences(tiny(), given)) == []
