"""The recurrent language model is trained and used as every other language model is."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_tasks import AtBatch, Contents, check_that_it_resumes_exactly, curve, trained

from glassformer.tasks import load
from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import make_recipe

Make = Callable[..., Recipe]


@pytest.fixture
def recurrent(notes: Path) -> Make:
    def make(model: dict[str, Any] | None = None, **training: Any) -> Recipe:
        sizes = {"num_layers": 2, "d_model": 16, "d_embedding": 16, "context_length": 16}
        steps = {"max_steps": 12, "eval_steps": 4, "save_steps": 3, "logging_steps": 5}
        batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
        machine = {"device": "cpu", "precision": "float32", "num_threads": 1}
        return make_recipe(
            {
                "model": {"name": "rnn-lm", "dropout": 0.1, **sizes} | (model or {}),
                "data": {"paths": [str(notes)]},
                "training": steps | batch | machine | training,
            }
        )

    return make


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_every_cell_learns_and_is_used_through_its_folder(
    tmp_path: Path, recurrent: Make, cell: str
) -> None:
    steps = {"max_steps": 80, "eval_steps": 40, "save_steps": 80, "learning_rate": 0.02}
    steps |= {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
    run = trained(recurrent({"cell": cell, "dropout": 0.0}, **steps), tmp_path / "run")
    model = load(run)
    guessing = math.log(model.tokenizer.vocab_size)
    assert curve(run, "val_loss")[-1] < guessing - 0.8
    written = model.generate("the quick", max_new_tokens=40, temperature=0.0)
    assert written.num_tokens == 40
    assert model.score("the quick brown fox").total > model.score("xof nworb kciuq eht").total


def test_it_writes_the_same_with_the_same_seed_and_other_text_with_another(
    tmp_path: Path, recurrent: Make
) -> None:
    model = load(trained(recurrent(), tmp_path / "run"))
    one, again, other = (
        model.generate("the fox", max_new_tokens=30, seed=seed).text for seed in (1, 1, 2)
    )
    assert one == again != other


def test_it_writes_beyond_the_context_that_it_was_trained_with(
    tmp_path: Path, recurrent: Make
) -> None:
    model = load(trained(recurrent(), tmp_path / "run"))
    written = model.generate("the fox jumps over", max_new_tokens=60, temperature=0.0)
    assert written.num_tokens == 60


@pytest.mark.parametrize("tie_weights", [False, True])
def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path, recurrent: Make, at_batch: AtBatch, contents: Contents, tie_weights: bool
) -> None:
    recipe = recurrent({"tie_weights": tie_weights}, ema=0.9)
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=13)
