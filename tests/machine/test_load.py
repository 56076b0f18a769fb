"""How busy other processes keep this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glassformer.machine import facts
from glassformer.machine import facts as load
from glassformer.machine.facts import Load, busy_cores

QUOTA = {"proc/self/cgroup": "0::/box", "sys/fs/cgroup/box/cpu.max": "200000 100000"}


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the process may use the first two."""
    monkeypatch.setattr(facts, "usable_cpus", lambda: frozenset({0, 1}))


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def stat(*seconds: float) -> dict[str, str]:
    """A file that says how long each processor computed."""
    ticks = os.sysconf("SC_CLK_TCK")
    lines = [f"cpu{n} {round(s * ticks)} 0 0 999 5 0 0 0 0 0" for n, s in enumerate(seconds)]
    return {"proc/stat": "\n".join(["cpu  1 2 3 4 5 6 7 8 0 0", *lines, "intr 1"])}


def ago(seconds: float, machine: float, container: float | None = None) -> Load:
    """A reading of the past, since when this process has done nothing."""
    return Load(time.perf_counter() - seconds, time.process_time(), machine, container)


def test_only_processors_that_may_be_used_count(tmp_path: Path) -> None:
    write(tmp_path, stat(7.0, 3.0, 100.0, 100.0))
    assert busy_cores(ago(10.0, machine=0.0), root=tmp_path) == pytest.approx(1.0, abs=0.1)


def test_own_time_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, stat(7.0, 3.0))
    now = ago(10.0, machine=0.0)
    before = Load(now.time, now.own - 6.0, now.machine, None)
    assert busy_cores(before, root=tmp_path) == pytest.approx(0.4, abs=0.1)


def test_every_kind_of_work_counts_and_waiting_does_not(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    work = " ".join(str(n * ticks) for n in (1, 2, 3, 900, 900, 1, 1, 2))  # 900: idle, iowait
    write(tmp_path, {"proc/stat": f"cpu0 {work}"})
    assert busy_cores(ago(10.0, machine=0.0), root=tmp_path) == pytest.approx(1.0, abs=0.1)


def test_other_processes_in_the_container_share_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "usable_cpus", lambda: frozenset(range(8)))
    usage = {"sys/fs/cgroup/box/cpu.stat": "usage_usec 15000000\nuser_usec 15000000"}
    write(tmp_path, stat(*[5.0] * 8) | QUOTA | usage)
    before = ago(10.0, machine=0.0, container=0.0)
    # 4 of 8 cores are busy: the quota of 2 is free on the others, but half used up inside.
    assert busy_cores(before, root=tmp_path) == pytest.approx(1.5, abs=0.1)


def test_work_outside_the_container_counts_when_it_leaves_less_than_the_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "usable_cpus", lambda: frozenset(range(8)))
    write(tmp_path, stat(*[9.0] * 8) | QUOTA)
    assert busy_cores(ago(10.0, machine=0.0), root=tmp_path) == pytest.approx(1.2, abs=0.1)


@pytest.mark.parametrize("content", ["", "cpu0", "cpu0 a b c d e f", "cpu0 1 2 3", "\x00\n\n"])
def test_where_it_is_not_reported_the_load_average_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    write(tmp_path, {"proc/stat": content})
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    found = busy_cores(root=tmp_path)
    assert found is not None
    assert found > 9e5
    monkeypatch.delattr(os, "getloadavg")
    assert busy_cores(root=tmp_path) is None


@contextmanager
def busy_process() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            time.sleep(0.2)  # to start
            yield
        finally:
            process.kill()


def test_a_process_that_computes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with busy_process():
        before = load.read_load()
        if before is None:
            pytest.skip("this system does not report what was computed")
        time.sleep(1.0)
        found = busy_cores(before)
    assert found is not None
    assert found > 0.3  # more on a machine where nothing else runs


def test_a_measurement_is_short() -> None:
    begin = time.process_time()
    busy_cores()
    assert time.process_time() - begin < 0.05
    assert load.SAMPLE <= 0.1
