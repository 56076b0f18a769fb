"""The running mean of the weights, as a run validates and keeps it."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils import get_total_norm

from glassformer.checkpoint.training_state import load_state
from glassformer.tasks.recipe import Recipe
from glassformer.training import learner
from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]


def trained(folder: Path, recipe: Recipe) -> RunFolder:
    story.train(recipe, RunFolder(folder), io.StringIO())
    return RunFolder(folder)


def test_the_mean_is_what_is_validated_and_kept(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(ema=0.9))
    state = load_state(run.checkpoint(12))
    learned, averaged = (state[part]["embedding.weight"] for part in ("model", "averaged"))
    kept = load_file(run.path / "model.safetensors")["embedding.weight"]
    assert not torch.equal(learned, averaged)
    assert torch.equal(kept, averaged)


def test_the_mean_is_as_its_equation_says(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny(ema=0.7, save_steps=1, save_total_limit=99))
    states = [load_state(run.checkpoint(step)) for step in range(1, 13)]
    name = "blocks.0.feedforward.up.weight"
    mean = states[0]["averaged"][name]
    for step, state in enumerate(states[1:], 2):
        mean = torch.lerp(mean, state["model"][name], 1 - min(0.7, step / (9 + step)))
    torch.testing.assert_close(states[-1]["averaged"][name], mean)


def test_a_run_with_a_mean_resumes_to_the_same_bytes(
    tmp_path: Path, tiny: Make, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    recipe = tiny(ema=0.9, early_stopping=5)
    straight, run = trained(tmp_path / "straight", recipe), RunFolder(tmp_path / "run")
    story.begin(recipe, run, io.StringIO())
    from glassformer.training.run import fit

    for until in (2, 5, 7, 12):
        fit(run, io.StringIO(), until=until)
    story.resume(run, io.StringIO())  # writes the report
    assert contents(run.path) == contents(straight.path)


@pytest.mark.parametrize("norm", [0.01, 1e9, 0.0])
def test_gradients_are_clipped_to_the_norm_of_the_recipe(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch, norm: float
) -> None:
    real, seen = learner.clip, []

    def clip(parameters: Iterable[nn.Parameter], most: float) -> None:
        learning = list(parameters)
        gradients = [p.grad for p in learning]
        before = float(get_total_norm(gradients))
        real(learning, most)
        seen.append((before, float(get_total_norm(gradients))))

    monkeypatch.setattr(learner, "clip", clip)
    trained(tmp_path / "run", tiny(max_grad_norm=norm, max_steps=3))
    assert len(seen) == (3 if norm else 0)
    for before, after in seen:
        assert after == pytest.approx(min(before, norm), rel=1e-3)
