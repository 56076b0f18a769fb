"""A training that was stopped or killed goes on as if nothing had happened."""

import io
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.training import begin
from glassformer.training.metrics import Metrics, read_metrics
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder

COLUMNS = ("val_loss", "val_bits_per_byte")

Make = Callable[..., Recipe]
AtBatch = Callable[[int, Callable[[], None]], None]
Signalled = Callable[[int], Callable[[], None]]
Contents = Callable[[Path], dict[str, bytes]]


class PowerError(Exception):
    """The end, at a moment of nobody's choosing."""


def cut() -> None:
    raise PowerError


@pytest.fixture
def straight(tmp_path: Path, tiny: Make, contents: Contents) -> dict[str, bytes]:
    """All that a run leaves which nobody disturbed."""
    begin.train(tiny(), RunFolder(tmp_path / "straight"), io.StringIO())
    return contents(tmp_path / "straight")


# --- exactly ---


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
        begin.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    begin.resume(RunFolder(tmp_path / "run"), io.StringIO())
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
    outcome = begin.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert (outcome.step, outcome.exit_code) == (batch // 2 + 1, 130)
    assert begin.resume(RunFolder(tmp_path / "run"), io.StringIO()).exit_code == 0
    assert contents(tmp_path / "run") == straight


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
    assert begin.train(tiny(), run, io.StringIO()).exit_code == 143
    for batch in (11, 17):
        at_batch(batch, cut)
        with pytest.raises(PowerError):
            begin.resume(run, io.StringIO())
    begin.resume(run, io.StringIO())
    assert contents(run.path) == straight


def test_a_killed_process_resumes_to_the_same_bytes(
    tmp_path: Path, tiny: Make, contents: Contents
) -> None:
    recipe = tiny(max_steps=150, save_steps=5, eval_steps=20)
    run = RunFolder(tmp_path / "killed")
    begin.begin(recipe, run, lambda text: None)
    command = [sys.executable, "-m", "glassformer", "train", "--resume", "--out", str(run.path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while run.last_step() < 15 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert 15 <= run.last_step() < 150
    begin.resume(run, io.StringIO())
    begin.train(recipe, RunFolder(tmp_path / "straight"), io.StringIO())
    assert contents(run.path) == contents(tmp_path / "straight")


def test_a_finished_run_resumes_to_itself(
    tmp_path: Path, contents: Contents, straight: dict[str, bytes]
) -> None:
    outcome = begin.resume(RunFolder(tmp_path / "straight"), io.StringIO())
    assert (outcome.step, outcome.best_step) == (12, 12)
    assert "finished already, at step 12" in outcome.summary()
    assert contents(tmp_path / "straight") == straight


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.csv"])
def test_a_finished_run_that_lost_a_file_does_not_claim_success(
    tmp_path: Path, straight: dict[str, bytes], name: str
) -> None:
    (tmp_path / "straight" / name).unlink()
    with pytest.raises(GlassformerError, match=rf"its {name} is gone. --force trains it again"):
        begin.resume(RunFolder(tmp_path / "straight"), io.StringIO())


def test_a_run_that_lost_its_best_model_goes_on_and_says_so(
    tmp_path: Path, straight: dict[str, bytes]
) -> None:
    run = RunFolder(tmp_path / "straight")
    shutil.rmtree(run.checkpoint(12))
    (run.path / "model.safetensors").unlink()
    stream = io.StringIO()
    begin.resume(run, stream)
    assert f"warning: {run.path / 'model.safetensors'} is gone" in stream.getvalue()
    assert (run.path / "model.safetensors").is_file()


def test_too_little_room_for_a_state_is_told_before_the_first_step(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    run = RunFolder(tmp_path / "run")
    with pytest.raises(GlassformerError, match="and the disk has 1 kB left"):
        begin.train(tiny(), run, io.StringIO())
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
        begin.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert ended.value.code == 130
    assert RunFolder(tmp_path / "run").last_step() == 3


def test_the_old_signal_handlers_are_back_after_a_training(
    tmp_path: Path, tiny: Make, at_batch: AtBatch
) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    at_batch(1, cut)
    with pytest.raises(PowerError):
        begin.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
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
        begin.resume(RunFolder(tmp_path / "straight"), io.StringIO())


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
    begin.resume(run, stream)
    said = stream.getvalue()
    for step in steps:
        assert f"warning: {run.checkpoint(step)}" in said
    told = "going on from step 9" if steps == (12,) else "no undamaged state is left"
    assert told in said
    assert contents(run.path) == straight


def test_without_its_last_state_a_run_goes_on_from_the_one_before(
    tmp_path: Path, contents: Contents, straight: dict[str, bytes]
) -> None:
    run = RunFolder(tmp_path / "straight")
    for file in run.checkpoint(12).iterdir():
        file.unlink()
    run.checkpoint(12).rmdir()
    begin.resume(run, io.StringIO())
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
        begin.resume(run, io.StringIO())
    assert [step for step, _ in run.checkpoints()] == [3, 6]
    begin.resume(run, io.StringIO())
    assert contents(run.path) == straight


# --- the curves ---


def test_curves_for_weights_and_biases_need_its_package(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begin, "find_spec", lambda name: None)
    with pytest.raises(GlassformerError, match=r"needs a package\. Run .* -m pip install wandb\."):
        begin.train(tiny(report_to=["wandb"]), RunFolder(tmp_path / "run"), io.StringIO())
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_forgets_the_rows_after_its_step(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, COLUMNS)
    for step in (2, 4, 6):
        metrics.write(step, {"train_loss": step / 2})
        metrics.sample(step, f"text of {step}\nin two lines")
    metrics.close()
    Metrics(tmp_path, COLUMNS, resumed_at=4).close()
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == ["2", "4"]
    samples = (tmp_path / "samples.txt").read_text()
    assert samples.endswith("--- step 4 ---\ntext of 4\nin two lines\n")


def test_a_row_that_a_kill_cut_short_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,train_loss,learning_rate,val_loss,val_bits_per_byte\n1,2,3,,\n2,2.5,0")
    Metrics(tmp_path, COLUMNS, resumed_at=9).close()
    assert path.read_text().splitlines()[1:] == ["1,2,3,,"]


def test_pruning_keeps_the_newest_and_what_is_not_ours(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for name in ("step-9", "step-10", "step-100", ".step-11.partial", "my-notes"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    run.prune(keep=2)
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["my-notes", "step-10", "step-100"]
