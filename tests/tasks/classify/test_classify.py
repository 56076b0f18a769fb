"""Classifiers learn the label of a text, report how sure they are, and keep their best weights."""

import io
import math
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import (
    ENCODER,
    AtBatch,
    Contents,
    best,
    check_that_it_resumes_exactly,
    config_of,
    curve,
    ready,
    recipe_for,
    reopened,
    reviews,
    topics,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.model_folder import load_model
from glassformer.checkpoint.training_state import load_state
from glassformer.data.batches import LabelledBatch
from glassformer.errors import GlassformerError
from glassformer.models.ensemble import Ensemble
from glassformer.preprocessing import load_preprocessing
from glassformer.tasks import load
from glassformer.tasks.labels.scores import Answers, Classification, judge, read_logits
from glassformer.training import run as training
from glassformer.training.preparation import make_recipe, prepare
from glassformer.training.run_folder import RunFolder, differences

# --- learning ---


@pytest.mark.parametrize("name", ["bag", "rnn-classifier", "classifier", "gpt-classifier"])
def test_every_model_learns_an_easy_task(tmp_path: Path, name: str):
    run = trained(recipe_for(name, reviews(tmp_path)), tmp_path / "run")
    assert best(run)["val_accuracy"] >= 0.9
    assert load_model(run).name == name


def test_each_part_of_a_model_learns_from_its_own_loss(tmp_path: Path):
    objective, _ = ready(recipe_for("bag", reviews(tmp_path)), tmp_path / "run")
    batch = objective.batch(0)
    parts = [torch.randn(len(batch.targets), 2, requires_grad=True) for _ in range(2)]
    model: Any = SimpleNamespace(
        members=lambda ids, is_text: tuple(parts),
        combined=lambda parts: 0.25 * parts[0] + 2 * parts[1],
    )
    loss = Ensemble.loss(
        model,
        batch.ids,
        batch.is_text,
        lambda logits: objective.cross_entropy(logits, batch.targets),
    )
    mean = sum(F.cross_entropy(each, batch.targets) for each in parts) / 2
    pairs = zip(torch.autograd.grad(loss, parts), torch.autograd.grad(mean, parts), strict=True)
    for ours, expected in pairs:
        torch.testing.assert_close(ours, expected)
    # What is logged is the loss of the prediction, like that of a validation.
    together = F.cross_entropy(model.combined(parts), batch.targets)
    torch.testing.assert_close(loss, together)
    assert (together - mean).abs().item() > 0.01


def test_the_weights_of_body_and_bag_are_kept_with_the_model(tmp_path: Path):
    run = trained(recipe_for("classifier", reviews(tmp_path), max_steps=12), tmp_path / "run")
    objective, model = reopened(run)
    rows = objective.dataset.validation
    targets = torch.from_numpy(rows.targets)
    kept, heat = model.shares.clone(), model.temperature.item()
    model.weigh([1.0, 1.0])
    logits = objective.fitted_logits(model, targets)
    torch.testing.assert_close(model.shares, kept)
    torch.testing.assert_close(logits, read_logits(model, rows))
    model.temperature.fill_(1.0)
    objective.validate(model)
    assert model.temperature.item() == pytest.approx(heat)


def test_few_held_out_examples_choose_among_few_models(tmp_path: Path):
    for count, expected in ((120, 500), (1000, 500), (3000, 166)):
        recipe = recipe_for("bag", reviews(tmp_path, count), max_steps=2000, eval_steps=None)
        objective, _ = ready(recipe, tmp_path / str(count))
        assert objective.config.eval_steps == expected


def test_new_texts_get_the_labels_that_were_learned(tmp_path: Path):
    run = trained(recipe_for("classifier", reviews(tmp_path)), tmp_path / "run")
    texts = ["it was a great film", "an awful story", "the fine music", "poor people"]
    found = load(run).classify_batch(texts)
    assert [each.label for each in found] == ["good", "bad", "good", "bad"]


def test_several_labels_at_once_are_learned(tmp_path: Path):
    run = trained(recipe_for("bag", topics(tmp_path, count=480), max_steps=240), tmp_path / "run")
    config = config_of(run)
    assert config["multi_label"]
    assert config["labels"] == ["bad", "good"]
    assert best(run)["val_accuracy"] >= 0.9
    saved = load_model(run)
    for text, is_both in (("the good and bad film", True), ("the film was in one town", False)):
        ids = torch.tensor(saved.preprocessing.encode([text]))
        assert ((saved.model.probabilities(saved.model(ids)) > 0.5) == is_both).all()


def test_the_model_knows_its_labels_and_its_columns(tmp_path: Path):
    recipe = recipe_for("bag", reviews(tmp_path), max_steps=2, eval_steps=1, save_steps=2)
    run = trained(recipe, tmp_path / "run")
    config, preprocessing = config_of(run), load_preprocessing(run)
    assert config["labels"] == ["bad", "good"]
    assert config["multi_label"] is False
    assert preprocessing.text_column == ("review",)
    assert preprocessing.label_column == "sentiment"


def test_the_saved_model_is_as_good_as_it_was_in_training(tmp_path: Path):
    run = trained(recipe_for("classifier", reviews(tmp_path)), tmp_path / "run")
    objective, model = reopened(run)
    scores = objective.validate(model).scores()
    assert {name.removeprefix("val_"): value for name, value in best(run).items()} == scores


# --- the loss ---


def uneven(folder: Path) -> Path:
    """Thirty texts of one label, twenty of another and ten of a third."""
    path = folder / "uneven.csv"
    labels = ["much"] * 30 + ["some"] * 20 + ["few"] * 10
    rows = [f"text number {number},{label}\n" for number, label in enumerate(labels)]
    path.write_text("text,label\n" + "".join(rows))
    return path


def test_rare_labels_weigh_more_by_the_inverse_of_their_number(tmp_path: Path):
    recipe = recipe_for("bag", uneven(tmp_path), objective={"class_weights": True})
    objective, model = ready(recipe, tmp_path)
    counts = np.bincount(objective.dataset.training.targets)
    weights = torch.tensor([counts.sum() / (3 * count) for count in counts], dtype=torch.float32)
    assert objective.dataset.labels == ("few", "much", "some")
    assert counts[1] > counts[2] > counts[0]
    batch = objective.batch(0)
    model.eval()
    expected = F.cross_entropy(model(batch.ids, batch.is_text), batch.targets, weights)
    torch.testing.assert_close(objective.loss(model, batch), expected)


def test_of_several_labels_each_weighs_as_much_as_its_absence(tmp_path: Path):
    recipe = recipe_for("bag", topics(tmp_path), objective={"class_weights": True})
    objective, model = ready(recipe, tmp_path)
    targets = torch.from_numpy(objective.dataset.training.targets)
    positive = targets.sum(0)
    batch = objective.batch(0)
    model.eval()
    expected = F.binary_cross_entropy_with_logits(
        model(batch.ids, batch.is_text),
        batch.targets.float(),
        pos_weight=(len(targets) - positive) / positive,
    )
    torch.testing.assert_close(objective.loss(model, batch), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_labels_are_smoothed_as_the_recipe_specifies(tmp_path: Path, smoothing: float):
    recipe = recipe_for("bag", reviews(tmp_path), objective={"label_smoothing": smoothing})
    objective, model = ready(recipe, tmp_path)
    batch = objective.batch(0)
    model.eval()
    log_p = model(batch.ids, batch.is_text).log_softmax(-1)
    goal = F.one_hot(batch.targets, 2) * (1 - smoothing) + smoothing / 2
    torch.testing.assert_close(objective.loss(model, batch), -(goal * log_p).sum(-1).mean())


@pytest.mark.parametrize(("smoothing", "expected"), [(0.0, 1.0397208), (0.2, 0.9847901)])
def test_several_labels_are_smoothed_towards_one_half(
    tmp_path: Path, smoothing: float, expected: float
):
    """p = (1/2, 3/4), and the labels are (yes, no): with s = 0.2 the goal is (0.9, 0.1), so the
    loss is (ln 2 - 0.1 ln 3/4 - 0.9 ln 1/4) / 2."""
    recipe = recipe_for("bag", topics(tmp_path), objective={"label_smoothing": smoothing})
    objective, _ = ready(recipe, tmp_path)
    batch = objective.batch(0, most=1)._replace(targets=torch.tensor([[1, 0]]))

    logits = torch.tensor([[0.0, math.log(3)]])
    assert objective.loss(lambda ids, is_text: logits, batch).item() == pytest.approx(
        expected, abs=1e-6
    )


# --- judging ---


def test_the_temperature_is_kept_with_the_model_and_makes_the_loss_no_worse(tmp_path: Path):
    # Few steps, so that some are still wrong: where all is right, there is no doubt to learn.
    run = trained(recipe_for("bag", reviews(tmp_path), max_steps=12), tmp_path / "run")
    objective, model = reopened(run)
    assert model.temperature.item() != 1
    rows = objective.dataset.validation
    logits, targets = read_logits(model, rows), torch.from_numpy(rows.targets)
    raw, cooled = (
        judge(logits, targets, model.labels, temperature=temperature)
        for temperature in (1.0, model.temperature.item())
    )
    assert cooled.loss < raw.loss
    assert best(run)["val_loss"] == pytest.approx(cooled.loss)


def found(accuracy: float, loss: float) -> Classification:
    return Classification(loss, accuracy, 0.5, 0.1, 24, (), (0.0, 1.0))


def test_the_model_of_the_lowest_loss_is_kept_whatever_its_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    judged = [found(0.7, 0.5), found(0.9, 0.45), found(0.8, 0.4), found(0.8, 0.45)]
    after = chain(judged, repeat(judged[-1]))
    monkeypatch.setattr(Answers, "judge", lambda answers: next(after))
    recipe = recipe_for("bag", reviews(tmp_path), max_steps=4, eval_steps=1, save_steps=3)
    outcome = training.train(recipe, RunFolder(tmp_path / "run"), io.StringIO())
    assert outcome.best_step == 3
    assert (outcome.best["val_accuracy"], outcome.best["val_loss"]) == (0.8, 0.4)
    state = load_state(tmp_path / "run" / "checkpoints" / "step-3")["model"]
    for name, weight in load_model(tmp_path / "run").model.state_dict().items():
        assert torch.equal(weight, state[name])


def test_validation_leaves_the_model_learning(tmp_path: Path):
    objective, model = ready(recipe_for("classifier", reviews(tmp_path)), tmp_path)
    model.train()
    objective.validate(model)
    objective.sample(model, 3)
    assert model.training


# --- texts ---


def long_and_short(folder: Path) -> Path:
    path = folder / "long.csv"
    texts = [f"{'film ' * (20 if number % 4 == 0 else 3)}{number}" for number in range(40)]
    rows = [f"{text},{'ab'[number % 2]}\n" for number, text in enumerate(texts)]
    path.write_text("text,label\n" + "".join(rows))
    return path


def test_texts_that_are_too_long_are_reported_and_cut(tmp_path: Path):
    messages: list[str] = []
    recipe = recipe_for("classifier", long_and_short(tmp_path), {"context_length": 8})
    objective, _ = ready(recipe, tmp_path, messages.append)
    notes = [line for line in messages if "exceed the model's context of 8: only" in line]
    assert notes
    assert all(line.startswith("note: ") for line in notes)
    assert sum(int(line.split()[1]) for line in notes) == 10
    assert objective.dataset.training.lengths.max() == 8


def test_nothing_is_reported_if_all_texts_fit(tmp_path: Path):
    messages: list[str] = []
    ready(recipe_for("classifier", reviews(tmp_path)), tmp_path, messages.append)
    assert messages[0].startswith("data: 216 examples of 2 labels for training; held out: ")
    assert not [line for line in messages if "exceed" in line]


def test_a_text_is_shown_up_to_the_end_of_a_word(tmp_path: Path):
    """With a mark where something is missing, but not in a command to copy."""
    path = tmp_path / "long.csv"
    rows = [
        f"{('good', 'bad')[n % 2]} {'considerable ' * 8} {n}," + ("a", "b")[n % 2]
        for n in range(40)
    ]
    path.write_text("\n".join(["text,label", *rows]))
    objective, model = ready(recipe_for("bag", path), tmp_path / "run")
    _, text = objective.sample(model, 0).split(" │ ")
    first, *words, last = text.split()
    assert (first in ("good", "bad"), set(words), last) == (True, {"considerable"}, "…")
    ((verb, folder, shown),) = objective.trials("run")
    assert (verb, folder, {*str(shown).split()[1:]}) == ("classify", "run", {"considerable"})


def test_the_saved_recipe_states_whether_text_is_lowercased(tmp_path: Path):
    for lowercase, chosen in ((None, True), (False, False)):
        recipe = recipe_for("bag", reviews(tmp_path), tokenizer={"lowercase": lowercase})
        objective, _ = ready(recipe, tmp_path / str(lowercase))
        assert objective.recipe.tokenizer.lowercase is chosen


def test_texts_are_lowercased_by_default(tmp_path: Path):
    for lowercase in (None, False):
        recipe = recipe_for("bag", reviews(tmp_path), tokenizer={"lowercase": lowercase})
        objective, _ = ready(recipe, tmp_path / str(lowercase))
        tokenizer = objective.dataset.preprocessing.tokenizer
        assert (tokenizer.encode("Good") == tokenizer.encode("good")) == (lowercase is None)


@pytest.mark.parametrize("length", [12, 13, 14, 15])
@pytest.mark.parametrize("name", ["classifier", "gpt-classifier"])
def test_the_context_that_is_chosen_is_the_one_that_the_texts_were_cut_for(
    tmp_path: Path, name: str, length: int
):
    path = tmp_path / "texts.csv"
    rows = [f"{'word ' * length},{'ab'[number % 2]}\n" for number in range(40)]
    path.write_text("text,label\n" + "".join(f"{n} {row}" for n, row in enumerate(rows)))
    recipe = recipe_for(name, path, {"context_length": None}, tokenizer={"kind": "word"})
    objective = prepare(recipe, tmp_path / "run", lambda text: None)
    raw = length + 1
    assert objective.recipe.model["context_length"] == (16 if raw + 2 <= 16 else 32)
    assert objective.dataset.training.lengths.max() == raw + (name == "gpt-classifier")


def test_a_batch_holds_texts_with_their_own_labels(tmp_path: Path):
    objective, _ = ready(recipe_for("bag", reviews(tmp_path)), tmp_path)
    tokenizer = objective.dataset.preprocessing.tokenizer
    for number in range(3):
        batch = objective.batch(number)
        assert isinstance(batch, LabelledBatch)
        for ids, is_text, target in zip(*batch, strict=True):
            words = set(tokenizer.decode(ids[is_text].tolist()).split())
            assert words & ({"bad", "awful", "poor"}, {"good", "fine", "great"})[target]


def test_at_most_so_many_items_are_taken_of_a_batch(tmp_path: Path):
    objective, _ = ready(recipe_for("bag", reviews(tmp_path)), tmp_path)
    assert objective.batch(2, most=3).ids.size(0) == 3


# --- exactly ---


def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path, at_batch: AtBatch, contents: Contents
):
    steps: dict[str, Any] = {"max_steps": 12, "eval_steps": 4, "save_steps": 3, "ema": 0.9}
    recipe = recipe_for("classifier", reviews(tmp_path), {"dropout": 0.1}, **steps)
    data = recipe.data.model_copy(update={"test_paths": recipe.data.paths})
    recipe = recipe.model_copy(update={"data": data})
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=7)


def test_every_run_has_a_curve_of_each_measure(tmp_path: Path):
    recipe = recipe_for("bag", reviews(tmp_path), max_steps=4, eval_steps=2, save_steps=4)
    run = trained(recipe, tmp_path / "run")
    measures = ("loss", "accuracy", "macro_f1", "expected_calibration_error")
    for values in (curve(run, f"val_{measure}") for measure in measures):
        assert len(values) == 2
        assert all(map(math.isfinite, values))


# --- recipes ---


def test_a_misspelt_key_names_the_nearest(tmp_path: Path):
    path = reviews(tmp_path)
    with pytest.raises(GlassformerError, match=r"objective\.label_smothing.*label_smoothing"):
        recipe_for("bag", path, objective={"label_smothing": 0.1})
    with pytest.raises(GlassformerError, match=r"finetune\.lora_ranks.*lora_rank"):
        recipe_for("classifier", path, finetune={"model": "x", "lora_ranks": 2})


def test_a_key_outside_its_section_is_told_where_it_belongs(tmp_path: Path):
    values = {"model": {"name": "classifier"}, "data": {"paths": ["x.csv"]}}
    for key, cure in (
        ("class_weights", "objective.class_weights"),
        ("lora_rank", "finetune.lora_rank"),
        ("finetunes", "finetune"),
    ):
        with pytest.raises(GlassformerError, match=rf"unknown section {key}.* mean {cure}\?"):
            make_recipe(values | {key: 1})
    gpt = {"model": {"name": "gpt"}, "data": {"paths": ["x.txt"]}}
    with pytest.raises(GlassformerError, match=r"section class_weights.* Known sections: model"):
        make_recipe(gpt | {"class_weights": 1})


def test_asking_to_fine_tune_what_began_from_nothing_is_a_difference(tmp_path: Path):
    saved = recipe_for("classifier", reviews(tmp_path))
    assert [*differences(saved, {"finetune": {"model": "x"}})] == [("finetune.model", None, "x")]
    assert not [*differences(saved, {"model": {"d_model": ENCODER["d_model"]}})]
