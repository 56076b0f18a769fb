"""Several processes train one model: the same model as one process with the same batches, whatever
divides the work, and whoever is killed."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from glassformer.checkpoint import training_state
from glassformer.checkpoint.training_state import load_state, save_state
from glassformer.errors import GlassformerError, UsageError
from glassformer.machine.processes import is_other_node
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as story
from glassformer.training.preparation import share_batches, with_processes
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]
Contents = Callable[[Path], dict[str, bytes]]

PROCESSES = Path("/proc/self/cmdline").exists()
TWO_CORES = pytest.mark.skipif(
    not PROCESSES or len(os.sched_getaffinity(0)) < 2, reason="needs two cores and /proc"
)
FROM_ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has started the tests."""
    for name in FROM_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def begun(recipe: Recipe, folder: Path) -> RunFolder:
    run = RunFolder(folder)
    story.begin(recipe, run, io.StringIO())
    return run


def tensors(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    match value:
        case torch.Tensor():
            yield name, value
        case dict():
            for key, each in value.items():
                yield from tensors(each, f"{name}.{key}")
        case list():
            for number, each in enumerate(value):
                yield from tensors(each, f"{name}.{number}")


def furthest(one: Path, other: Path) -> float:
    """The largest difference between two saved states, whose tensors have the same names."""
    first, second = dict(tensors(load_state(one))), dict(tensors(load_state(other)))
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@TWO_CORES
@pytest.mark.parametrize(
    ("strategy", "more"),
    [("ddp", {}), ("fsdp", {"checkpoint_activations": True})],
)
def test_two_processes_learn_what_one_learns(
    tmp_path: Path, tiny: Make, strategy: str, more: dict[str, Any]
) -> None:
    """With dropout, a running mean and Muon: after 20 steps, to 1e-6."""
    settings = {"max_steps": 20, "eval_steps": 10, "save_steps": 10, "ema": 0.9}
    alone = begun(tiny(**settings, gradient_accumulation_steps=4), tmp_path / "alone")
    story.train_on(alone, io.StringIO())
    both = tiny(**settings, gradient_accumulation_steps=2, devices=2, strategy=strategy, **more)
    run = begun(both, tmp_path / "both")
    outcome = story.train_on(run, io.StringIO())
    assert (outcome.step, outcome.stopped_by) == (20, None)
    assert furthest(alone.checkpoint(20), run.checkpoint(20)) < (
        1e-6 if strategy == "ddp" else 1e-5
    )
    one, other = (load_file(each.path / "model.safetensors") for each in (alone, run))
    assert one.keys() == other.keys()
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 1e-5
    rows = [(each.path / "metrics.csv").read_text().splitlines() for each in (alone, run)]
    for mine, theirs in zip(*rows, strict=True):
        assert [float(x) for x in mine.split(",")[1:] if x[:1].isdigit()] == pytest.approx(
            [float(x) for x in theirs.split(",")[1:] if x[:1].isdigit()], abs=1e-5
        )


@TWO_CORES
def test_a_state_of_two_processes_continues_in_one_and_back(tmp_path: Path, tiny: Make) -> None:
    recipe = tiny(gradient_accumulation_steps=1, devices=2, strategy="fsdp")
    run = begun(recipe, tmp_path / "run")
    story.train_on(run, io.StringIO(), until=4)
    alone = share_batches(run.recipe().with_training(devices=1), run.recipe())
    assert alone.training.gradient_accumulation_steps == 2
    run.write_recipe(alone)
    assert story.train_on(run, io.StringIO(), until=8).step == 8
    run.write_recipe(share_batches(run.recipe().with_training(devices=2), run.recipe()))
    assert story.train_on(run, io.StringIO()).step == 12
    straight = begun(tiny(), tmp_path / "straight")
    story.train_on(straight, io.StringIO())
    assert furthest(run.checkpoint(12), straight.checkpoint(12)) < 1e-5


def workers(run: RunFolder) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"glassformer.training.worker" in words and bytes(run.path) in words:
                found.append(int(entry.name))
    return sorted(found)


def training(run: RunFolder, until: int) -> subprocess.Popen[str]:
    """`train --resume` in a process of its own, when it has saved step `until`."""
    command = [sys.executable, "-m", "glassformer", "train", "--resume", "--out", str(run.path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while run.last_step() < until and process.poll() is None:
        time.sleep(0.005)
    return process


@TWO_CORES
def test_a_run_that_is_disturbed_ends_clearly_and_resumes_to_the_same_bytes(
    tmp_path: Path, tiny: Make, contents: Contents
) -> None:
    """Undisturbed, it is started by torchrun: that makes no difference either."""
    settings = {"max_steps": 80, "save_steps": 4, "eval_steps": 40}
    run = begun(tiny(**settings, devices=2), tmp_path / "run")
    process = training(run, until=8)
    os.kill(workers(run)[-1], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, workers(run), "Traceback" in said) == (1, [], False)
    assert "of 2 was ended by SIGKILL. Continue from step" in said.splitlines()[-1]

    process = training(run, until=run.last_step() + 8)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert (process.returncode, workers(run), "Traceback" in said) == (143, [], False)
    assert said.count("SIGTERM: stopping after this step …") == 1
    assert run.last_step() < 80
    story.resume(run, io.StringIO())

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(tiny(**settings).model_dump(mode="json", exclude_unset=True)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = [
        "-m",
        "glassformer",
        "train",
        "--recipe",
        str(recipe),
        "--out",
        str(tmp_path / "other"),
    ]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("validation loss") == 1
    assert contents(run.path) == contents(tmp_path / "other")


@TWO_CORES
def test_what_one_process_reports_ends_the_run_with_that_sentence(
    tmp_path: Path, tiny: Make
) -> None:
    run = begun(tiny(devices=2, learning_rate=1e30), tmp_path / "run")
    with pytest.raises(GlassformerError, match=r"became (nan|inf|infinite or NaN) at step \d"):
        story.train_on(run, io.StringIO())


@pytest.mark.parametrize(
    ("settings", "environment", "message"),
    [
        ({"devices": 10_000}, {}, r"--devices is 10000, but this machine has \d+ cores?\. Pass at"),
        ({"devices": 3}, {"WORLD_SIZE": "2"}, "torchrun has started 2 processes. Leave it out"),
    ],
)
def test_processes_that_there_cannot_be(
    tiny: Make,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, int],
    environment: dict[str, str],
    message: str,
) -> None:
    for name in FROM_ENVIRONMENT[:3] if environment else ():
        monkeypatch.setenv(name, environment.get(name, "2" if name != "RANK" else "0"))
    with pytest.raises(UsageError, match=message):
        with_processes(tiny(**settings))


def test_other_machines_must_be_known(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(num_nodes=2).training
    with pytest.raises(UsageError, match="NODE_RANK=0, 1, …, MASTER_ADDR=the name of the first"):
        is_other_node(config.num_nodes)
    for name, value in {"NODE_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert is_other_node(config.num_nodes)
    monkeypatch.setenv("NODE_RANK", "2")
    with pytest.raises(UsageError, match="NODE_RANK is 2, but --num-nodes 2 counts from 0"):
        is_other_node(config.num_nodes)


def test_batches_that_cannot_be_shared_equally(tiny: Make) -> None:
    before = tiny(gradient_accumulation_steps=3)
    with pytest.raises(GlassformerError, match="made of 3 batches, which 2 processes cannot share"):
        share_batches(before.with_training(devices=2), before)


def test_a_large_state_is_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_state, "LARGEST", 1000)
    tied = torch.rand(10, 10)
    state = {"many": [torch.full((9, 9), float(n)) for n in range(12)], "tied": [tied, tied]}
    save_state(tmp_path / "state", state)
    assert len(list((tmp_path / "state").glob("state*.safetensors"))) > 3
    found = load_state(tmp_path / "state")
    assert all(torch.equal(*each) for each in zip(state["many"], found["many"], strict=True))
    assert found["tied"][0] is found["tied"][1]
    (tmp_path / "state" / "state-2.safetensors").unlink()
    with pytest.raises(GlassformerError, match="is damaged"):
        load_state(tmp_path / "state")
