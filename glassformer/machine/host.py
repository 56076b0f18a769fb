"""The machine, and the settings that follow from it: device, precision and threads.

    machine()    what was found and measured → Machine: the choices, and why
    set_up()     the same, put into force; what the user or a resumed run gives comes first

Which precision to train in is measured, each candidate in a child process of its own, since a CPU
may advertise bf16 instructions that kill the process that uses them:

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
import platform
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from glassformer import __version__
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import write_json
from glassformer.machine import facts
from glassformer.machine.probe import WIDTHS
from glassformer.machine.processes import here
from glassformer.progress import Notify, silently
from glassformer.wording import cause

PRECISIONS = ("float32", "bfloat16", "float16")  # from the safest to the most fragile
CLEARLY = 1.2  # a more fragile precision must be this many times faster to be worth it
TIMEOUT = 60.0  # seconds for one child, most of which a cold disk may take to import torch


# --- what is measured ---


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


# --- the machine and its settings ---

_measured: dict[Fingerprint, Measurements] = {}  # for processes that cannot write the cache


@dataclass(frozen=True)
class Machine:
    """Everything that was found, and what follows from it."""

    device: str  # cuda, mps or cpu, perhaps with an index: cuda:1
    device_name: str
    cpu: str
    cores_logical: int
    cores_usable: int
    memory_bytes: int | None
    threads: int
    precision: str  # for a model of the width that was asked for, like the threads
    reason: str  # why this precision
    probe: Measurements
    torch: str
    python: str
    glassformer: str


@dataclass(frozen=True)
class Setup:
    """What a run computes with. Written into the run, so that a resumed one need not choose."""

    device: str
    precision: str
    threads: int


def machine(
    refresh: bool = False,
    device: str | None = None,
    width: int | None = None,
    notify: Notify = silently,
) -> Machine:
    """Look at this machine; measure it the first time, or if `refresh`. `notify` reports that.

    Precision and threads are those for a model of this `width`; None is a large model.
    """
    import torch

    device = pick_device(device)
    cpus = facts.usable_cpus()
    counts = facts.thread_counts(cpus)
    fingerprint = Fingerprint(
        device=device,
        device_name=_device_name(device),
        cpu=facts.cpu_name(),
        cpu_flags=facts.cpu_flags(),
        cores_logical=os.cpu_count() or 1,
        thread_counts=counts,
        widths=WIDTHS,
        torch=torch.__version__,
        onednn_max_cpu_isa=os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
        kernel=float32_kernel(),
    )
    measured = _measurements(fingerprint, refresh, notify)
    precision, reason = choose_precision(measured, width)
    best = measured[precision].at(width)
    return Machine(
        device=device,
        device_name=fingerprint.device_name,
        cpu=fingerprint.cpu,
        cores_logical=fingerprint.cores_logical,
        cores_usable=facts.usable_cores(cpus),
        memory_bytes=facts.memory_bytes(),
        threads=counts[0] if best is None else best.threads,
        precision=precision,
        reason=reason,
        probe=measured,
        torch=fingerprint.torch,
        python=platform.python_version(),
        glassformer=__version__,
    )


def set_up(
    threads: int | None = None,
    precision: str | None = None,
    device: str | None = None,
    width: int | None = None,
    notify: Notify = silently,
    processes: int = 1,
) -> Setup:
    """Put device, precision and threads into force for this process; None means the machine's best
    for a model of this `width`. Several processes on one machine share its cores.

    A precision that would kill the process is refused here, while it can still be reported.
    """
    import torch

    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}: it must be at least 1.")
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}. Choose one of: {', '.join(PRECISIONS)}.")
    device = pick_device(device)
    if threads is None or precision != "float32":  # float32 needs no probe to be trusted
        best = machine(device=device, width=width, notify=notify)
        peer = here()
        sharing = max(processes, 1 if peer is None else peer.size_of_node)
        threads = threads or max(1, best.threads // sharing)
        precision = precision or best.precision
        _refuse_what_died(precision, best)
    torch.set_num_threads(threads)
    if device == "cpu":
        _keep_float32_exact()
    return Setup(device, precision, threads)


def pick_device(requested: str | None = None) -> str:
    """cuda, mps or cpu: the best there is, or the requested one if it is available."""
    import torch

    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if requested is None:
        return available[0]
    kind, _, index = requested.partition(":")
    most = torch.cuda.device_count() if kind == "cuda" else 1
    if kind not in available or (index and not (index.isdecimal() and int(index) < most)):
        raise GlassformerError(
            f"device {requested} is not available. Choose one of: {', '.join(available)}."
        )
    return requested if kind == "cuda" else kind


def _measurements(fingerprint: Fingerprint, refresh: bool, notify: Notify) -> Measurements:
    def cached() -> Measurements | None:
        return None if refresh else _measured.get(fingerprint) or load_measurements(fingerprint)

    measured = cached()
    if measured is None:
        with one_at_a_time():
            measured = cached()  # another rank may have measured while this one waited
            if measured is None:
                notify("Measuring what this machine can do (only once, for a few seconds).")
                measured = try_precisions(fingerprint.device, fingerprint.thread_counts)
                if measured["float32"].speeds:  # else it was a bad moment, not the machine
                    store_measurements(fingerprint, measured)
    _measured[fingerprint] = measured
    return measured


def _refuse_what_died(precision: str, best: Machine) -> None:
    problem = best.probe.get(precision, Measurement()).problem
    if problem is None or precision == best.precision:
        return
    cure = f"Use precision {best.precision}, or measure again with glassformer doctor --refresh."
    if best.device == "cpu" and problem.startswith("died"):
        cure += " Setting ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 before starting may help."
    raise GlassformerError(f"{precision} does not work on this {best.device} ({problem}). {cure}")


def _keep_float32_exact() -> None:
    """Float32 means float32. Any lower setting lets oneDNN multiply in bfloat16, which may trap."""
    import torch

    torch.set_float32_matmul_precision("highest")
    for kind in ("conv", "rnn"):
        getattr(torch.backends.mkldnn, kind).fp32_precision = "ieee"


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if device == "mps" else facts.cpu_name()


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
