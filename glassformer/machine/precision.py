"""Which precision to train in, and with how many threads: float32, bfloat16 or float16.

It is measured, each candidate in a child process of its own, since a CPU may advertise bf16
instructions that kill the process that uses them:

               width 128   256   512
    float32        0.21   0.26  0.30 TFLOP/s   → chosen for narrow models
    bfloat16       0.19   0.35  0.80 TFLOP/s   → chosen for wide ones
    float16    not tried

The children import torch side by side and then measure one at a time: the probe waits for one
import, not for three, and no two measurements compete. The answer is cached on disk.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from glassformer.errors import GlassformerError
from glassformer.files import write_json
from glassformer.machine import facts
from glassformer.wording import cause

PRECISIONS = ("float32", "bfloat16", "float16")  # from the safest to the most fragile
CLEARLY = 1.2  # a more fragile precision must be this many times faster to be worth it
TIMEOUT = 60.0  # seconds for one child, most of which a cold disk may take to import torch


@dataclass(frozen=True)
class Speed:
    """The speed for a model of some width, with the thread count that reached it."""

    width: int
    threads: int
    tflops: float


@dataclass(frozen=True)
class Measurement:
    """The speed for each width that was tried, or the problem that prevented any."""

    speeds: tuple[Speed, ...] = ()
    problem: str | None = None

    def at(self, width: int | None) -> Speed | None:
        """The speed for a model of this width: that of the next smaller width. None is the largest
        width."""
        ordered = sorted(self.speeds, key=lambda speed: speed.width)
        fitting = [speed for speed in ordered if width is None or speed.width <= width]
        return next(iter([*fitting[-1:], *ordered]), None)


Measurements = dict[str, Measurement]


@dataclass(frozen=True)
class Fingerprint:
    """Everything that the probe's answer depends on."""

    device: str
    device_name: str
    cpu: str
    cpu_flags: str
    cores_logical: int
    thread_counts: tuple[int, ...]
    widths: tuple[int, ...]
    torch: str
    onednn_max_cpu_isa: str
    kernel: str = ""


# --- trying precisions, and choosing one ---


def try_precisions(device: str, thread_counts: Sequence[int]) -> Measurements:
    """Try every precision that could be trained in on `device`."""
    script = Path(__file__).with_name("probe.py")
    python = [sys.executable or "python", "-P", "-W", "ignore", str(script)]
    if device != "cpu":
        thread_counts = thread_counts[:1]  # an accelerator would choose between them by chance
    counts = ",".join(map(str, thread_counts))
    kernel = float32_kernel()
    commands = {precision: [*python, device, precision, counts, kernel] for precision in PRECISIONS}
    untried: Measurements = {}
    if not device.startswith("cuda"):
        del commands["float16"]
        untried["float16"] = Measurement(problem="not tried: its loss scaling needs cuda")
    return {**measure(commands, TIMEOUT), **untried}


def float32_kernel() -> str:
    """What multiplies matrices in training on a CPU (see `nn/onednn.py`)."""
    return "onednn" if facts.is_wider_than_mkl() else "torch"


def measure(commands: Mapping[str, Sequence[str]], timeout: float) -> Measurements:
    """Run one child per precision. Whatever becomes of a child, the parent continues."""
    children: dict[str, subprocess.Popen[str]] = {}
    results: Measurements = {}
    # The rest of the environment stays: ONEDNN_MAX_CPU_ISA and its like decide who survives.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    pipe = subprocess.PIPE
    try:
        for precision, command in commands.items():
            try:
                children[precision] = subprocess.Popen(
                    command,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    env=environment,
                    encoding="utf-8",
                    errors="replace",
                )
            except OSError as error:
                results[precision] = Measurement(problem=f"could not start: {cause(error)}")
        for precision, child in children.items():
            results[precision] = _ask(child, timeout)
    finally:
        for child in children.values():
            with child:  # closes its pipes and waits for it
                child.kill()
    return results


def _ask(child: subprocess.Popen[str], timeout: float) -> Measurement:
    try:
        stdout, stderr = child.communicate("go\n", timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()  # now: it would slow down those still to be measured
        return Measurement(problem=f"timed out after {timeout:g} s")
    if child.returncode < 0:
        return Measurement(problem=f"died: {_signal_name(-child.returncode)}")
    if child.returncode > 0:
        reason = (stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        return Measurement(problem=f"failed: {reason}")
    try:
        speeds = [Speed(int(w), int(n), float(tflops)) for w, n, tflops in json.loads(stdout)]
    except (ValueError, TypeError):
        return Measurement(problem="failed: the child reported nothing")
    best = {speed.width: speed for speed in sorted(speeds, key=lambda speed: speed.tflops)}
    return Measurement(tuple(best[width] for width in sorted(best)))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def choose_precision(
    measured: Mapping[str, Measurement], width: int | None = None
) -> tuple[str, str]:
    """The precision to train a model of this width in, and why: the safest one, unless another is
    clearly faster. None is the largest width."""
    speed = {name: _tflops(measured[name], width) for name in PRECISIONS if name in measured}
    best = "float32"
    for name in PRECISIONS[1:]:
        if speed.get(name, 0.0) > 0 and speed[name] >= CLEARLY * speed.get(best, 0.0):
            best = name
    base = speed.get("float32", 0.0)
    if best != "float32":
        if not base:
            return best, f"{best} is used because float32 failed"
        return best, f"{best} is {speed[best] / base:.3g} times as fast as float32"
    if not base:
        return best, "every precision failed the probe; float32 is the safest"
    return best, "; ".join(
        _why_not(name, measured[name], speed[name] / base) for name in measured if name != best
    )


def _tflops(measurement: Measurement, width: int | None) -> float:
    speed = measurement.at(width)
    return 0.0 if speed is None else speed.tflops


def _why_not(name: str, measurement: Measurement, ratio: float) -> str:
    if not ratio:
        return f"{name} {measurement.problem}"
    how = f"{1 / ratio:.3g} times slower" if ratio < 1 else f"only {ratio:.3g} times as fast"
    return f"{name} is {how}"


# --- the cache of measurements ---
# One small JSON file per kind of machine, named after everything that could change the answer, so a
# new torch, another GPU or another ONEDNN_MAX_CPU_ISA finds no file and measures again. The cache
# is a convenience: a damaged file is measured over, and a folder that cannot be written is done
# without.


def cache_dir() -> Path | None:
    """GLASSFORMER_CACHE, or glassformer/ in the XDG cache; None for a user without a home."""
    cache = os.environ.get("GLASSFORMER_CACHE")
    if cache:
        return Path(cache)
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):
        # The XDG specification says to ignore a relative path.
        base = Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache"
        return base / "glassformer"
    return None


def load_measurements(
    fingerprint: Fingerprint, names: Collection[str] = PRECISIONS
) -> Measurements | None:
    """The cached measurements, if there is one for each of `names`."""
    folder = cache_dir()
    if folder is None:
        return None
    try:
        stored = json.loads(_file(folder, fingerprint).read_bytes())["measurements"]
        measured = TypeAdapter(dict[str, Measurement]).validate_python(stored)
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None
    return measured if measured.keys() == set(names) else None


def store_measurements(fingerprint: Fingerprint, measured: Measurements) -> None:
    """Write them to the cache. A reader sees the old file or the new one, never half of one."""
    folder = cache_dir()
    if folder is None:
        return
    content = {
        "fingerprint": asdict(fingerprint),
        "measurements": {name: asdict(measurement) for name, measurement in measured.items()},
    }
    with contextlib.suppress(GlassformerError):
        write_json(_file(folder, fingerprint), content)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Ranks of one node take turns: the first measures an idle machine, the others read its file.

    Without it, ranks that disturb each other's measurements could choose different precisions.
    """
    from filelock import FileLock

    folder = cache_dir()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no such locks here: measure unlocked
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(folder / "probe.lock", fallback_to_soft=False))
        yield


def _file(folder: Path, fingerprint: Fingerprint) -> Path:
    digest = hashlib.sha256(json.dumps(asdict(fingerprint)).encode()).hexdigest()[:16]
    return folder / f"probe-{digest}.json"
