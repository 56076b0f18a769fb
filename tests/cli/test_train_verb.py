"""`glassformer train`: from a file to a folder that every other verb takes."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder


@pytest.fixture
def copy(run: Any, tmp_path: Path) -> Path:
    """The shared run, to be changed at will; its data stays where it was."""
    shutil.copytree(run.folder, tmp_path / "copy")
    return tmp_path / "copy"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- begin ---


def test_one_command_makes_a_model_in_a_folder_named_after_the_data(run: Any) -> None:
    assert run.folder.parts[-2:] == ("runs", "gpt-notes")
    assert (run.folder / "model.safetensors").is_file()
    assert RunFolder(run.folder).last_step() == 20


def test_the_last_word_names_the_loss_and_a_command_that_works(run: Any, glassformer: Any) -> None:
    assert run.training.out.startswith("runs/gpt-notes: validation loss ")
    _, _, suggestion = run.training.out.partition("Try: python -m glassformer ")
    words = shlex.split(suggestion)
    assert words[:2] == ["generate", "runs/gpt-notes"]
    assert glassformer("generate", run.folder, words[2]).code == 0


def test_progress_goes_to_stderr_without_colours_or_bars(run: Any) -> None:
    assert "step 20/20 loss" in run.training.err
    assert "character tokenizer: " in run.training.err
    assert not set("\x1b\r▰▱") & set(run.training.err + run.training.out)


def test_json_is_one_object_on_stdout(glassformer: Any, run: Any, small: list[str]) -> None:
    data = ["--data", run.notes, "--max-steps", "2", "--seed", "5", "--json"]
    result = glassformer("train", "gpt", *data, *small, "--out", "r")
    outcome = json.loads(result.out)
    assert outcome.items() >= {"run": "r", "step": 2, "max_steps": 2, "finished": True}.items()
    assert outcome["val_loss"] > 0


@pytest.mark.parametrize("rate", ["--lr", "--learning-rate"])
@pytest.mark.parametrize("epochs", ["--epochs", "--num-train-epochs"])
def test_the_usual_options_have_the_usual_names(
    glassformer: Any, run: Any, rate: str, epochs: str
) -> None:
    words = (rate, "2e-3", "--batch-size", "5", epochs, "1.5")
    printed = glassformer("train", "gpt", "--data", run.notes, *words, "--print-recipe")
    training = yaml.safe_load(printed.out)["training"]
    assert (training["learning_rate"], training["per_device_train_batch_size"]) == (2e-3, 5)
    assert training["num_train_epochs"] == 1.5


@pytest.mark.parametrize("verb", ["train", "finetune"])
def test_the_usual_options_are_in_the_help_under_training(glassformer: Any, verb: str) -> None:
    _, _, found = glassformer(verb, "--help").out.partition("\nTraining:")
    section, _, _ = found.partition("\nRun:")
    for name in ("--learning-rate, --lr X", "--batch-size N", "--num-train-epochs, --epochs X"):
        assert name in section


def test_flags_say_what_keys_of_the_recipe_say(
    glassformer: Any, run: Any, small: list[str], tmp_path: Path
) -> None:
    flags = ["--tokenizer", "bpe", "--preset", "nano", "--seed", "7", "--max-steps", "1e0"]
    data = ["--data", run.notes, "--validation-data", run.notes, "--encoding", "latin-1"]
    printed = glassformer("train", "gpt", *data, *flags, "--print-recipe")
    recipe = yaml.safe_load(printed.out)
    assert recipe["data"]["validation_paths"] == [str(run.notes)]
    assert recipe["data"]["encoding"] == "latin-1"
    assert (recipe["tokenizer"]["kind"], recipe["model"]["preset"]) == ("bpe", "nano")
    assert (recipe["training"]["seed"], recipe["training"]["max_steps"]) == (7, 1)


def test_a_printed_recipe_trains_the_same_model(
    glassformer: Any, run: Any, small: list[str], tmp_path: Path
) -> None:
    words = ["train", "gpt", "--data", run.notes, "--max-steps", "20", *small]
    printed = glassformer(*words, "--print-recipe")
    (tmp_path / "recipe.yaml").write_text(printed.out)
    result = glassformer("train", "--recipe", "recipe.yaml", "--out", "again")
    assert (printed.code, result.code) == (0, 0)
    for name in ("model.safetensors", "config.json", "metrics.csv", "samples.txt"):
        assert (tmp_path / "again" / name).read_bytes() == (run.folder / name).read_bytes()


def test_the_recipe_of_a_run_trains_the_same_model(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    recipe, data = run.folder / "recipe.yaml", ["--data", run.notes]
    assert glassformer("train", "--recipe", recipe, *data, "--out", "again").code == 0
    weights = tmp_path / "again" / "model.safetensors"
    assert weights.read_bytes() == (run.folder / "model.safetensors").read_bytes()


# --- rehearse ---


def test_a_dry_run_says_what_would_happen_and_touches_nothing(
    program: Any, run: Any, small: list[str], tmp_path: Path
) -> None:
    result = program("train", "gpt", "--data", run.notes, "--max-steps", "1e4", *small, "--dry-run")
    assert result.code == 0
    assert "10,000 steps of 128 tokens" in result.out
    for row in ("model", "tokenizer", "data", "training", "memory", "time"):
        assert f"\n{row} " in "\n" + result.out
    assert names(tmp_path) == []


def test_a_dry_run_as_json_has_the_same_numbers(
    glassformer: Any, run: Any, small: list[str], tmp_path: Path
) -> None:
    words = ["train", "gpt", "--data", run.notes, "--max-steps", "100", *small]
    plan = json.loads(glassformer(*words, "--dry-run", "--json").out)
    assert (plan["max_steps"], plan["tokens_per_step"]) == (100, 4 * 32)
    assert plan["seconds"] > 0
    assert names(tmp_path) == []


def test_a_dry_run_of_a_run_that_stopped_plans_what_is_left(
    glassformer: Any, copy: Path, small: list[str]
) -> None:
    before = names(copy)
    words = ["train", "--resume", "--out", copy, "--dry-run"]
    assert "is finished: there is nothing left to train" in glassformer(*words).out
    steps = [int(folder.name[5:]) for folder in (copy / "checkpoints").iterdir()]
    last, *earlier = sorted(steps, reverse=True)
    shutil.rmtree(copy / "checkpoints" / f"step-{last}")
    said = f"{20 - earlier[0]} more steps, from step {earlier[0]} to 20, of 128 tokens: "
    assert said in glassformer(*words).out
    assert "a different recipe" in glassformer(*words, "--max-steps", 100).error
    plan = json.loads(glassformer(*words, "--json", "--force", "--max-steps", 100).out)
    assert (plan["first_step"], plan["max_steps"]) == (earlier[0], 100)
    after = [name for name in before if f"checkpoints/step-{last}" not in name]
    assert names(copy) == after


# --- go on ---


def test_resume_needs_only_the_folder(glassformer: Any, run: Any, copy: Path) -> None:
    shutil.rmtree(copy / "checkpoints" / "step-20")
    (copy / "model.safetensors").unlink()
    result = glassformer("train", "--resume", "--out", copy)
    assert result.code == 0, result.err
    for name in ("model.safetensors", "metrics.csv", "checkpoints/step-20/state.safetensors"):
        assert (copy / name).read_bytes() == (run.folder / name).read_bytes()


def test_resume_takes_the_same_command_again(
    glassformer: Any, run: Any, copy: Path, small: list[str]
) -> None:
    shutil.rmtree(copy / "checkpoints" / "step-20")
    words = ["train", "gpt", "--data", "notes.txt", "--max-steps", "20", *small]
    result = glassformer(*words, "--resume", "--out", copy)
    assert result.code == 0, result.err
    assert (copy / "checkpoints" / "step-20").is_dir()


def test_a_terminated_run_says_how_to_go_on(
    run: Any, small: list[str], tmp_path: Path, glassformer: Any
) -> None:
    words = ["train", "gpt", "--data", str(run.notes), "--max-steps", "9e3", *small, "--out", "r"]
    words += ["--set", "training.save_steps=5", "--set", "training.eval_steps=3000"]
    command = [sys.executable, "-m", "glassformer", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
        while RunFolder(tmp_path / "r").last_step() == 0 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    step = RunFolder(tmp_path / "r").last_step()
    assert process.returncode == 143, err
    assert "SIGTERM: stopping after this step" in err
    assert out.startswith(f"stopped at step {step:,} of 9,000")
    assert out.endswith(": python -m glassformer train --resume --out r\n")


@pytest.mark.parametrize(
    ("switch", "said"),
    [
        ((), "before the first step. Run the same command with --resume to start again."),
        (("--force",), "before the first step. Run the same command to start again."),
        (("--resume",), "Nothing is lost: run the same command to continue."),
    ],
)
def test_stopped_before_the_first_step_it_says_how_to_begin_again(
    glassformer: Any, run: Any, monkeypatch: Any, capfd: Any, switch: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(story, "prepare", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    words = ["train", "gpt", "--data", run.notes, "--out", "r", *switch]
    assert glassformer(*words).code == 130
    assert capfd.readouterr().err.endswith(f"{said}\n")
    assert not Path("r").exists()


def test_force_starts_over(glassformer: Any, run: Any, copy: Path, small: list[str]) -> None:
    words = ["train", "gpt", "--data", run.notes, "--max-steps", "2", *small, "--out", copy]
    assert "--force" in glassformer(*words).error
    assert glassformer(*words, "--force").code == 0
    assert RunFolder(copy).last_step() == 2


@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.0])
def test_a_run_that_is_stopped_before_it_trains_leaves_nothing_half_written(
    run: Any, small: list[str], tmp_path: Path, seconds: float
) -> None:
    words = ["train", "gpt", "--data", str(run.notes), *small, "--out", "runs/r"]
    command = [sys.executable, "-m", "glassformer", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (143, -signal.SIGTERM), err  # -15: before the first line of ours
    assert "Traceback" not in err
    assert not list(tmp_path.glob("**/.*partial"))
    run_folder = RunFolder(tmp_path / "runs" / "r")
    assert run_folder.exists or not run_folder.path.exists()


def test_verify_says_identical_or_what_differs(glassformer: Any, copy: Path) -> None:
    result = glassformer("verify", copy)
    assert (result.code, result.out[:10]) == (0, "identical:")
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 0", "seed: 1"))
    result = glassformer("verify", copy, "--json")
    verdict = json.loads(result.out)
    assert (result.code, verdict["identical"]) == (1, False)
    assert "training.seed" in verdict["reason"]
    assert "contains no run: there is no recipe.yaml" in glassformer("verify", copy / "data").error
