"""Translators learn from pairs, are judged by BLEU, and resume exactly."""

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
    ready,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.model_folder import load_model
from glassformer.errors import GlassformerError, UsageError
from glassformer.tasks import load
from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import make_recipe

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
SIZES: dict[str, dict[str, Any]] = {
    "translator": {"num_layers": 1, "d_model": 32, "num_heads": 2, "d_feedforward": 64},
    "rnn-translator": {"num_layers": 1, "d_embedding": 64, "d_model": 64},
}


def pairs(folder: Path, count: int = 300, step: int = -1) -> Path:
    """Each word has its translation; the order is reversed, unless the step is 1."""
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


# --- loss ---


@torch.no_grad()
def test_only_real_tokens_of_the_target_and_their_end_count(tmp_path: Path):
    objective, model = ready(recipe_for("translator", pairs(tmp_path)), tmp_path / "run")
    rows = objective.dataset.training
    model.eval()
    batch = rows.batch(range(6))
    assert not batch.target_is_text.all()
    total, count = 0.0, 0
    for number in range(6):
        source, target = rows.source.row(number), rows.target.row(number)
        ids = torch.tensor(target.astype(np.int64))
        logits = model(torch.tensor(source.astype(np.int64))[None], ids[None, :-1])[0]
        total += float(F.cross_entropy(logits, ids[1:], label_smoothing=0.1)) * len(ids[1:])
        count += len(ids) - 1
    assert objective.loss(model, batch).item() == pytest.approx(total / count, rel=1e-5)


# --- training ---


@pytest.mark.parametrize("name", ["translator", "rnn-translator"])
def test_it_learns_and_bleu_decides(tmp_path: Path, name: str):
    recipe = recipe_for(name, pairs(tmp_path, step=1), max_steps=240, eval_steps=60)
    run = trained(recipe, tmp_path / "run")
    bleu = curve(run, "val_bleu")
    assert best(run)["val_bleu"] == max(bleu) > 60
    predictor = load(run)
    assert predictor.translate("four two").text == "FOUR TWO"


def test_a_sample_has_room_for_the_translation(tmp_path: Path):
    path = tmp_path / "long.tsv"
    lines = [f"{'many words ' * 20}{number}\tshort {number}\n" for number in range(200)]
    path.write_text("".join(lines))
    objective, model = ready(recipe_for("translator", path), tmp_path / "run")
    source, _, text = objective.sample(model, 0).partition(" → ")
    assert source == "many words many words many …"
    assert text


def test_separate_vocabularies_are_kept_apart_and_found_again(tmp_path: Path):
    recipe = recipe_for("translator", pairs(tmp_path), tokenizer={"separate": True}, max_steps=2)
    run = trained(recipe, tmp_path / "run")
    saved = load_model(run).preprocessing
    assert saved.target_tokenizer is not None
    assert saved.tokenizer.encode(" one") != saved.target_tokenizer.encode(" one")
    assert config_of(run)["target_vocab_size"] == saved.target_tokenizer.vocab_size
    load(run).translate("one two")
    (run / "target_tokenizer.json").write_text((run / "tokenizer.json").read_text())
    with pytest.raises(GlassformerError, match=r"target_tokenizer\.json is damaged"):
        load(run)


def test_a_vocabulary_has_no_more_tokens_than_the_model(tmp_path: Path):
    recipe = recipe_for("translator", pairs(tmp_path), {"vocab_size": 270})
    objective, model = ready(recipe, tmp_path / "run")
    tokenizer = objective.dataset.preprocessing.tokenizer
    assert tokenizer.vocab_size <= model.config.vocab_size == 270


def test_reverse_swaps_source_and_target(tmp_path: Path):
    data = pairs(tmp_path)
    objective, _ = ready(recipe_for("translator", data, reverse=True), tmp_path / "run")
    assert objective.dataset.held_out[0].source.isupper()
    assert objective.dataset.preprocessing.reverse


@pytest.mark.parametrize(
    ("name", "model", "objective"),
    [
        ("translator", {"dropout": 0.2}, {}),
        ("rnn-translator", {"dropout": 0.2}, {"scheduled_sampling": 0.3}),
        ("rnn-translator", {"attention": "none", "cell": "lstm"}, {}),
    ],
)
def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path, at_batch: AtBatch, contents: Contents, name: str, model: Any, objective: Any
):
    recipe = recipe_for(name, pairs(tmp_path), model, objective=objective, ema=0.9)
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=30)


def test_pairs_that_are_too_long_are_left_out_and_counted(tmp_path: Path):
    data = pairs(tmp_path)
    data.write_text(data.read_text() + "one " * 90 + "\t" + "ONE " * 90 + "\n")
    messages: list[str] = []
    recipe = recipe_for("translator", data, {"context_length": 32})
    objective, _ = ready(recipe, tmp_path / "run", messages.append)
    expected = "left out of training: 1 pair longer than the model's context of 32 tokens (first: "
    assert any(expected in line for line in messages)
    rows = objective.dataset.training
    assert max(rows.source.lengths.max(), rows.target.lengths.max()) <= 33


@pytest.mark.parametrize("length", [70, 150])
def test_a_single_long_line_does_not_enlarge_the_context(tmp_path: Path, length: int):
    data = pairs(tmp_path)
    lines = ["\t".join([" ".join(WORDS * (count // 8))] * 2) for count in (length, 32)]
    more = [lines[1] + f" {number}" for number in range(60)]  # 32 words are nothing unusual
    with data.open("a") as file:
        file.write("\n".join([lines[0] + " X", *more]) + "\n")
    messages: list[str] = []
    recipe = make_recipe(
        {"model": {"name": "translator"}, "data": {"paths": [str(data)]}}
        | {"tokenizer": {"kind": "word"}, "training": MACHINE}
    )
    objective, _ = ready(recipe, tmp_path / "run", messages.append)
    assert objective.recipe.model["context_length"] == 80  # twice that of the others, in sixteens
    assert any("longer than the model's" in line for line in messages) == (length == 150)


def test_scheduled_sampling_is_refused_where_there_is_no_recurrence(tmp_path: Path):
    recipe = recipe_for("translator", pairs(tmp_path), objective={"scheduled_sampling": 0.5})
    with pytest.raises(UsageError, match="rnn-translator"):
        ready(recipe, tmp_path / "run")


def test_beam_search_finds_likelier_translations_than_greedy_search(tmp_path: Path):
    """For a model that is half trained, so that the two differ."""
    run = trained(recipe_for("translator", pairs(tmp_path), max_steps=40), tmp_path / "run")
    predictor = load(run)
    texts = [" ".join(random.Random(n).choices(WORDS, k=4)) for n in range(20)]
    for wide, narrow in zip(
        predictor.translate_batch(texts, num_beams=8, length_penalty=0.0),
        predictor.translate_batch(texts, num_beams=1, length_penalty=0.0),
        strict=True,
    ):
        assert wide.translations[0].score >= narrow.translations[0].score - 1e-5
