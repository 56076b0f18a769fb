"""A run begins without a mess, and one that was stopped or killed continues as if nothing had
happened."""

import io
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glassformer.checkpoint.model_folder import load_model
from glassformer.errors import GlassformerError
from glassformer.files import check_folder
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training import run_folder
from glassformer.training.progress import RunLog
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]
AtBatch = Callable[[int, Callable[[], None]], None]
Signalled = Callable[[int], Callable[[], None]]
Contents = Callable[[Path], dict[str, bytes]]


def trained(folder: Path, recipe: Recipe) -> RunFolder:
    story.train(recipe, RunFolder(folder), io.StringIO())
    return RunFolder(folder)


class PowerError(Exception):
    """The end, at a moment of nobody's choosing."""


def cut() -> None:
    raise PowerError


@pytest.fixture
def straight(tmp_path: Path, tiny: Make, contents: Contents) -> dict[str, bytes]:
    """All that a run leaves which nobody disturbed."""
    story.train(tiny(), RunFolder(tmp_path / "straight"), io.StringIO())
    return contents(tmp_path / "straight")


# --- begin ---


def test_setting_up_in_vain_leaves_nothing_behind(tmp_path: Path, notes: Path, tiny: Make) -> None:
    notes.write_text("too short")
    with pytest.raises(GlassformerError, match="fewer than one context"):
        story.train(tiny(), RunFolder(tmp_path / "new" / "parents" / "run"), io.StringIO())
    assert list(tmp_path.iterdir()) == [notes]


def test_an_old_run_is_lost_only_when_the_new_one_is_set_up(
    tmp_path: Path, notes: Path, tiny: Make, contents: Contents
) -> None:
    run, text = trained(tmp_path / "run", tiny()).path, notes.read_text()
    before = contents(run)
    notes.write_text("too short")
    with pytest.raises(GlassformerError):
        story.train(tiny(), RunFolder(run), io.StringIO())
    assert contents(run) == before
    notes.write_text(text)
    story.train(tiny(seed=7), RunFolder(run), io.StringIO())
    assert contents(run)["model.safetensors"] != before["model.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "run"]


@pytest.mark.parametrize("lost", ["data", "data/manifest.json", "data/train.bin"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_run_whose_data_broke_before_the_first_step_can_be_replaced(
    tmp_path: Path, tiny: Make, lost: str, how: str
) -> None:
    run = RunFolder(tmp_path / "run")
    story.begin(tiny(), run, io.StringIO())
    path = run.path / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "damaged":
        path.write_text("junk")
    with pytest.raises(GlassformerError, match=r"is (damaged: |missing).*train it again with"):
        story.resume(run, io.StringIO())
    story.begin(tiny(), run, io.StringIO())
    check_folder(run.path / "data")


def test_a_project_with_a_printed_recipe_is_not_renamed(tmp_path: Path, tiny: Make) -> None:
    run = RunFolder(tmp_path / "project")
    run.write_recipe(trained(tmp_path / "run", tiny()).recipe().with_training(device="auto"))
    (run.path / "data").mkdir()
    (run.path / "data" / "corpus.txt").touch()
    with pytest.raises(GlassformerError, match="Choose another --out"):
        story.begin(tiny(), run, io.StringIO())
    assert (run.path / "data" / "corpus.txt").is_file()


def test_curves_for_weights_and_biases_need_its_package(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "find_spec", lambda name: None)
    with pytest.raises(GlassformerError, match=r"wandb package\. Run .* -m pip install wandb\."):
        story.train(tiny(report_to=["wandb"]), RunFolder(tmp_path / "run"), io.StringIO())
    assert not (tmp_path / "run").exists()


# --- resumed exactly ---


# 24 micro-batches make 12 steps; saved at 3, 6, 9, 12, validated at 4, 8, 12, logged at 5, 10.
@pytest.mark.parametrize("batch", [0, 7, 8, 13, 23])
def test_a_run_cut_off_anywhere_resumes_to_the_same_bytes(
    tmp_path: Path,
    tiny: Make,
    at_batch: AtBatch,
    contents: Contents,
    straight: dict[str, bytes],
    batch: int,
) -> None:
    at_batch(batch, cut)
    with pytest.raises(PowerError):
        story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    story.resume(RunFolder(tmp_path / "run"), io.StringIO())
    assert contents(tmp_path / "run") == straight


@pytest.mark.parametrize("batch", [0, 9, 15, 17, 19, 21])
def test_a_run_stopped_by_ctrl_c_resumes_to_the_same_bytes(
    tmp_path: Path,
    tiny: Make,
    at_batch: AtBatch,
    signalled: Signalled,
    contents: Contents,
    straight: dict[str, bytes],
    batch: int,
) -> None:
    at_batch(batch, signalled(signal.SIGINT))
    outcome = story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert (outcome.step, outcome.exit_code) == (batch // 2 + 1, 130)
    assert story.resume(RunFolder(tmp_path / "run"), io.StringIO()).exit_code == 0
    assert contents(tmp_path / "run") == straight


@pytest.mark.parametrize("moment", ["the last step", "test", "report"])
def test_ctrl_c_after_the_last_step_says_that_the_training_is_done(
    tmp_path: Path,
    tiny: Make,
    at_batch: AtBatch,
    monkeypatch: pytest.MonkeyPatch,
    signalled: Signalled,
    contents: Contents,
    straight: dict[str, bytes],
    moment: str,
) -> None:
    run = RunFolder(tmp_path / "run")
    if moment == "the last step":
        at_batch(23, signalled(signal.SIGINT))
    else:
        name = {"test": "add_test", "report": "write_report"}[moment]
        monkeypatch.setattr(story, name, lambda *_: signal.raise_signal(signal.SIGINT))
    outcome = story.train(tiny(), run, io.StringIO())
    assert (outcome.step, outcome.exit_code) == (12, 130)
    said = outcome.summary()
    assert said.startswith(
        f"stopped after the last step: {run.path} is trained and saved, but the "
    )
    assert "report is missing. Complete it with: " in said
    assert said.endswith(f"train --resume --out {run.path}")
    assert not (run.path / "report.html").exists()
    monkeypatch.undo()
    assert story.resume(run, io.StringIO()).exit_code == 0
    assert contents(run.path) == straight


def test_a_signal_while_the_log_is_closed_is_not_lost(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = RunLog.close

    def signalled(log: RunLog) -> None:
        close(log)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunLog, "close", signalled)
    before = signal.getsignal(signal.SIGINT)
    outcome = story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert outcome.exit_code == 130
    assert "stopped after the last step" in outcome.summary()
    assert signal.getsignal(signal.SIGINT) is before


def test_many_interruptions_add_up_to_nothing(
    tmp_path: Path,
    tiny: Make,
    at_batch: AtBatch,
    signalled: Signalled,
    contents: Contents,
    straight: dict[str, bytes],
) -> None:
    run = RunFolder(tmp_path / "run")
    at_batch(3, signalled(signal.SIGTERM))
    assert story.train(tiny(), run, io.StringIO()).exit_code == 143
    for batch in (11, 17):
        at_batch(batch, cut)
        with pytest.raises(PowerError):
            story.resume(run, io.StringIO())
    story.resume(run, io.StringIO())
    assert contents(run.path) == straight


def test_a_killed_process_resumes_to_the_same_bytes(
    tmp_path: Path, tiny: Make, contents: Contents
) -> None:
    recipe = tiny(max_steps=150, save_steps=5, eval_steps=20)
    run = RunFolder(tmp_path / "killed")
    story.begin(recipe, run, io.StringIO())
    command = [sys.executable, "-m", "glassformer", "train", "--resume", "--out", str(run.path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while run.last_step() < 15 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert 15 <= run.last_step() < 150
    story.resume(run, io.StringIO())
    story.train(recipe, RunFolder(tmp_path / "straight"), io.StringIO())
    assert contents(run.path) == contents(tmp_path / "straight")


def test_a_finished_run_resumes_to_itself(
    tmp_path: Path, contents: Contents, straight: dict[str, bytes]
) -> None:
    outcome = story.resume(RunFolder(tmp_path / "straight"), io.StringIO())
    assert (outcome.step, outcome.best_step) == (12, 12)
    assert "already finished, at step 12" in outcome.summary()
    assert contents(tmp_path / "straight") == straight


def test_what_a_kill_left_of_an_old_state_goes_when_the_run_is_resumed(
    tmp_path: Path, contents: Contents, straight: dict[str, bytes]
) -> None:
    half_deleted = tmp_path / "straight" / "checkpoints" / "step-6"
    half_deleted.mkdir()
    (half_deleted / "manifest.json").write_text("{}")
    story.resume(RunFolder(tmp_path / "straight"), io.StringIO())
    assert contents(tmp_path / "straight") == straight


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.csv"])
def test_a_finished_run_that_lost_a_file_does_not_claim_success(
    tmp_path: Path, straight: dict[str, bytes], name: str
) -> None:
    (tmp_path / "straight" / name).unlink()
    with pytest.raises(
        GlassformerError, match=rf"its {name} is missing\. Train it again with --force"
    ):
        story.resume(RunFolder(tmp_path / "straight"), io.StringIO())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"{}"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_finished_run_with_a_damaged_model_does_not_claim_success(
    tmp_path: Path, tiny: Make, name: str, content: bytes
) -> None:
    run = trained(tmp_path / "run", tiny(max_steps=1))
    (run.path / name).write_bytes(content)
    with pytest.raises(GlassformerError, match=rf"model is damaged\. .*{name}.*with --force"):
        story.resume(run, io.StringIO())


def test_a_run_that_lost_its_best_model_goes_on_and_says_so(
    tmp_path: Path, straight: dict[str, bytes]
) -> None:
    run = RunFolder(tmp_path / "straight")
    shutil.rmtree(run.checkpoint(12))
    (run.path / "model.safetensors").unlink()
    stream = io.StringIO()
    story.resume(run, stream)
    assert f"warning: {run.path / 'model.safetensors'} is missing" in stream.getvalue()
    assert (run.path / "model.safetensors").is_file()


def test_a_run_with_damaged_metrics_goes_on_and_says_so(
    tmp_path: Path, straight: dict[str, bytes]
) -> None:
    run = RunFolder(tmp_path / "straight")
    shutil.rmtree(run.checkpoint(12))
    metrics = run.path / "metrics.csv"
    metrics.write_bytes(metrics.read_bytes() + b"\xff\xfe\n")
    stream = io.StringIO()
    story.resume(run, stream)
    assert f"warning: {metrics} is damaged: dropped 1 line" in stream.getvalue()
    assert metrics.read_bytes() == straight["metrics.csv"]


def test_too_little_room_for_a_state_is_told_before_the_first_step(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    run = RunFolder(tmp_path / "run")
    with pytest.raises(GlassformerError, match="but the disk has 1 kB left"):
        story.train(tiny(), run, io.StringIO())
    assert run.checkpoints() == []


# --- by hand and by accident ---


def test_a_second_ctrl_c_ends_at_once_with_130(
    tmp_path: Path, tiny: Make, at_batch: AtBatch, signalled: Signalled
) -> None:
    def twice() -> None:
        signalled(signal.SIGINT)()
        signalled(signal.SIGINT)()

    at_batch(9, twice)
    with pytest.raises(SystemExit) as ended:
        story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert ended.value.code == 130
    assert RunFolder(tmp_path / "run").last_step() == 3


def test_the_old_signal_handlers_are_back_after_a_training(
    tmp_path: Path, tiny: Make, at_batch: AtBatch
) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    at_batch(1, cut)
    with pytest.raises(PowerError):
        story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(
    "file", ["data/train.bin", "data/data.json", "data/validation.bin", "data/tokenizer.json"]
)
def test_damaged_data_is_found_before_it_is_used(
    tmp_path: Path, straight: dict[str, bytes], file: str
) -> None:
    path = tmp_path / "straight" / file
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(GlassformerError, match=rf"{path.name} is damaged.*--force"):
        story.resume(RunFolder(tmp_path / "straight"), io.StringIO())


@pytest.mark.parametrize("file", ["state.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("steps", [(12,), (9, 12)])
def test_instead_of_a_damaged_state_an_earlier_one_is_taken_and_that_is_said(
    tmp_path: Path,
    contents: Contents,
    straight: dict[str, bytes],
    file: str,
    steps: tuple[int, ...],
) -> None:
    run = RunFolder(tmp_path / "straight")
    for step in steps:
        path = run.checkpoint(step) / file
        path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    stream = io.StringIO()
    story.resume(run, stream)
    said = stream.getvalue()
    for step in steps:
        assert f"warning: {run.checkpoint(step)}" in said
    told = "continuing from step 9" if steps == (12,) else "no undamaged checkpoint is left"
    assert told in said
    assert contents(run.path) == straight


def test_without_its_last_state_a_run_goes_on_from_the_one_before(
    tmp_path: Path, contents: Contents, straight: dict[str, bytes]
) -> None:
    run = RunFolder(tmp_path / "straight")
    for file in run.checkpoint(12).iterdir():
        file.unlink()
    run.checkpoint(12).rmdir()
    story.resume(run, io.StringIO())
    assert contents(run.path) == straight


def test_states_made_after_a_damaged_one_are_kept(
    tmp_path: Path,
    at_batch: AtBatch,
    contents: Contents,
    straight: dict[str, bytes],
) -> None:
    run = RunFolder(tmp_path / "straight")
    for step in (9, 12):
        (run.checkpoint(step) / "state.json").write_text("{}")
    at_batch(15, cut)
    with pytest.raises(PowerError):
        story.resume(run, io.StringIO())
    assert [step for step, _ in run.checkpoints()] == [3, 6]
    story.resume(run, io.StringIO())
    assert contents(run.path) == straight


def test_a_recipe_that_was_edited_in_the_run_is_refused(tmp_path: Path, tiny: Make) -> None:
    run = trained(tmp_path / "run", tiny())
    recipe = run.path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 0", "seed: 4"))
    with pytest.raises(GlassformerError, match=r"not the recipe.*training\.seed was 0, is now 4"):
        story.resume(run, io.StringIO())


# --- early stopping ---


def test_a_run_that_no_longer_gets_better_stops_and_stays_stopped(
    tmp_path: Path, tiny: Make
) -> None:
    recipe = tiny(early_stopping=2, max_steps=200, eval_steps=1, learning_rate=1e-12)
    outcome = story.train(recipe, RunFolder(tmp_path / "run"), io.StringIO())
    assert outcome.stopped_early
    assert outcome.exit_code == 0
    assert outcome.step < 200
    assert "stopped early at step" in outcome.summary()
    assert RunFolder(tmp_path / "run").is_finished()
    again = story.resume(RunFolder(tmp_path / "run"), io.StringIO())
    assert (again.step, again.stopped_early) == (outcome.step, True)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux shows its maps")
def test_no_file_of_a_new_run_is_open_when_it_takes_its_place(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows would refuse to rename the folder."""
    real, mapped = run_folder.take_place, []

    def take_place(partial: Path, path: Path) -> None:
        maps = Path("/proc/self/maps").read_text().splitlines()
        mapped.append([line for line in maps if str(partial) in line])
        real(partial, path)

    monkeypatch.setattr(run_folder, "take_place", take_place)
    story.begin(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert mapped == [[]]


def test_a_model_that_is_in_use_is_not_mapped(tmp_path: Path, tiny: Make) -> None:
    """Else, on Windows, a training could not replace its weights."""
    run = trained(tmp_path / "run", tiny(max_steps=1))
    model = load_model(run.path).model
    before = model.head.weight.clone()
    with (run.path / "model.safetensors").open("r+b") as file:
        file.truncate(10)
    assert torch.equal(model.head.weight, before)
