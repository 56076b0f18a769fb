"""Snapshots: a few steps of a training keep their weights, and nothing else changes by that."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import load_model, load_snapshot, snapshots_of
from glassformer.checkpoint.training_state import load_state
from glassformer.errors import GlassformerError
from glassformer.machine.seeds import seed_step
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.finetuning import new_model
from glassformer.training.preparation import prepare_temporarily
from glassformer.training.run_folder import RunFolder, snapshot_steps, spread_steps

Make = Callable[..., Recipe]
Contents = Callable[[Path], dict[str, bytes]]


def trained(folder: Path, recipe: Recipe) -> RunFolder:
    story.train(recipe, RunFolder(folder), io.StringIO())
    return RunFolder(folder)


def steps_of(run: RunFolder) -> list[int]:
    return [step for step, _ in snapshots_of(run.path)]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- when ---


@pytest.mark.parametrize(
    ("last", "number", "steps"),
    [
        (300, 12, [0, 1, 2, 5, 10, 20, 50, 100, 200, 300]),
        (20_000, 12, [0, *(10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000), 20_000]),
        (300, 4, [0, 100, 200, 300]),
        (105, 12, [0, 1, 2, 5, 10, 20, 50, 105]),  # 100 would be too close to the end
        (1, 12, [0, 1]),
        (300, 2, [0, 300]),
        (300, 1, [300]),
        (300, 0, []),
    ],
)
def test_the_steps_lie_ever_further_apart(last: int, number: int, steps: list[int]) -> None:
    assert spread_steps(last, number) == steps


@pytest.mark.parametrize(("wide", "number"), [(1000, 8), (1400, 4), (2000, 0)])
def test_larger_models_keep_fewer_or_none_unless_told_to(
    tiny: Make, wide: int, number: int
) -> None:
    model = nn.Linear(wide, wide, bias=False, device="meta")  # of 4, 8 and 16 MB
    with prepare_temporarily(tiny(max_steps=10_000)) as objective:
        config = objective.config
    assert len(snapshot_steps(config, model)) == number
    told = config.model_copy(update={"snapshots": 12})
    assert len(snapshot_steps(told, model)) == 12


def test_a_run_keeps_them_and_zero_means_none(tmp_path: Path, tiny: Make) -> None:
    assert steps_of(trained(tmp_path / "run", tiny())) == [0, 1, 2, 5, 10, 12]
    assert steps_of(trained(tmp_path / "few", tiny(snapshots=3))) == [0, 10, 12]
    none = trained(tmp_path / "none", tiny(snapshots=0))
    assert not (none.path / "snapshots").exists()


def test_a_run_that_stops_early_keeps_its_last_step(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(learning_rate=1e-9, early_stopping=1, max_steps=40))
    assert run.last_step() < 40
    assert steps_of(run)[-1] == run.last_step()


# --- what ---


@pytest.mark.parametrize(("ema", "part"), [(0.0, "model"), (0.9, "averaged")])
def test_a_snapshot_has_the_weights_of_its_step(
    tmp_path: Path, tiny: Make, ema: float, part: str
) -> None:
    run = trained(tmp_path / "run", tiny(save_steps=5, save_total_limit=3, ema=ema))
    files = dict(snapshots_of(run.path))
    for step in (5, 10, 12):
        state = load_state(run.checkpoint(step))[part]
        assert same(load_snapshot(run.path, files[step]).state_dict(), state)
    recipe = run.recipe()
    seed_step(recipe.training.seed, 0)
    assert same(load_snapshot(run.path, files[0]).state_dict(), new_model(recipe).state_dict())


def test_the_last_snapshot_is_the_model_if_that_was_the_best(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    kept = load_model(run.path).model.state_dict()
    assert same(load_snapshot(run.path, dict(snapshots_of(run.path))[12]).state_dict(), kept)


def test_training_is_the_same_without_them(tmp_path: Path, tiny: Make, contents: Contents) -> None:
    some, none = (
        contents(trained(tmp_path / str(number), tiny(snapshots=number)).path) for number in (5, 0)
    )
    differing = {name for name in some | none if some.get(name) != none.get(name)}
    assert {name.split("/")[0] for name in differing} == {"snapshots", "recipe.yaml"}


# --- resumed ---


class PowerError(Exception):
    """The end, at a moment of nobody's choosing."""


def cut() -> None:
    raise PowerError


@pytest.mark.parametrize("batch", [0, 5, 11, 21])
def test_a_run_cut_off_anywhere_has_the_same_snapshots(
    tmp_path: Path, tiny: Make, at_batch: Any, contents: Contents, batch: int
) -> None:
    straight = contents(trained(tmp_path / "straight", tiny()).path)
    run = RunFolder(tmp_path / "run")
    at_batch(batch, cut)
    with pytest.raises(PowerError):
        story.train(tiny(), run, io.StringIO())
    (run.path / "snapshots" / ".step-5.safetensors.partial").write_bytes(b"half of it")
    story.resume(run, io.StringIO())
    found = contents(run.path)
    assert {name for name in found if "snapshots" in name} == {
        f"snapshots/step-{step}.safetensors" for step in (0, 1, 2, 5, 10, 12)
    }
    assert found == straight


def test_snapshots_of_a_future_that_does_not_come_are_forgotten(
    tmp_path: Path, tiny: Make, at_batch: Any
) -> None:
    run = RunFolder(tmp_path / "run")
    at_batch(21, cut)  # at step 10, after the snapshot of step 10 and the state of step 9
    with pytest.raises(PowerError):
        story.train(tiny(), run, io.StringIO())
    assert (steps_of(run)[-1], run.last_step()) == (10, 9)
    run.forget_after(9)
    assert steps_of(run) == [0, 1, 2, 5]


def test_a_full_disk_is_reported_and_the_run_resumes_to_the_same_bytes(
    tmp_path: Path, tiny: Make, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = contents(trained(tmp_path / "straight", tiny()).path)
    write = Path.write_bytes

    def full(self: Path, data: Any) -> int:
        if self.name == ".step-5.safetensors.partial":
            write(self, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return write(self, data)

    run = RunFolder(tmp_path / "run")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(GlassformerError) as caught:
        story.train(tiny(), run, io.StringIO())
    monkeypatch.undo()
    where = run.path / "snapshots" / "step-5.safetensors"
    assert str(caught.value).startswith(f"{where} cannot be written: No space left on device.")
    story.resume(run, io.StringIO())
    assert contents(run.path) == straight


def test_the_number_may_change_when_a_run_resumes(
    tmp_path: Path, tiny: Make, at_batch: Any
) -> None:
    run = RunFolder(tmp_path / "run")
    at_batch(15, cut)
    with pytest.raises(PowerError):
        story.train(tiny(snapshots=0), run, io.StringIO())
    run.write_recipe(run.recipe().with_training(snapshots=12))
    story.resume(run, io.StringIO())
    assert steps_of(run) == [10, 12]


# --- damaged ---


def test_a_damaged_snapshot_is_never_accepted(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    file = dict(snapshots_of(run.path))[5]
    whole = file.read_bytes()
    for content in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[: len(whole) // 2], b""):
        file.write_bytes(content)
        with pytest.raises(GlassformerError, match=rf"^{file}.* Or delete it: the other snapshots"):
            load_snapshot(run.path, file)
    assert load_file(dict(snapshots_of(run.path))[10])
