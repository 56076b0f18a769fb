"""Tokens are hidden as the recipe specifies, and a model learns to guess them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_tasks import (
    ENCODER,
    MACHINE,
    AtBatch,
    Contents,
    check_that_it_resumes_exactly,
    curve,
    ready,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.model_folder import load_model
from glassformer.tasks.evaluating import order
from glassformer.tasks.masked.task import SHOWN
from glassformer.tasks.recipe import Recipe
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.training.preparation import make_recipe

Make = Callable[..., Recipe]


@pytest.fixture
def bert(notes: Path) -> Make:
    def make(objective: dict | None = None, model: dict | None = None, **training) -> Recipe:
        steps = {"max_steps": 12, "eval_steps": 4, "save_steps": 3, "logging_steps": 5}
        steps |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
        return make_recipe(
            {
                "model": {"name": "bert", **ENCODER, "dropout": 0.1} | (model or {}),
                "data": {"paths": [str(notes)]},
                "tokenizer": {"kind": "wordpiece", "vocab_size": 80},
                "objective": objective or {},
                "training": steps | MACHINE | training,
            }
        )

    return make


# --- batches ---


def test_a_batch_stands_between_cls_and_sep_and_fills_the_context(tmp_path: Path, bert: Make):
    objective, _ = ready(bert(), tmp_path)
    batch = objective.batch(0)
    special = objective.dataset.preprocessing.tokenizer.special_tokens
    assert batch.ids.shape == (2, 32)
    assert set(batch.ids[:, 0].tolist()) == {special["[CLS]"]}
    assert set(batch.ids[:, -1].tolist()) == {special["[SEP]"]}
    assert not batch.is_asked[:, [0, -1]].any()
    assert len(batch.targets) == batch.is_asked.sum()


def test_a_batch_is_the_text_but_for_what_is_hidden(tmp_path: Path, bert: Make):
    objective, _ = ready(bert(), tmp_path)
    batch = objective.batch(3)
    ids = batch.ids.clone()
    ids[batch.is_asked] = batch.targets
    text = " ".join(map(str, objective.dataset.training.tolist()))
    for row in ids[:, 1:-1].tolist():
        assert " ".join(map(str, row)) in text


def test_each_batch_hides_other_tokens_but_always_the_same_ones(tmp_path: Path, bert: Make):
    objective, _ = ready(bert(), tmp_path / "one")
    again, _ = ready(bert(), tmp_path / "two")
    again.batch(40)
    for number in (5, 0, 5):
        for one, other in zip(objective.batch(number), again.batch(number), strict=True):
            assert torch.equal(one, other)
    places = {tuple(objective.batch(number).is_asked.flatten().tolist()) for number in range(20)}
    assert len(places) == 20


def test_the_loss_is_the_cross_entropy_of_what_is_asked(tmp_path: Path, bert: Make):
    objective, model = ready(bert(), tmp_path)
    batch = objective.batch(1)
    logits = model.eval()(batch.ids)[batch.is_asked]
    expected = F.cross_entropy(logits, batch.targets)
    torch.testing.assert_close(objective.loss(model, batch), expected)


def test_validation_is_the_same_each_time_and_covers_the_held_out_text(tmp_path: Path, bert: Make):
    objective, model = ready(bert(), tmp_path)
    model.train()
    found, again = objective.validate(model), objective.validate(model)
    assert found == again
    assert model.training
    assert found.loss == pytest.approx(math.log(80), abs=1)
    assert 0.05 < found.num_tokens / len(objective.dataset.validation) < 0.3


@pytest.mark.parametrize(("truth", "shown"), [("\n", r"'\n'"), (" ", "' '"), ("a", "a")])
def test_a_sample_also_shows_tokens_that_are_blanks(
    tmp_path: Path, bert: Make, notes: Path, truth: str, shown: str
):
    notes.write_text("a b\n" * 500)
    recipe = bert().model_copy(update={"tokenizer": TokenizerConfig(kind="char")})
    objective, model = ready(recipe, tmp_path)
    (id,), (guess,) = objective.dataset.preprocessing.encode([truth, "b" if truth == "a" else "a"])
    middle = next(n for n in range(4) if objective.dataset.validation[n + SHOWN] == id)
    model.predict = lambda hidden: F.one_hot(torch.tensor(guess), 80)
    assert f", not {shown}]" in objective.sample(model, middle)


# --- learning ---


def test_a_tiny_bert_learns_to_guess(tmp_path: Path, bert: Make, notes: Path):
    notes.write_text("one two three four five six seven eight nine ten\n" * 100)
    recipe = bert(
        model={"dropout": 0.0},
        max_steps=150,
        eval_steps=50,
        save_steps=150,
        learning_rate=0.01,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
    )
    run = trained(recipe, tmp_path / "run")
    guessing = math.log(load_model(run).preprocessing.tokenizer.vocab_size)
    assert curve(run, "val_loss")[-1] < guessing / 3
    assert curve(run, "val_accuracy")[-1] > 0.7


def test_the_loss_decides_which_model_is_the_best(tmp_path: Path, bert: Make):
    objective, _ = ready(bert(), tmp_path)
    better, worse = {"loss": 1.0, "accuracy": 0.1}, {"loss": 2.0, "accuracy": 0.9}
    keys = [
        order(objective.measure, each[objective.measure], each["loss"]) for each in (better, worse)
    ]
    assert keys[0] < keys[1]


@pytest.mark.parametrize("batch", [7, 13])
def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path, bert: Make, at_batch: AtBatch, contents: Contents, batch: int
):
    recipe = bert({"whole_word_masking": True})
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch)
