"""Where tasks run: what is missing is said with its cure, and a killed build loses nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_warcs import html, prose, response, write_warc

from glassformer.corpus.executors import Executor, make_executor
from glassformer.errors import GlassformerError

SLURM = ["partition=cpu", "time=01:00:00", "mem_per_cpu_gb=4"]


class Touch:
    """A step that writes a file for each task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        (self.folder / str(rank)).touch()


def fake_program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_ray_and_slurm_that_are_missing_are_named_with_their_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GlassformerError, match=r"needs Ray\. Run .*pip install ray"):
        make_executor("ray")
    with pytest.raises(GlassformerError, match="there is no Slurm here"):
        make_executor("slurm", 2, SLURM)


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("slurm", [], "needs --executor-options partition="),
        ("slurm", ["partition=cpu", "time=1", "colour=red"], "colour=red: pass KEY=VALUE"),
        ("slurm", [*SLURM, "cpus_per_task=many"], "must be a number"),
        ("local", ["partition=cpu"], "none for local"),
    ],
)
def test_wrong_options_of_an_executor_are_refused(
    kind: Any, options: list[str], problem: str
) -> None:
    with pytest.raises(GlassformerError, match=problem):
        make_executor(kind, 2, options)


def test_slurm_gets_a_script_and_a_job_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_program(tmp_path, "sbatch", "echo Submitted batch job 17")
    fake_program(tmp_path, "squeue", "exit 0")  # the job is gone at once
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    executor = make_executor("slurm", 3, SLURM)
    with pytest.raises(GlassformerError, match=r"5 tasks of the step pages failed\. Their logs"):
        executor.run("pages", Touch(tmp_path), 5, tmp_path / "logs")
    script = (tmp_path / "logs/pages/launch_script.slurm").read_text()
    for line in ("--partition=cpu", "--time=01:00:00", "--mem-per-cpu=4G", "--array=0-4%3"):
        assert f"#SBATCH {line}\n" in script
    assert "launch_pickled_pipeline" in script


@pytest.mark.parametrize("workers", [1, 2])
def test_finished_tasks_are_not_repeated(
    tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, int, int]] = []
    for _ in range(2):
        with Executor(workers=workers, progress=lambda *each: seen.append(each)) as executor:
            executor.run("touch", Touch(tmp_path), 3, tmp_path / "logs")
        assert sorted(path.name for path in tmp_path.glob("[0-9]")) in (["0", "1", "2"], [])
        for path in tmp_path.glob("[0-9]"):
            path.unlink()
    assert seen[-1] == ("touch", 3, 3)
    assert capfd.readouterr() == ("", "")  # datatrove's logs are in files


def test_a_worker_that_is_killed_is_an_error_and_not_a_long_wait(tmp_path: Path) -> None:
    with (
        Executor(workers=2) as executor,
        pytest.raises(GlassformerError, match="a worker process was killed"),
    ):
        executor.run("die", Die(), 2, tmp_path)


class Die:
    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_build_killed_at_any_moment_continues_to_the_same_bytes(tmp_path: Path) -> None:
    pages = [response(f"http://a.org/{each}", html(prose(each))) for each in range(140)]
    write_warc(tmp_path / "a.warc.gz", *pages)

    def started(out: str) -> subprocess.Popen[bytes]:
        given = ["--warc", "a.warc.gz", "--out", out, "--workers", "1"]
        command = [sys.executable, "-m", "glassformer", "corpus", "build", *given]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=tmp_path, stderr=quiet, stdout=quiet, env=ENVIRONMENT)

    assert started("whole").wait() == 0
    logs = tmp_path / ".corpus.partial/logs"
    for moment in ("records/completions/00000", "pages/task-00001.log", "candidates"):
        killed = started("corpus")
        while not (logs / moment).exists() and killed.poll() is None:
            time.sleep(0.005)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
    assert started("corpus").wait() == 0
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "corpus").iterdir()} == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.warc.gz", "corpus", "whole"]


ROOT = str(Path(__file__).parents[2])
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH", "")]))
}
