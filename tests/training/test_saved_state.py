"""A state is used only if all of it is what a training saves, whatever its checksums say."""

import io
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint.training_state import load_state, save_state
from glassformer.errors import GlassformerError
from glassformer.files import new_folder
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder
from glassformer.training.verify import verify

Make = Callable[..., Recipe]
MISSING = object()
STANDING = ("standing",)
OPTIMIZER = ("optimizer",)


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
    "version": (MISSING, 1, 3, "2"),
    "step": (MISSING, 11, "12"),
    "model": (MISSING, {}, 7, {"weight": 3}),
    "averaged": (MISSING, 7),
    "optimizer": (MISSING, [], {}),
    "precision": (MISSING, 7),
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
    (*STANDING, "seconds"): (MISSING, "x"),
    (*OPTIMIZER, "state"): (MISSING, {0: {}}, {0: {"exp_avg": torch.zeros(1)}}),
    (*OPTIMIZER, "param_groups"): (MISSING, [], [{}]),
}


def test_a_state_that_lacks_anything_is_damaged(run: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(run.checkpoint(12), tmp_path / "good")
    for key, values in WRONG.items():
        for value in values:
            path = (key,) if isinstance(key, str) else key
            change(run, 12, path, value)
            state, problems = run.last_good_state()
            assert state.step == 9, (key, value)
            assert f"{run.checkpoint(12)} is damaged: its " in problems[0]
            shutil.rmtree(run.checkpoint(12))
            shutil.copytree(tmp_path / "good", run.checkpoint(12))
    state, problems = run.last_good_state()
    assert (state.step, problems) == (12, [])


@pytest.mark.parametrize("state", ["{}", "[]", "[" * 100_000, '{"dict": [1]}', '{"dict": null}'])
def test_what_is_no_state_at_all_is_damaged(tmp_path: Path, tiny: Make, state: str) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_recipe(tiny())
    with new_folder(run.checkpoint(3)) as folder:
        (folder / "state.json").write_text(state)
    assert run.last_good_state()[0] is None
    with pytest.raises(GlassformerError, match=r"step-3 is damaged: it does not contain the state"):
        run.state(3)


@pytest.mark.parametrize("key", [("step",), ("optimizer",), (*STANDING, "stale")])
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
        (("model", "embedding.weight"), MISSING),
        (("model", "embedding.weight"), torch.zeros(1)),
        (("model", "more"), torch.zeros(1)),
        (("averaged", "embedding.weight"), torch.zeros(1)),
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
    for key in (("standing",), ("model",)):
        change(run, step, key, 7)
        with pytest.raises(GlassformerError, match=rf"step-{step} is damaged: its .*Delete "):
            verify(run, io.StringIO())


def test_a_state_of_an_earlier_version_is_refused_and_kept(run: RunFolder) -> None:
    for step in (9, 12):
        change(run, step, ("pytorch-lightning_version",), "2.6.6")
    with pytest.raises(GlassformerError, match="saved by an earlier version of glassformer"):
        story.resume(run, io.StringIO())
    assert [step for step, _ in run.checkpoints()] == [9, 12]
