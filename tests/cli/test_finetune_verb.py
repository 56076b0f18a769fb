"""`glassformer finetune`: a trained bert or gpt learns to label."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from glassformer.training.run_folder import RunFolder

QUICK = [
    *("--set", "training.per_device_train_batch_size=8"),
    *("--set", "training.precision=float32", "--set", "training.num_threads=1"),
    *("--set", "training.save_steps=2", "--set", "training.eval_steps=4", "--max-steps", "4"),
]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def body(folder: Path) -> dict[str, Any]:
    """The weights of an encoder, by name."""
    weights = load_file(folder / "model.safetensors")
    return {name: each for name, each in weights.items() if name.startswith("encoder.")}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    assert before.keys() == after.keys()
    return [name for name in before if not before[name].equal(after[name])]


@pytest.fixture
def home(shelf: Path, tmp_path: Path) -> Path:
    """Where `glassformer` runs: with the data, and with runs/bert and runs/gpt."""
    for name in ("reviews.csv", "names.conll"):
        shutil.copy(shelf / name, tmp_path)
    for name in ("bert", "gpt"):
        shutil.copytree(shelf / "runs" / name, tmp_path / "runs" / name)
    return tmp_path


@pytest.fixture
def finetune(glassformer: Any, home: Path) -> Any:
    """Give the model in runs/bert, or another, a head for reviews, or for another task."""

    def call(*words: str, model: str = "bert", task: str = "classify") -> Any:
        data = {"classify": "reviews.csv", "tag": "names.conll"}[task]
        first = ("finetune", f"runs/{model}", "--task", task, "--data", data)
        return glassformer(*first, *QUICK, *words)

    return call


# --- from what, to what ---


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_a_trained_model_learns_to_classify(glassformer: Any, finetune: Any, model: str) -> None:
    result = finetune(model=model)
    assert result.code == 0, result.err
    assert result.out.startswith(f"runs/{model}-reviews: validation accuracy ")
    words = shlex.split(result.out.partition("Try: ")[2])[1:]
    assert words[:2] == ["classify", f"runs/{model}-reviews"]
    tried = glassformer(*words)
    assert tried.out.split()[0] in ("good", "bad")
    words = ["evaluate", f"runs/{model}-reviews", "--data", "reviews.csv", "--json"]
    assert json.loads(glassformer(*words).out)["num_examples"] == 160


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_a_trained_model_learns_to_tag(glassformer: Any, finetune: Any, model: str) -> None:
    result = finetune("--out", "names", model=model, task="tag")
    assert result.code == 0, result.err
    found = json.loads(glassformer("tag", "names", "the fox Ada Lovelace", "--json").out)
    assert set(found["tags"]) <= {"O", "B-NAME", "I-NAME"}
    assert "f1" in json.loads(
        glassformer("evaluate", "names", "--data", "names.conll", "--json").out
    )


def test_more_training_learns_more(glassformer: Any, finetune: Any) -> None:
    longer = ("--set", "training.learning_rate=0.02", "--max-steps", "40")
    outcome = json.loads(finetune(*longer, "--out", "r", "--json").out)
    assert outcome["finished"]
    found = json.loads(glassformer("evaluate", "r", "--data", "reviews.csv", "--json").out)
    assert found["accuracy"] > 0.9


def test_freeze_leaves_the_body_as_it_was(finetune: Any, home: Path) -> None:
    before = body(home / "runs" / "bert")
    assert finetune("--freeze", "--out", "frozen").code == 0
    assert finetune("--out", "free").code == 0
    assert changed(before, body(home / "frozen")) == []
    assert len(changed(before, body(home / "free"))) == len(before)


def test_lora_changes_matrices_and_leaves_an_ordinary_model(
    glassformer: Any, finetune: Any, home: Path
) -> None:
    faster = ("--set", "training.learning_rate=0.05")
    result = finetune("--lora-rank", "2", *faster, "--out", "lora")
    assert result.code == 0, result.err
    moved = changed(body(home / "runs" / "bert"), body(home / "lora"))
    assert moved
    assert not any("norm" in name or "embedding" in name for name in moved)
    assert glassformer("classify", "lora", "a good fox").code == 0


def test_some_layers_may_stay_and_lower_ones_learn_slower(finetune: Any, home: Path) -> None:
    before = body(home / "runs" / "bert")
    assert finetune("--freeze-layers", "1", "--out", "stay").code == 0
    moved = changed(before, body(home / "stay"))
    assert not any("embedding" in name or "blocks.0." in name for name in moved)
    assert finetune("--layer-lr-decay", "0.5", "--out", "slow").code == 0


# --- rehearse and go on ---


def test_a_dry_run_says_what_would_happen_and_touches_nothing(finetune: Any, home: Path) -> None:
    before = names(home)
    result = finetune("--dry-run")
    assert result.code == 0, result.err
    assert "classifier" in result.out
    assert "4 steps" in result.out
    assert names(home) == before


def test_a_printed_recipe_trains_the_same_model(
    glassformer: Any, finetune: Any, home: Path
) -> None:
    printed = finetune("--print-recipe")
    recipe = yaml.safe_load(printed.out)
    assert recipe["finetune"]["model"] == "runs/bert"
    (home / "recipe.yaml").write_text(printed.out)
    assert glassformer("train", "--recipe", "recipe.yaml", "--out", "again").code == 0
    assert finetune("--out", "first").code == 0
    weights = [(home / name / "model.safetensors").read_bytes() for name in ("first", "again")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("said", ["the same", "only the folder", "train"])
def test_resume_goes_on_where_the_run_stopped(
    glassformer: Any, finetune: Any, home: Path, said: str
) -> None:
    assert finetune("--lora-rank", "2", "--out", "r").code == 0
    weights = (home / "r" / "model.safetensors").read_bytes()
    shutil.rmtree(home / "r" / "checkpoints" / "step-4")
    (home / "r" / "model.safetensors").unlink()
    if said == "the same":
        result = finetune("--lora-rank", "2", "--out", "r", "--resume")
    elif said == "train":
        result = glassformer("train", "--resume", "--out", "r")
    else:
        result = glassformer(
            "finetune", "runs/bert", "--task", "classify", "--resume", "--out", "r"
        )
    assert result.code == 0, result.err
    assert RunFolder(home / "r").last_step() == 4
    assert (home / "r" / "model.safetensors").read_bytes() == weights


def test_resuming_with_another_beginning_is_refused(finetune: Any, home: Path) -> None:
    assert finetune("--out", "r").code == 0
    shutil.rmtree(home / "r" / "checkpoints" / "step-4")
    before, words = names(home), ("--out", "r", "--resume")
    assert "--freeze was False, is now True" in finetune(*words, "--freeze").error
    shutil.copytree(home / "runs" / "bert", home / "runs" / "twin")
    twin = finetune(*words, model="twin")
    assert "finetune.model was 'runs/bert', is now 'runs/twin'" in twin.error
    shutil.rmtree(home / "runs" / "twin")
    for other in (finetune(*words, model="gpt"), finetune(*words, task="tag")):
        assert other.code in (1, 2)
        assert other.error
    assert names(home) == before


def test_a_finished_run_is_only_overwritten_by_force(finetune: Any, home: Path) -> None:
    words = ("--out", "r", "--test-data", "reviews.csv")
    assert "Test: accuracy " in finetune(*words).out
    error = finetune(*words).error
    assert "finished run" in error
    assert "--force" in error
    assert finetune("--out", "r", "--force").code == 0
    assert not (home / "r/test.json").exists()


# --- mistakes ---


@pytest.mark.parametrize(("run", "noun"), [("reviews", "bag"), ("encoder", "classifier")])
def test_only_a_bert_or_a_gpt_can_be_a_beginning(
    glassformer: Any, shelf: Path, tmp_path: Path, run: str, noun: str
) -> None:
    words = ("--task", "classify", "--data", shelf / "reviews.csv")
    result = glassformer("finetune", shelf / "runs" / run, *words)
    assert (result.code, result.out) == (1, "")
    assert result.error == (
        f"a {noun} cannot be fine-tuned for the task classify. Use a pre-trained bert or gpt."
    )
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("runs/nothing", "--task", "classify"), 1, "runs/nothing does not exist."),
        (("runs", "--task", "classify"), 1, "there is no config.json in it"),
        (("runs/bert", "--task", "classify"), 2, "no data. Pass --data FILE"),
        (("runs/bert", "--data", "reviews.csv"), 2, "Missing option '--task'"),
        (
            ("runs/bert", "--task", "sing", "--data", "reviews.csv"),
            2,
            "'sing'. Choose one of: classify, tag, probe.",
        ),
        (("runs/bert", "--task", "classify", "--data", "no.csv"), 1, "no.csv does not exist."),
        (
            ("runs/bert", "--task", "classify", "--data", "names.conll"),
            2,
            "Use train tagger or finetune --task tag",
        ),
        (
            ("runs/bert", "--task", "tag", "--data", "reviews.csv"),
            2,
            "A table of texts is for a classifier.",
        ),
        (
            ("runs/bert", "--task", "classify", "--data", "reviews.csv", "--layer-lr-decay", "2"),
            2,
            "--layer-lr-decay is 2.0",
        ),
        (
            ("runs/bert", "--task", "classify", "--data", "reviews.csv", "--lora-rank", "0"),
            2,
            "'--lora-rank': 0 is not a positive whole number.",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    glassformer: Any, home: Path, words: tuple[str, ...], code: int, error: str
) -> None:
    before = names(home)
    result = glassformer("finetune", *words)
    assert (result.code, result.out) == (code, "")
    assert "Traceback" not in result.err
    assert error in result.err
    assert names(home) == before


# --- the context ---


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_the_context_is_extended_to_the_longest_text(finetune: Any, home: Path, model: str) -> None:
    before = RunFolder(home / "runs" / model).recipe().model["context_length"]
    with (home / "reviews.csv").open("a") as file:
        file.write(f'"{"fine film " * 2 * before}",good\n')
    result = finetune("--out", "runs/long", model=model)
    assert result.code == 0, result.err
    now = RunFolder(home / "runs/long").recipe().model["context_length"]
    assert before < now <= 512
    assert f"trained with a context of {before} tokens and is fine-tuned with {now}" in result.err
    result = finetune("--out", "runs/a", "--set", f"model.context_length={before}", model=model)
    assert RunFolder(home / "runs/a").recipe().model["context_length"] == before
    assert "fine-tuned with" not in result.err
