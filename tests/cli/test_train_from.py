"""`glassformer train --from`, adapters and added tokens, as a user runs them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from published import publish

QUICK = [
    *("--set", "training.precision=float32", "--set", "training.num_threads=1"),
    *("--set", "training.save_steps=2", "--set", "training.eval_steps=4", "--max-steps", "4"),
    *("--batch-size", "8"),
]


@pytest.fixture
def home(shelf: Path, tmp_path: Path) -> Path:
    """Where `glassformer` runs: with runs/bert, runs/gpt and data."""
    shutil.copy(shelf / "reviews.csv", tmp_path)
    for name in ("bert", "gpt"):
        shutil.copytree(shelf / "runs" / name, tmp_path / "runs" / name)
    (tmp_path / "letters.txt").write_text("the film was a fine story of one town\n" * 300)
    return tmp_path


def test_a_model_is_trained_further_and_resumed(glassformer: Any, home: Path) -> None:
    words = ("train", "--from", "runs/gpt", "--data", "letters.txt", *QUICK)
    before = (home / "runs/gpt/model.safetensors").read_bytes()
    result = glassformer(*words)
    assert result.code == 0, result.err
    assert "starting from gpt (gpt" in result.err
    assert result.out.startswith("runs/gpt-letters: validation loss ")
    assert (home / "runs/gpt/model.safetensors").read_bytes() == before
    recipe = yaml.safe_load((home / "runs/gpt-letters/recipe.yaml").read_text())
    assert recipe["finetune"]["model"] == "runs/gpt"
    assert recipe["finetune"]["head"] == "kept"
    again = glassformer(*words)
    assert again.code == 1
    assert "already contains a finished run" in again.err
    assert "already finished" in glassformer(*words, "--resume").out
    assert glassformer("verify", "runs/gpt-letters").code == 0


def test_the_model_to_begin_with_is_never_replaced(glassformer: Any, home: Path) -> None:
    before = (home / "runs/gpt/model.safetensors").read_bytes()
    (home / "link").symlink_to(home / "runs/gpt")
    classify = ("finetune", "runs/gpt", "--task", "classify", "--data", "reviews.csv")
    for words in (("train", "--from", "link", "--data", "letters.txt"), classify):
        result = glassformer(*words, *QUICK, "--out", "runs/gpt", "--force")
        assert "runs/gpt is the source" in result.error
        assert (home / "runs/gpt/model.safetensors").read_bytes() == before


def test_the_defaults_of_generation_are_kept(glassformer: Any, home: Path) -> None:
    defaults = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
    publish("gpt2", home / "published")
    for source in ("runs/gpt", "published"):
        (home / source / "generation_config.json").write_text(json.dumps(defaults))
        words = ("train", "--from", source, "--data", "letters.txt", *QUICK, "--out", "runs/next")
        result = glassformer(*words, "--force")
        assert result.code == 0, result.err
        assert json.loads((home / "runs/next/generation_config.json").read_text()) == defaults
        assert glassformer("verify", "runs/next").code == 0


def test_a_dry_run_and_a_printed_recipe_touch_nothing(glassformer: Any, home: Path) -> None:
    words = ("train", "--from", "runs/gpt", "--data", "letters.txt", *QUICK)
    planned = glassformer(*words, "--dry-run", "--json")
    assert json.loads(planned.out)["model"] == "gpt"
    printed = glassformer(*words, "--print-recipe")
    assert yaml.safe_load(printed.out)["finetune"]["lineage"]
    assert not (home / "runs/gpt-letters").exists()


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--set", "model.d_model=99"], 2, "--set model.d_model is 99, but the model in runs/gpt"),
        (["--preset", "nano"], 2, "--preset is for new models"),
        (["--layers", "7"], 2, "--layers is 7, but the model in runs/gpt has"),
        (["--add-tokens", "a b"], 1, "'a b' cannot be added"),
        (["--lora", "--add-tokens", "xyzzy"], 2, "must learn: leave out lora on the"),
    ],
)
def test_what_contradicts_the_model_is_refused_by_name(
    glassformer: Any, home: Path, words: list[str], code: int, problem: str
) -> None:
    result = glassformer("train", "--from", "runs/gpt", "--data", "letters.txt", *words)
    assert problem in result.err
    assert result.code == code
    assert not (home / "runs/gpt-letters").exists()


def test_lora_without_a_model_asks_for_one(glassformer: Any, home: Path) -> None:
    result = glassformer("train", "gpt", "--data", "letters.txt", "--lora")
    assert result.code == 2
    assert "--from MODEL" in result.err


def test_another_model_than_the_given_one_is_refused(glassformer: Any, home: Path) -> None:
    result = glassformer("train", "bert", "--from", "runs/gpt", "--data", "letters.txt")
    assert result.code == 2
    assert "runs/gpt is a gpt, not a bert" in result.err
    missing = glassformer("train", "--from", "runs/none", "--data", "letters.txt")
    assert missing.code == 1
    assert "runs/none does not exist" in missing.err


def test_a_classifier_with_lora_becomes_an_adapter_that_every_verb_takes(
    glassformer: Any, home: Path
) -> None:
    publish("bert", home / "base")
    shape = ("pooling=first", "pooler=true", "bag=false", "pooler_activation=tanh")
    settings = [word for each in shape for word in ("--set", f"model.{each}")]
    words = ("finetune", "base", "--task", "classify", "--data", "reviews.csv", "--lora")
    tuned = glassformer(*words, *settings, *QUICK, "--out", "runs/tuned")
    assert tuned.code == 0, tuned.err
    recipe = yaml.safe_load((home / "runs/tuned/recipe.yaml").read_text())
    assert recipe["training"]["optimizer"] == "adamw"
    assert recipe["finetune"]["published"] is True
    exported = glassformer("export", "runs/tuned", "--format", "peft", "--out", "adapter")
    assert exported.code == 0, exported.err
    assert "LoRA adapter for BertForSequenceClassification" in exported.out
    whole = home / "runs/tuned/model.safetensors"
    small = home / "adapter" / "adapter_model.safetensors"
    assert small.stat().st_size < whole.stat().st_size
    asked = ("w1 w2 w3", "--json")
    answers = (glassformer("classify", each, *asked).out for each in ("runs/tuned", "adapter"))
    one, other = map(json.loads, answers)
    assert one["label"] == other["label"]
    shutil.move(home / "base", home / "moved")
    lost = glassformer("classify", "adapter", "w1")
    assert lost.code == 1
    assert "--base MODEL" in lost.err
    merged = glassformer("import", "adapter", "--base", "moved", "--out", "runs/merged")
    assert merged.code == 0, merged.err
    found = json.loads(glassformer("classify", "runs/merged", *asked).out)
    assert found["label"] == one["label"]
    further = glassformer("train", "--from", "runs/merged", "--data", "reviews.csv", *QUICK)
    assert further.code == 0, further.err
