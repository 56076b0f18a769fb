"""The running mean of the weights, as a run validates and keeps it."""

import io
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from glassformer.checkpoint.training_state import load_state
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]


def trained(folder: Path, recipe: Recipe) -> RunFolder:
    story.train(recipe, RunFolder(folder), io.StringIO())
    return RunFolder(folder)


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
    story.begin(recipe, run, lambda text: None)
    from glassformer.training.fit import fit

    for until in (2, 5, 7, 12):
        fit(run, io.StringIO(), until=until)
    assert contents(run.path) == contents(straight.path)
