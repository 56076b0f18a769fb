"""What glassformer promises about cores, memory and seeds: the cheap half of the runtime."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.machine import facts
from glassformer.machine.seeds import seed_step, step_seed


@pytest.fixture(autouse=True)
def no_steering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user nor a launcher has said anything."""
    for name in ("OMP_NUM_THREADS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


# --- cores and memory ----------------------------------------------------------------------------


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


EIGHT = frozenset(range(8))
V2 = {"proc/self/cgroup": "0::/pod/box"}
V1 = {"proc/self/cgroup": "4:memory:/box\n1:cpu,cpuacct:/box\n0::/"}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        (V2 | {"sys/fs/cgroup/pod/box/cpu.max": "max 100000"}, 8),
        (V2 | {"sys/fs/cgroup/pod/box/cpu.max": "300000 100000"}, 3),
        (V2 | {"sys/fs/cgroup/pod/cpu.max": "250000 100000"}, 2),
        (V2 | {"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        (V2 | {"sys/fs/cgroup/cpu.max": "1600000 100000"}, 8),
        (
            V1
            | {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "200000",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            },
            2,
        ),
    ],
)
def test_threads_honour_the_cpu_limit_of_a_container(
    tmp_path: Path, files: dict[str, str], cores: int
) -> None:
    write(tmp_path, files)
    assert facts.usable_cores(EIGHT, tmp_path) == cores
    assert facts.thread_counts(EIGHT, tmp_path) == (cores,)


def test_physical_cores_are_tried_before_hyper_threads(tmp_path: Path) -> None:
    pairs = {
        f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}"
        for n in range(8)
    }
    write(tmp_path, pairs)
    assert facts.thread_counts(EIGHT, tmp_path) == (4, 8)
    assert facts.thread_counts(frozenset({0, 4}), tmp_path) == (1, 2)


def test_omp_num_threads_is_a_wish_unless_torchrun_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert facts.thread_counts(EIGHT, tmp_path) == (3,)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert facts.thread_counts(EIGHT, tmp_path) == (8,)


@pytest.mark.parametrize(
    "limit",
    [
        V2 | {"sys/fs/cgroup/pod/box/memory.max": "1048576", "sys/fs/cgroup/memory.max": "max"},
        V1 | {"sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1048576"},
    ],
)
def test_memory_honours_the_limit_of_a_container(tmp_path: Path, limit: dict[str, str]) -> None:
    unlimited = facts.memory_bytes(tmp_path)
    assert unlimited is not None
    assert unlimited > 2**20
    write(tmp_path, limit)
    assert facts.memory_bytes(tmp_path) == 2**20


# --- seeds ---------------------------------------------------------------------------------------


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_the_same_seed_and_step_repeat_every_generator() -> None:
    seed_step(7, 1200)
    first = draws()
    draws()
    seed_step(7, 1200)
    assert draws() == first


def test_other_seeds_steps_and_streams_draw_other_numbers() -> None:
    points = [
        (seed, step, stream) for seed in range(-5, 5) for step in range(50) for stream in (0, 1)
    ]
    assert len({step_seed(*point) for point in points}) == len(points)
    seen: set[float] = set()
    for point in points[:50]:
        seed_step(*point)
        seen.update(draws())
    assert len(seen) == 150


@pytest.mark.parametrize(
    ("vendor", "flags", "is_wider"),
    [
        ("AuthenticAMD", "fpu avx2 avx512f avx512_bf16", True),
        ("AuthenticAMD", "fpu avx2", False),
        ("GenuineIntel", "fpu avx2 avx512f", False),
        ("HygonGenuine", "fpu avx2 avx512f", True),
    ],
)
def test_mkl_leaves_avx_512_unused_on_processors_of_others(
    tmp_path: Path, vendor: str, flags: str, is_wider: bool
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"vendor_id\t: {vendor}\nflags\t\t: {flags}\n")
    assert facts.is_wider_than_mkl(tmp_path) == is_wider


def test_a_system_that_names_no_processor_has_nothing_wider(tmp_path: Path) -> None:
    assert not facts.is_wider_than_mkl(tmp_path)
