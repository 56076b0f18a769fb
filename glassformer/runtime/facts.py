"""Cheap facts about the machine: processor, cores that may be used, memory that may be used.

A container's limits count, not the host's size: the affinity mask, then the CPU and memory limits
of the control group (v1 and v2) and of every group above it. Every reader takes `root`, the folder
that holds `proc` and `sys`; a file that is not there is a limit that is not there.
"""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def cpu_name(root: Path = ROOT) -> str:
    return _cpuinfo("model name", root) or platform.processor() or platform.machine() or "unknown"


def cpu_flags(root: Path = ROOT) -> str:
    """The instruction sets that the processor claims to have ("Features" on Arm)."""
    return _cpuinfo("flags", root) or _cpuinfo("Features", root) or ""


def is_wider_than_mkl(root: Path = ROOT) -> bool:
    """Whether the processor has AVX-512 and is not Intel's: then MKL does not use it."""
    vendor = _cpuinfo("vendor_id", root) or ""  # AuthenticAMD, GenuineIntel
    return "Intel" not in vendor and "avx512f" in cpu_flags(root).split()


def usable_cpus() -> frozenset[int]:
    """The logical CPUs that this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def usable_cores(cpus: frozenset[int], root: Path = ROOT) -> int:
    """How many of `cpus` the CPU quota lets run at once; 1.5 CPUs keep one thread busy, not two."""
    limit = cpu_limit(root)
    return len(cpus) if limit is None else max(1, min(len(cpus), int(limit[0])))


def thread_counts(cpus: frozenset[int], root: Path = ROOT) -> tuple[int, ...]:
    """Thread counts worth trying: one per physical core, then one per logical core if that differs.

    OMP_NUM_THREADS, when the user set it, is the only one. Under torchrun it is torchrun's own
    default of 1 and says nothing.
    """
    wish = os.environ.get("OMP_NUM_THREADS", "")
    if wish.isdecimal() and int(wish) > 0 and "LOCAL_WORLD_SIZE" not in os.environ:
        return (int(wish),)
    logical = usable_cores(cpus, root)
    physical = min(physical_cores(cpus, root) or logical, logical)
    return (physical,) if physical == logical else (physical, logical)


def physical_cores(cpus: frozenset[int], root: Path = ROOT) -> int | None:
    """How many cores `cpus` are hyper-threads of; None where the system does not report it."""
    folder = root / "sys/devices/system/cpu"
    siblings = {text(folder / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    return None if "" in siblings else len(siblings)


def cpu_limit(root: Path = ROOT) -> tuple[float, Path] | None:
    """The smallest quota of the control groups, in cores, and the folder of its group."""
    quotas = []
    for group in _control_groups("cpu", root):
        v2 = text(group / "cpu.max").split()
        v1 = [text(group / "cpu.cfs_quota_us"), text(group / "cpu.cfs_period_us")]
        for words in (v2, v1):
            if len(words) == 2 and all(word.isdecimal() for word in words):  # not "max", not -1
                quotas.append((int(words[0]) / int(words[1]), group))
    return min(quotas, default=None)


def memory_bytes(root: Path = ROOT) -> int | None:
    """The memory there is, or the part of it that the control groups grant."""
    limits = []
    for group in _control_groups("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = text(group / name)
            if limit.isdecimal():
                limits.append(int(limit))
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not every system reports it
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits, default=None)


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders whose limits bind this process: its own group and every group above it."""
    mount = root / "sys/fs/cgroup"
    for line in text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            tops = [mount / controller]
        elif not controllers:
            tops = [mount, mount / "unified"]
        else:
            continue
        for top in tops:
            yield top
            # In a container the path may be the host's; its folders are then just not there.
            for part in path.strip("/").split("/"):
                top = top / part
                yield top


def _cpuinfo(key: str, root: Path) -> str | None:
    for line in text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def text(path: Path) -> str:
    """The text of a file that the system provides; empty if it does not."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
