"""Cheap facts about the machine: processor, usable cores, usable memory, and how busy it is.

A container's limits count, not the host's size: the affinity mask, then the CPU and memory limits
of the control group (v1 and v2) and of every group above it. Every reader takes `root`, the folder
that holds `proc` and `sys`; a file that is not there is a limit that is not there.
"""

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
    requested = os.environ.get("OMP_NUM_THREADS", "")
    if requested.isdecimal() and int(requested) > 0 and "LOCAL_WORLD_SIZE" not in os.environ:
        return (int(requested),)
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


# --- how busy the machine is with the work of other processes ---
#
#     busy_cores()                 in the next tenth of a second, in cores: 1.0 is one busy thread
#     before = read_load()
#     busy_cores(since=before)     while something ran, whose own time does not count
#
# Only processors that this process may use count. Under a CPU quota, other processes of the
# container count, and work outside of it as far as it leaves less than the quota. Other processes
# that compete with this one get less than they want: a measurement while this process waits shows
# their demand.

SAMPLE = 0.1  # seconds, of which the system counts hundredths
NOTICEABLE = 0.5  # cores: less than that is what an idle desktop does


@dataclass(frozen=True)
class Load:
    """What had been computed until a moment, in seconds of one processor."""

    time: float
    own: float
    """By this process, without its children."""
    machine: float
    """By everything, on the processors that this process may use."""
    container: float | None
    """By the control group whose quota binds this process, if there is one."""


def busy_cores(since: Load | None = None, root: Path = ROOT) -> float | None:
    """How many cores other processes use, on average since that moment, or, if there is none, in a
    sample of a tenth of a second. None where the system does not report it."""
    before = read_load(root) if since is None else since
    if before is None:
        return _load_average()
    if since is None:
        time.sleep(SAMPLE)
    after = read_load(root)
    passed = 0.0 if after is None else after.time - before.time
    if after is None or passed <= 0:
        return None
    own = after.own - before.own
    busy = (after.machine - before.machine - own) / passed
    limit = cpu_limit(root)
    if limit is not None:
        spare = max(0.0, len(usable_cpus()) - limit[0])
        inside = 0.0
        if after.container is not None and before.container is not None:
            inside = (after.container - before.container - own) / passed
        busy = max(inside, busy - spare)
    return max(0.0, busy)


def read_load(root: Path = ROOT) -> Load | None:
    """What has been computed until now; None where the system does not count it."""
    cpus = {f"cpu{cpu}" for cpu in usable_cpus()}
    ticks, has_any = 0, False
    for line in text(root / "proc/stat").splitlines():
        name, *words = line.split()
        if name in cpus:
            with contextlib.suppress(ValueError):
                user, nice, system, _, _, *interrupts = map(int, words[:8])
                ticks += user + nice + system + sum(interrupts)  # with what a hypervisor took
                has_any = True
    if not has_any:
        return None
    return Load(
        time=time.perf_counter(),
        own=time.process_time(),
        machine=ticks / os.sysconf("SC_CLK_TCK"),
        container=_seconds_of_container(root),
    )


def _seconds_of_container(root: Path) -> float | None:
    limit = cpu_limit(root)
    if limit is None:
        return None
    for line in text(limit[1] / "cpu.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdecimal():
            return int(value) / 1e6
    nanoseconds = text(limit[1] / "cpuacct.usage")
    return int(nanoseconds) / 1e9 if nanoseconds.isdecimal() else None


def _load_average() -> float | None:
    """Processes that wanted to run in the last minute, without what this one has used of it."""
    try:
        wanted = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return None
    return max(0.0, wanted - min(time.process_time() / 60, os.cpu_count() or 1))
