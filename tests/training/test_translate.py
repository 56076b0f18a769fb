"""Translators learn from pairs, are judged by BLEU, and resume as everything else does."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import (
    MACHINE,
    AtBatch,
    Contents,
    best,
    check_that_it_resumes_exactly,
    config_of,
    curve,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.folder import load_model
from glassformer.data.paired import PairBuckets, PairedRows
from glassformer.errors import GlassformerError, UsageError
from glassformer.predict import load
from glassformer.training.losses import next_token_loss
from glassformer.training.prepare import prepare
from glassformer.training.recipe import Recipe, make_recipe
from glassformer.training.tasks.translate import Translate

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
SIZES: dict[str, dict[str, Any]] = {
    "translator": {"num_layers": 1, "d_model": 32, "num_heads": 2, "d_feedforward": 64},
    "rnn-translator": {"num_layers": 1, "d_embedding": 64, "d_model": 64},
}


def pairs(folder: Path, count: int = 300, step: int = -1) -> Path:
    """Each word has its translation; the order is turned round, unless the step is 1."""
    draw = random.Random(0)
    lines = set()
    while len(lines) < count:
        words = draw.choices(WORDS, k=draw.randint(1, 5))
        lines.add(" ".join(words) + "\t" + " ".join(word.upper() for word in words[::step]))
    path = folder / "pairs.tsv"
    path.write_text("\n".join(sorted(lines)) + "\n")
    return path


def recipe_for(name: str, data: Path, model: dict[str, Any] | None = None, **more: Any) -> Recipe:
    keys = ("objective", "tokenizer")
    sections = {key: more.pop(key) for key in keys if key in more}
    files = {"paths": [str(data)], "reverse": more.pop("reverse", False)}
    steps = {"max_steps": 40, "eval_steps": 20, "save_steps": 20}
    steps["learning_rate"] = 0.01
    steps |= {"per_device_train_batch_size": 16, "warmup_steps": 3, "ema": 0.0}
    return make_recipe(
        {
            "model": {"name": name, "dropout": 0.1, **SIZES[name], **(model or {})},
            "training": steps | MACHINE | more,
            **sections,
            "data": files,
        }
    )


def ready(recipe: Recipe, folder: Path, said: list[str] | None = None) -> Translate:
    task = prepare(recipe, folder, [].append if said is None else said.append)
    assert isinstance(task, Translate)
    return task


# --- batches ---


def rows(seed: int = 0, count: int = 200) -> PairedRows:
    draw = random.Random(seed)
    sides = [[[1] * draw.randint(1, 30) for _ in range(count)] for _ in range(2)]
    return PairedRows.of(*sides, "<u2")


def test_every_pair_comes_once_an_epoch_in_batches_of_bounded_size():
    found = PairBuckets(rows(), most_items=300, seed=3)
    for epoch in range(3):
        numbers = range(epoch * found.per_epoch, (epoch + 1) * found.per_epoch)
        batches = [found[number] for number in numbers]
        assert sorted(np.concatenate(batches)) == list(range(200))
        widths = [found.lengths[:, batch].max(axis=1).sum() * len(batch) for batch in batches]
        assert max(widths) <= 300
    assert found.padding() < 0.3


def test_which_pairs_stand_together_depends_on_the_seed_and_the_number_alone():
    first, again, other = (PairBuckets(rows(), 300, seed) for seed in (3, 3, 4))
    straight = [first[number].tolist() for number in range(2 * first.per_epoch)]
    assert [again[number].tolist() for number in reversed(range(len(straight)))] == straight[::-1]
    assert straight[: first.per_epoch] != straight[first.per_epoch :]
    assert [other[number].tolist() for number in range(len(straight))] != straight


# --- loss ---


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("bias", [False, True])
def test_a_smoothed_loss_in_chunks_is_torchs(monkeypatch, smoothing, bias):
    torch.manual_seed(0)
    head = torch.nn.Linear(5, 11, bias=bias)
    hidden, targets = torch.randn(7, 5, requires_grad=True), torch.randint(11, (7,))
    expected = F.cross_entropy(head(hidden), targets, label_smoothing=smoothing)
    wanted = torch.autograd.grad(expected, [hidden, *head.parameters()])
    monkeypatch.setattr("glassformer.training.losses.CHUNK", 33)  # three rows at a time
    found = next_token_loss(hidden, head, targets, smoothing)
    torch.testing.assert_close(found, expected)
    for mine, its in zip(
        torch.autograd.grad(found, [hidden, *head.parameters()]), wanted, strict=True
    ):
        torch.testing.assert_close(mine, its)


@torch.no_grad()
def test_only_real_tokens_of_the_target_and_their_end_count(tmp_path: Path):
    task = ready(recipe_for("translator", pairs(tmp_path)), tmp_path / "run")
    model = task.build().eval()
    batch = task.training.batch(range(6))
    assert not batch.target_is_text.all()
    total, count = 0.0, 0
    for number in range(6):
        source, target = task.training.source.row(number), task.training.target.row(number)
        ids = torch.tensor(target.astype(np.int64))
        logits = model(torch.tensor(source.astype(np.int64))[None], ids[None, :-1])[0]
        total += float(F.cross_entropy(logits, ids[1:], label_smoothing=0.1)) * len(ids[1:])
        count += len(ids) - 1
    assert task.loss(model, batch).item() == pytest.approx(total / count, rel=1e-5)


# --- training ---


@pytest.mark.parametrize("name", ["translator", "rnn-translator"])
def test_it_learns_and_bleu_decides(tmp_path: Path, name: str):
    recipe = recipe_for(name, pairs(tmp_path, step=1), max_steps=240, eval_steps=60)
    run = trained(recipe, tmp_path / "run")
    bleu = curve(run, "val_bleu")
    assert best(run, "val_bleu") == max(bleu) > 60
    predictor = load(run)
    assert predictor.translate("four two").text == "FOUR TWO"


def test_separate_vocabularies_are_kept_apart_and_found_again(tmp_path: Path):
    recipe = recipe_for("translator", pairs(tmp_path), tokenizer={"separate": True}, max_steps=2)
    run = trained(recipe, tmp_path / "run")
    saved = load_model(run)
    assert saved.tokenizer is not None
    assert saved.target_tokenizer is not None
    assert saved.tokenizer.encode(" one") != saved.target_tokenizer.encode(" one")
    assert config_of(run)["target_vocab_size"] == saved.target_tokenizer.vocab_size
    load(run).translate("one two")
    (run / "target_tokenizer.json").write_text((run / "tokenizer.json").read_text())
    with pytest.raises(GlassformerError, match=r"target_tokenizer\.json is damaged"):
        load(run)


def test_the_other_direction(tmp_path: Path):
    data = pairs(tmp_path)
    task = ready(recipe_for("translator", data, reverse=True), tmp_path / "run")
    assert task.held_out[0].source.isupper()
    assert task.recipe.model["reverse"]


@pytest.mark.parametrize(
    ("name", "model", "objective"),
    [
        ("translator", {"dropout": 0.2}, {}),
        ("rnn-translator", {"dropout": 0.2}, {"scheduled_sampling": 0.3}),
        ("rnn-translator", {"attention": "none", "cell": "lstm"}, {}),
    ],
)
def test_a_run_that_was_cut_off_ends_as_if_it_had_not_been(
    tmp_path: Path, at_batch: AtBatch, contents: Contents, name: str, model: Any, objective: Any
):
    recipe = recipe_for(name, pairs(tmp_path), model, objective=objective, ema=0.9)
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=30)


def test_what_is_too_long_is_left_out_and_counted(tmp_path: Path):
    data = pairs(tmp_path)
    data.write_text(data.read_text() + "one " * 90 + "\t" + "ONE " * 90 + "\n")
    said: list[str] = []
    task = ready(recipe_for("translator", data, {"context_length": 32}), tmp_path / "run", said)
    assert any("longer than the model's 32 tokens: 1 pair (first: " in line for line in said)
    assert max(task.training.source.lengths.max(), task.training.target.lengths.max()) <= 33


@pytest.mark.parametrize("length", [70, 150])
def test_one_stray_line_makes_no_room_that_the_others_do_not_need(tmp_path: Path, length: int):
    data = pairs(tmp_path)
    lines = ["\t".join([" ".join(WORDS * (count // 8))] * 2) for count in (length, 32)]
    more = [lines[1] + f" {number}" for number in range(60)]  # 32 words are nothing unusual
    with data.open("a") as file:
        file.write("\n".join([lines[0] + " X", *more]) + "\n")
    said: list[str] = []
    recipe = make_recipe(
        {"model": {"name": "translator"}, "data": {"paths": [str(data)]}}
        | {"tokenizer": {"kind": "word"}, "training": MACHINE}
    )
    task = ready(recipe, tmp_path / "run", said)
    assert task.recipe.model["context_length"] == 80  # twice that of the others, in sixteens
    assert any("longer than the model's" in line for line in said) == (length == 150)


def test_scheduled_sampling_is_refused_where_there_is_no_recurrence(tmp_path: Path):
    recipe = recipe_for("translator", pairs(tmp_path), objective={"scheduled_sampling": 0.5})
    with pytest.raises(UsageError, match="rnn-translator"):
        ready(recipe, tmp_path / "run")


def test_beams_find_better_translations_than_greed(tmp_path: Path):
    """Of a model that is half trained, so that there is something to be found."""
    run = trained(recipe_for("translator", pairs(tmp_path), max_steps=40), tmp_path / "run")
    predictor = load(run)
    texts = [" ".join(random.Random(n).choices(WORDS, k=4)) for n in range(20)]
    for wide, narrow in zip(
        predictor.translate_batch(texts, num_beams=8, length_penalty=0.0),
        predictor.translate_batch(texts, num_beams=1, length_penalty=0.0),
        strict=True,
    ):
        assert wide.translations[0].score >= narrow.translations[0].score - 1e-5
