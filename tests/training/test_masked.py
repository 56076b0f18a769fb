"""Tokens are hidden as the recipe says, and a model learns to guess them."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import (
    ENCODER,
    MACHINE,
    AtBatch,
    Contents,
    check_that_it_resumes_exactly,
    curve,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.folder import load_model
from glassformer.text import Tokenizer, TokenizerConfig, train_tokenizer
from glassformer.text.framing import BERT_TOKENS, MASK
from glassformer.training.prepare import prepare
from glassformer.training.recipe import Recipe, make_recipe
from glassformer.training.tasks.masked import SHOWN, Masked, Masking

WORDS = ("quick", "brown", "jumping", "lazily", "running", "over", "unbelievable", "mountains")

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


def ready(recipe: Recipe, folder: Path) -> Masked:
    task = prepare(recipe, folder, lambda text: None)
    assert isinstance(task, Masked)
    return task


def pieces() -> Tokenizer:
    """Words in several pieces each."""
    return train_tokenizer("wordpiece", [" ".join(WORDS)] * 2, 90, BERT_TOKENS)


def text_windows(tokenizer: Tokenizer, count: int, length: int = 128) -> np.ndarray:
    random = np.random.default_rng(0)
    ids = tokenizer.encode(" ".join(random.choice(WORDS, size=count * length)))
    return np.array(ids[: count * length], dtype=np.int64).reshape(count, length)


# --- what is hidden ---


def test_of_fifteen_per_cent_most_are_hidden_some_replaced_and_some_left():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 800)
    shown, is_asked = Masking(tokenizer, 0.15, False).hide(windows, np.random.default_rng(1))
    asked = is_asked.sum()
    assert is_asked.mean() == pytest.approx(0.15, abs=0.005)  # 4.5 deviations of 102,400 tokens
    is_hidden = shown == tokenizer.special_tokens[MASK]
    assert is_hidden.sum() / asked == pytest.approx(0.8, abs=0.015)
    is_other = (shown != windows) & ~is_hidden
    # Of the tenth that is replaced, one in as many tokens as there are is replaced by itself.
    assert is_other.sum() / asked == pytest.approx(0.1, abs=0.012)
    assert (is_asked & (shown == windows)).sum() / asked == pytest.approx(0.1, abs=0.012)
    assert not (is_hidden | is_other)[~is_asked].any()


def test_what_replaces_a_token_is_any_text_but_nothing_special():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 800)
    shown, is_asked = Masking(tokenizer, 0.5, False).hide(windows, np.random.default_rng(1))
    special = tokenizer.special_tokens
    found = set(shown[is_asked & (shown != special[MASK])].tolist())
    assert found == set(range(tokenizer.vocab_size)) - set(special.values())


def test_special_tokens_are_never_asked_for():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 50)
    special = np.array(list(tokenizer.special_tokens.values()))
    is_special = np.random.default_rng(2).random(windows.shape) < 0.3
    windows[is_special] = special[np.arange(is_special.sum()) % len(special)]
    shown, is_asked = Masking(tokenizer, 0.9, False).hide(windows, np.random.default_rng(1))
    assert is_asked.sum() > 1000
    assert not is_asked[is_special].any()
    assert np.array_equal(shown[is_special], windows[is_special])


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_whole_words_are_asked_for_or_not_at_all(kind: str):
    size = {"wordpiece": 90, "bpe": 290}[kind]
    tokenizer = train_tokenizer(kind, [" ".join(WORDS)] * 2, size, BERT_TOKENS)
    windows = text_windows(tokenizer, 200)
    _, is_asked = Masking(tokenizer, 0.15, True).hide(windows, np.random.default_rng(1))
    several = 0
    for ids, asked in zip(windows.tolist(), is_asked.tolist(), strict=True):
        words: list[list[bool]] = []
        for id, question in zip(ids, asked, strict=True):
            token = tokenizer.token(id)
            begins = not token.startswith("##") if kind == "wordpiece" else token.startswith(" ")
            if begins or not words:
                words.append([])
            words[-1].append(question)
        assert all(len(set(word)) == 1 for word in words)
        several += sum(len(word) > 1 and word[0] for word in words)
    assert several > 100
    assert is_asked.mean() == pytest.approx(0.15, abs=0.015)


def test_pieces_are_asked_for_alone_if_words_need_not_be_whole():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 100)
    _, is_asked = Masking(tokenizer, 0.15, False).hide(windows, np.random.default_rng(1))
    goes_on = np.array([[tokenizer.token(id).startswith("##") for id in row] for row in windows])
    assert (goes_on[:, 1:] & (is_asked[:, 1:] != is_asked[:, :-1])).sum() > 100


def test_a_batch_always_asks_something():
    tokenizer = pieces()
    windows = text_windows(tokenizer, 1, 4)
    for seed in range(50):
        _, is_asked = Masking(tokenizer, 0.01, False).hide(windows, np.random.default_rng(seed))
        assert is_asked.any()


# --- batches ---


def test_a_batch_stands_between_cls_and_sep_and_fills_the_context(tmp_path: Path, bert: Make):
    task = ready(bert(), tmp_path)
    batch, special = task.batch(0), task.tokenizer.special_tokens
    assert batch.ids.shape == (2, 32)
    assert set(batch.ids[:, 0].tolist()) == {special["[CLS]"]}
    assert set(batch.ids[:, -1].tolist()) == {special["[SEP]"]}
    assert not batch.is_asked[:, [0, -1]].any()
    assert len(batch.targets) == batch.is_asked.sum()


def test_a_batch_is_the_text_but_for_what_is_hidden(tmp_path: Path, bert: Make):
    task = ready(bert(), tmp_path)
    batch = task.batch(3)
    ids = batch.ids.clone()
    ids[batch.is_asked] = batch.targets
    text = " ".join(map(str, task.training.tolist()))
    for row in ids[:, 1:-1].tolist():
        assert " ".join(map(str, row)) in text


def test_every_time_other_tokens_are_hidden_but_the_same_in_the_same_batch(
    tmp_path: Path, bert: Make
):
    task, again = ready(bert(), tmp_path / "one"), ready(bert(), tmp_path / "two")
    again.batch(40)
    for number in (5, 0, 5):
        for one, other in zip(task.batch(number), again.batch(number), strict=True):
            assert torch.equal(one, other)
    places = {tuple(task.batch(number).is_asked.flatten().tolist()) for number in range(20)}
    assert len(places) == 20


def test_the_loss_is_the_cross_entropy_of_what_is_asked(tmp_path: Path, bert: Make):
    task = ready(bert(), tmp_path)
    model, batch = task.build().eval(), task.batch(1)
    logits = model(batch.ids)[batch.is_asked]
    expected = F.cross_entropy(logits, batch.targets)
    torch.testing.assert_close(task.loss(model, batch), expected)


def test_validation_is_the_same_each_time_and_covers_the_held_out_text(tmp_path: Path, bert: Make):
    task = ready(bert(), tmp_path)
    model = task.build().train()
    found, again = task.validate(model), task.validate(model)
    assert found == again
    assert model.training
    assert found.loss == pytest.approx(math.log(80), abs=1)
    assert 0.05 < found.num_tokens / len(task.validation) < 0.3


@pytest.mark.parametrize(("truth", "shown"), [("\n", r"'\n'"), (" ", "' '"), ("a", "a")])
def test_a_sample_shows_also_tokens_that_are_blanks(
    tmp_path: Path, bert: Make, notes: Path, truth: str, shown: str
):
    notes.write_text("a b\n" * 500)
    recipe = bert().model_copy(update={"tokenizer": TokenizerConfig(kind="char")})
    task = ready(recipe, tmp_path)
    model, id = task.build(), task.tokenizer.encode(truth)[0]
    middle = next(n for n in range(4) if task.validation[n + SHOWN] == id)
    says = "b" if truth == "a" else "a"
    model.predict = lambda hidden: F.one_hot(torch.tensor(task.tokenizer.encode(says)[0]), 80)
    assert f", not {shown}]" in task.sample(model, middle)


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
    guessing = math.log(load_model(run).tokenizer.vocab_size)
    assert curve(run, "val_loss")[-1] < guessing / 3
    assert curve(run, "val_accuracy")[-1] > 0.7


def test_what_decides_is_the_loss(tmp_path: Path, bert: Make):
    task = ready(bert(), tmp_path)
    better = {"val_loss": 1.0, "val_accuracy": 0.1}
    assert task.is_better(better, than={"val_loss": 2.0, "val_accuracy": 0.9})


@pytest.mark.parametrize("batch", [7, 13])
def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path, bert: Make, at_batch: AtBatch, contents: Contents, batch: int
):
    recipe = bert({"whole_word_masking": True})
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch)
