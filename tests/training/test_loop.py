"""A training learns, leaves a usable folder, repeats itself exactly, and fails without a mess."""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassformer.checkpoint.model_folder import load_model
from glassformer.checkpoint.training_state import load_state, read_metrics
from glassformer.errors import GlassformerError
from glassformer.tasks import load
from glassformer.tasks.language import task as language
from glassformer.tasks.language.scores import LanguageResult, evaluate_language
from glassformer.tasks.recipe import Recipe
from glassformer.text.words import ByteCount
from glassformer.training import run as story
from glassformer.training.learner import Batch, Loss
from glassformer.training.preparation import load_objective
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]
Contents = Callable[[Path], dict[str, bytes]]


def trained(recipe: Recipe, folder: Path) -> Path:
    story.train(recipe, RunFolder(folder), io.StringIO())
    return folder


def curve(run: Path, column: str) -> list[float]:
    with (run / "metrics.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


# --- it learns ---


def test_the_loss_falls_far_below_guessing(tmp_path: Path, tiny: Make) -> None:
    recipe = tiny(max_steps=100, eval_steps=10, save_steps=50, learning_rate=0.02)
    run = trained(recipe, tmp_path / "run")
    guessing = math.log(load_model(run).preprocessing.tokenizer.vocab_size)
    assert curve(run, "train_loss")[-1] < guessing - 0.8
    assert curve(run, "val_loss")[-1] < curve(run, "val_loss")[0] - 0.2


def test_a_run_folder_holds_what_its_description_says(tmp_path: Path, tiny: Make) -> None:
    run = trained(tiny(), tmp_path / "run")
    names = {path.name for path in run.iterdir() if not path.name.startswith("events.out")}
    assert names == {
        *("recipe.yaml", "data", "metrics.csv", "samples.txt", "checkpoints", "snapshots"),
        *("config.json", "model.safetensors", "tokenizer.json"),
        *("preprocessor_config.json", "README.md", "report.html"),
    }
    assert [step for step, _ in RunFolder(run).checkpoints()] == [9, 12]
    assert len(list(run.glob("events.out.tfevents.*"))) == 1


def test_the_curves_have_a_row_wherever_one_is_due(tmp_path: Path, tiny: Make) -> None:
    run = trained(tiny(), tmp_path / "run")
    assert curve(run, "step") == [4, 5, 8, 10, 12]
    assert len(curve(run, "val_loss")) == len(curve(run, "val_bits_per_byte")) == 3
    assert (run / "samples.txt").read_text().count("--- step ") == 3


def test_the_model_in_the_run_is_the_one_that_validated_best(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 1.0, 2.0])  # at steps 4, 8 and 12
    monkeypatch.setattr(
        language,
        "evaluate_language",
        lambda *given: LanguageResult(next(losses), 10, ByteCount(10)),
    )
    outcome = story.train(tiny(save_steps=4), RunFolder(tmp_path / "run"), io.StringIO())
    state = load_state(tmp_path / "run" / "checkpoints" / "step-8")["model"]
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert (outcome.best["val_loss"], outcome.best_step) == (1.0, 8)
    assert all(torch.equal(kept[name], state[name]) for name in kept)


def test_the_saved_model_validates_as_it_did_in_training(tmp_path: Path, tiny: Make) -> None:
    run = trained(tiny(), tmp_path / "run")
    data = load_objective(RunFolder(run).recipe(), run).dataset
    found = evaluate_language(load(run).model, data.validation, data.validation_size, 16)
    assert found.loss == min(curve(run, "val_loss"))


def test_a_trained_model_writes_and_scores(tmp_path: Path, tiny: Make) -> None:
    model = load(trained(tiny(), tmp_path / "run"))
    assert model.generate("the fox", max_new_tokens=40, seed=1).num_tokens > 0
    assert model.score("the fox").total < 0


def test_the_card_tells_the_data_without_its_path(tmp_path: Path, tiny: Make) -> None:
    card = (trained(tiny(), tmp_path / "run") / "README.md").read_text()
    assert "| data | notes.txt |" in card
    assert str(tmp_path) not in card


# --- it repeats itself ---


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, tiny: Make, contents: Contents) -> None:
    first, again = (trained(tiny(seed=3), tmp_path / name) for name in ("first", "again"))
    assert contents(first) == contents(again)


def test_another_seed_gives_another_model(tmp_path: Path, tiny: Make) -> None:
    one, other = (trained(tiny(seed=seed), tmp_path / f"{seed}") for seed in (3, 4))
    assert (one / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes()


def test_two_small_batches_teach_what_one_large_batch_does(tmp_path: Path, tiny: Make) -> None:
    weights = []
    for accumulation in (1, 2, 4):
        batch = {"per_device_train_batch_size": 4 // accumulation}
        batch |= {"gradient_accumulation_steps": accumulation, "max_steps": 6}
        run = trained(tiny({"dropout": 0.0}, **batch), tmp_path / f"{accumulation}")
        weights.append(load_file(run / "model.safetensors"))
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=0, atol=1e-5)
        torch.testing.assert_close(weights[2][name], weight, rtol=0, atol=1e-5)


def test_writing_samples_does_not_change_what_is_learned(tmp_path: Path, tiny: Make) -> None:
    often, seldom = (trained(tiny(eval_steps=n), tmp_path / f"{n}") for n in (1, 12))
    last = "checkpoints/step-12/state.safetensors"
    assert (often / last).read_bytes() == (seldom / last).read_bytes()


# --- it fails without a mess ---


def test_a_loss_that_is_not_a_number_stops_before_it_is_learned(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([1.0] * 13 + [math.nan] * 11)
    real = language.next_token_loss
    monkeypatch.setattr(language, "next_token_loss", lambda *given: real(*given) * next(losses))
    with pytest.raises(GlassformerError, match=r"^the loss became nan at step 7,.*learning_rate"):
        story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    run = RunFolder(tmp_path / "run")
    monkeypatch.undo()
    assert run.last_step() == 6
    assert story.resume(run, io.StringIO()).step == 12


def test_a_training_that_runs_out_of_memory_ends_with_a_sentence(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language, "next_token_loss", lambda *given: torch.empty(2**60))
    with pytest.raises(GlassformerError, match=r"^out of memory at step 1\..*--batch-size"):
        story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())


def test_a_validation_loss_that_is_not_a_number_is_not_saved(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([LanguageResult(loss, 10, ByteCount(10)) for loss in (2.0, math.inf)])
    monkeypatch.setattr(language, "evaluate_language", lambda *given: next(found))
    with pytest.raises(GlassformerError, match="validation loss became inf at step 8"):
        story.train(tiny(save_steps=4), RunFolder(tmp_path / "run"), io.StringIO())
    assert RunFolder(tmp_path / "run").last_step() == 4


@pytest.mark.parametrize("optimizer", ["muon", "adamw", "sgd"])
def test_the_recorded_learning_rate_is_that_of_the_recipe(
    tmp_path: Path, tiny: Make, optimizer: str
) -> None:
    """Not that of a group of parameters, which may learn several times as fast."""
    recipe = tiny(
        optimizer=optimizer, learning_rate=0.04, warmup_steps=3, logging_steps=1, max_steps=7,
        lr_scheduler_type="linear",
    )  # fmt: skip
    story.train(recipe, RunFolder(tmp_path / "run"), io.StringIO())
    rates = [float(row["learning_rate"]) for row in read_metrics(tmp_path / "run/metrics.csv")]
    assert rates == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.03, 0.02, 0.01])


def test_far_too_high_a_learning_rate_is_an_error_with_a_cure(tmp_path: Path, tiny: Make) -> None:
    with pytest.raises(GlassformerError, match=r"--set training\.learning_rate="):
        story.train(tiny(learning_rate=1e30), RunFolder(tmp_path / "run"), io.StringIO())


def test_a_gradient_that_is_no_number_stops_before_the_update(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(self: Loss, batch: Batch) -> torch.Tensor:
        zero = next(self.parameters()).sum() * 0
        return zero.sqrt() + 1  # the loss is 1, and the slope of a root at zero infinite

    monkeypatch.setattr(Loss, "forward", poisoned)
    with pytest.raises(GlassformerError, match="a gradient became infinite or NaN at step 1"):
        story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert RunFolder(tmp_path / "run").checkpoints() == []
