"""A state is used only if all of it is what a training saves, whatever its checksums say."""

import io
import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.atomic_files import new_folder
from glassformer.checkpoint.training_state import load_state, save_state
from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder
from glassformer.training.verify import verify

Make = Callable[..., Recipe]
MISSING = object()
STANDING = ("callbacks", "standing")
FIT = ("loops", "fit_loop")
OPTIMIZER = ("optimizer_states", 0)


@pytest.fixture
def run(tmp_path: Path, tiny: Make) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    story.train(tiny(), run, io.StringIO())
    return run


def change(run: RunFolder, step: int, key: tuple[Any, ...], value: Any) -> None:
    """Save a changed state, with a manifest that fits it."""
    state = deepcopy(load_state(run.checkpoint(step)))
    *outer, last = key
    place = state
    for part in outer:
        place = place[part]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    save_state(run.checkpoint(step), state)


WRONG = {
    "state_dict": (MISSING, {}, 7, {"weight": 3}),
    "callbacks": (MISSING, 7, {}),
    "pytorch-lightning_version": (MISSING, 2),
    "optimizer_states": (MISSING, [], {}),
    "lr_schedulers": (MISSING, [3]),
    "global_step": (MISSING, 11, "12"),
    "epoch": (MISSING,),
    "loops": (MISSING, {}, {"fit_loop": 3}, {"fit_loop": {}}),
    STANDING: (MISSING, {}, 7),
    (*STANDING, "recipe"): (MISSING, []),
    (*STANDING, "machine"): (MISSING, 3, {"torch": 2}),
    (*STANDING, "losses"): (MISSING, {}, ["x"]),
    (*STANDING, "trace"): (
        MISSING,
        {},
    ),
    (*STANDING, "stale"): (MISSING, "1", -1, None),
    (*STANDING, "val"): (
        MISSING,
        "x",
    ),
    (*STANDING, "best"): (MISSING, [], "x", {"val_loss": "x"}),
    (*STANDING, "best_step"): (MISSING, "x", 1.5),
    (*FIT, "epoch_progress"): (MISSING, {}),
    (*FIT, "epoch_loop.batch_progress"): (MISSING, 3),
    (*FIT, "epoch_loop.batch_progress", "current", "ready"): (MISSING, 22),
    (*FIT, "epoch_loop.batch_progress", "total", "processed"): (MISSING,),
    (*FIT, "epoch_loop.automatic_optimization.optim_progress"): (MISSING, {"optimizer": {}}),
    (*OPTIMIZER, "state"): (MISSING, {0: {}}, {0: {"exp_avg": torch.zeros(1)}}),
    (*OPTIMIZER, "param_groups"): (MISSING, [], [{}]),
}


def test_a_state_that_lacks_anything_is_damaged(run: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(run.checkpoint(12), tmp_path / "good")
    for key, values in WRONG.items():
        for value in values:
            path = (key,) if isinstance(key, str) else key
            change(run, 12, path, value)
            step, problems = run.last_good_step()
            assert step == 9, (key, value)
            assert f"{run.checkpoint(12)} is damaged: its " in problems[0]
            shutil.rmtree(run.checkpoint(12))
            shutil.copytree(tmp_path / "good", run.checkpoint(12))
    assert run.last_good_step() == (12, [])


@pytest.mark.parametrize("state", ["{}", "[]", "[" * 100_000, '{"dict": [1]}', '{"dict": null}'])
def test_what_is_no_state_at_all_is_damaged(tmp_path: Path, tiny: Make, state: str) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_recipe(tiny())
    with new_folder(run.checkpoint(3)) as folder:
        (folder / "state.json").write_text(state)
    assert run.last_good_step()[0] == 0
    with pytest.raises(GlassformerError, match=r"step-3 is damaged: it does not contain the state"):
        run.standing(3)


@pytest.mark.parametrize("key", [("loops",), ("optimizer_states",), (*STANDING, "stale")])
def test_an_earlier_state_takes_the_place_of_an_incomplete_one(
    run: RunFolder, contents: Callable[[Path], dict[str, bytes]], key: tuple[str, ...]
) -> None:
    before = contents(run.path)
    change(run, 12, key, MISSING if len(key) == 1 else "x")
    stream = io.StringIO()
    story.resume(run, stream)
    assert f"warning: {run.checkpoint(12)} is damaged: its {'.'.join(key)}" in stream.getvalue()
    assert contents(run.path) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("state_dict", "model.embedding.weight"), MISSING),
        (("state_dict", "model.embedding.weight"), torch.zeros(1)),
        (("state_dict", "more"), torch.zeros(1)),
        ((*OPTIMIZER, "param_groups", 0, "params"), [0]),
        ((*OPTIMIZER, "state"), {}),  # fits only an optimizer that remembers nothing
        ((*OPTIMIZER, "state", 0), {"momentum": torch.zeros(3)}),
        ((*OPTIMIZER, "state", 999), {"momentum": torch.zeros(3)}),
        ((*STANDING, "best"), {"val_loss": 3.0}),
    ],
)
def test_a_state_of_another_model_is_refused(run: RunFolder, key: Any, value: Any) -> None:
    shutil.rmtree(run.checkpoint(12))
    change(run, 9, key, value)
    with pytest.raises(GlassformerError, match=r"step-9 is damaged: its .* Delete .* earlier"):
        story.resume(run, io.StringIO())


@pytest.mark.parametrize("step", [9, 12])
def test_a_replay_refuses_an_incomplete_state(run: RunFolder, step: int) -> None:
    for key in (("callbacks",), ("loops",)):
        change(run, step, key, 7)
        with pytest.raises(GlassformerError, match=rf"step-{step} is damaged: its .*Delete "):
            verify(run, io.StringIO())


def test_a_state_written_under_another_version_of_lightning_continues_exactly(
    run: RunFolder, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    before = contents(run.path)
    shutil.rmtree(run.checkpoint(12))
    change(run, 9, ("pytorch-lightning_version",), "0.0.1")
    story.resume(run, io.StringIO())
    after = contents(run.path)
    states = [json.loads(each["checkpoints/step-12/state.json"]) for each in (before, after)]
    assert states[0] == states[1]
    assert after["model.safetensors"] == before["model.safetensors"]
