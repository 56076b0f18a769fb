"""The machine, and the settings that follow from it: device, precision and threads.

    machine()    what was found and measured → Machine: the choices, and why
    set_up()     the same, put into force; what the user or a resumed run gives comes first

Precision and threads are chosen in `precision.py`, by measuring.
"""

import os
import platform
from dataclasses import dataclass

from glassformer import __version__
from glassformer.errors import GlassformerError, UsageError
from glassformer.machine import facts
from glassformer.machine.precision import (
    PRECISIONS,
    Fingerprint,
    Measurement,
    Measurements,
    choose_precision,
    float32_kernel,
    load_measurements,
    one_at_a_time,
    store_measurements,
    try_precisions,
)
from glassformer.machine.probe import WIDTHS
from glassformer.machine.processes import here
from glassformer.progress import Notify, silently

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
