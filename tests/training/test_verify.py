"""A replay tells whether a run is what its recipe makes."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint.training_state import load_state, save_state
from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder
from glassformer.training.verify import first_difference, verify

Make = Callable[..., Recipe]


@pytest.fixture
def run(tmp_path: Path, tiny: Make) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    story.train(tiny(ema=0.9), run, io.StringIO())
    return run


def change(run: RunFolder, step: int, edit: Callable[[dict[str, Any]], None]) -> None:
    """Save a changed state, with a manifest that fits it."""
    state = load_state(run.checkpoint(step))
    edit(state)
    save_state(run.checkpoint(step), state)


def test_a_run_is_identical_to_its_replay_and_stays_untouched(
    run: RunFolder, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    before = contents(run.path)
    verdict = verify(run, io.StringIO())
    assert (verdict.identical, verdict.first, verdict.last) == (True, 9, 12)
    assert "identical: steps 10 to 12" in verdict.text()
    assert contents(run.path) == before


def test_a_run_with_one_state_is_replayed_from_its_beginning(tmp_path: Path, tiny: Make) -> None:
    run = RunFolder(tmp_path / "one")
    story.train(tiny(save_total_limit=1), run, io.StringIO())
    verdict = verify(run, io.StringIO())
    assert (verdict.identical, verdict.first, verdict.last) == (True, 0, 12)


@pytest.mark.parametrize("name", ["data/train.bin", "model.safetensors"])
def test_damage_is_named_by_the_place_it_has_in_the_run(run: RunFolder, name: str) -> None:
    path = run.path / name
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(GlassformerError, match=rf"{path} is (damaged|not a safetensors)"):
        verify(run, io.StringIO())


def test_a_changed_beginning_differs_at_the_first_step(run: RunFolder) -> None:
    def edit(state: dict[str, Any]) -> None:
        state["model"]["embedding.weight"] += 0.01

    change(run, 9, edit)
    verdict = verify(run, io.StringIO())
    assert (verdict.identical, verdict.differs_at) == (False, 10)
    assert "differ at step 10: its loss was" in verdict.text()
    assert "The machine is the same" in verdict.text()
    assert json.loads(json.dumps(verdict.as_json()))["differs_at"] == 10


def test_a_changed_end_is_named_by_the_value_that_differs(run: RunFolder) -> None:
    def edit(state: dict[str, Any]) -> None:
        state["averaged"]["embedding.weight"][0, 0] = torch.nan

    change(run, 12, edit)
    verdict = verify(run, io.StringIO())
    assert (verdict.identical, verdict.differs_at) == (False, None)
    assert "averaged.embedding.weight is not" in verdict.text()


def test_another_machine_is_given_as_the_reason(run: RunFolder) -> None:
    def edit(state: dict[str, Any]) -> None:
        state["standing"]["machine"]["torch"] = "1.0"
        state["standing"]["trace"][-1] += 1e-9

    change(run, 12, edit)
    verdict = verify(run, io.StringIO())
    assert verdict.differs_at == 12
    assert f"torch was 1.0 and is now {torch.__version__}" in verdict.text()


def test_bits_count_and_not_only_values() -> None:
    assert first_difference({"a": torch.zeros(1)}, {"a": -torch.zeros(1)}) == "a"
    assert first_difference({"a": torch.zeros(1)}, {"a": torch.zeros(1)}) is None


def test_a_recipe_that_changed_on_the_way_is_the_reason(run: RunFolder) -> None:
    forced = RunFolder(run.path, is_forced=True)
    recipe = run.recipe()
    training = recipe.training.model_copy(update={"max_steps": 14, "weight_decay": 0.2})
    run.write_recipe(recipe.model_copy(update={"training": training}))
    story.resume(forced, io.StringIO())
    verdict = verify(run, io.StringIO())
    assert not verdict.identical
    assert "recipe.yaml has changed since then (training.max_steps, training" in verdict.text()


def test_how_often_one_logs_makes_no_difference(run: RunFolder) -> None:
    recipe = run.recipe()
    training = recipe.training.model_copy(update={"logging_steps": 1, "save_steps": 5})
    run.write_recipe(recipe.model_copy(update={"training": training}))
    assert verify(run, io.StringIO()).identical


def test_a_damaged_state_is_an_error(run: RunFolder) -> None:
    (run.checkpoint(12) / "state.json").write_text("{}")
    with pytest.raises(GlassformerError, match=r"state\.json is damaged"):
        verify(run, io.StringIO())


def test_what_is_no_run_or_has_no_state_is_an_error(tmp_path: Path, tiny: Make) -> None:
    with pytest.raises(GlassformerError, match="nothing does not exist"):
        verify(RunFolder(tmp_path / "nothing"), io.StringIO())
    run = RunFolder(tmp_path / "begun")
    story.begin(tiny(), run, io.StringIO())
    with pytest.raises(GlassformerError, match="has no checkpoint yet"):
        verify(run, io.StringIO())
