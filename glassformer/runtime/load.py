"""How busy is this machine with the work of other processes?

    busy_cores()                 in the next tenth of a second, in cores: 1.0 is one busy thread
    before = read_load()
    busy_cores(since=before)     while something ran, whose own time does not count

Only processors that this process may use count. Under a CPU quota, other processes of the container
count, and work outside of it as far as it leaves less than the quota. Other processes that compete
with this one get less than they want: a measurement while this process waits shows their demand.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from glassformer.runtime import facts
from glassformer.runtime.facts import ROOT

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
    limit = facts.cpu_limit(root)
    if limit is not None:
        spare = max(0.0, len(facts.usable_cpus()) - limit[0])
        inside = 0.0
        if after.container is not None and before.container is not None:
            inside = (after.container - before.container - own) / passed
        busy = max(inside, busy - spare)
    return max(0.0, busy)


def read_load(root: Path = ROOT) -> Load | None:
    """What has been computed until now; None where the system does not count it."""
    cpus = {f"cpu{number}" for number in facts.usable_cpus()}
    ticks, has_any = 0, False
    for line in facts.text(root / "proc/stat").splitlines():
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
    limit = facts.cpu_limit(root)
    if limit is None:
        return None
    for line in facts.text(limit[1] / "cpu.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdecimal():
            return int(value) / 1e6
    nanoseconds = facts.text(limit[1] / "cpuacct.usage")
    return int(nanoseconds) / 1e9 if nanoseconds.isdecimal() else None


def _load_average() -> float | None:
    """Processes that wanted to run in the last minute, without what this one has used of it."""
    try:
        wanted = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return None
    return max(0.0, wanted - min(time.process_time() / 60, os.cpu_count() or 1))
