"""Which kernel multiplies by int8 weights: measured once on each machine, and remembered.

    onednn     0.04  0.19  0.32 TFLOP/s for 1, 8 and 32 rows   → chosen
    fbgemm     0.04  0.13  0.17
    qnnpack    0.02  0.04  0.06

The kernels are tried in child processes (`int8_kernels.py`), since one may die or be wrong. All
compute the same up to float32's rounding.
"""

import math
import os
import sys
import warnings
from functools import cache as once
from pathlib import Path

from glassformer.runtime import cache, facts
from glassformer.runtime.cache import Fingerprint
from glassformer.runtime.precision import TIMEOUT, Measurement, Measurements, measure

FALLBACK = "float32"  # right everywhere, and as slow as weights that are not quantised
CLEARLY = 1.1  # times as fast: less than what chance makes of two measurements


@once
def int8_kernel() -> str:
    """The name of the fastest kernel that survives here and computes the right thing."""
    import torch

    from glassformer.nn.int8_kernels import KERNELS, ROWS

    fingerprint = Fingerprint(
        device="int8",
        device_name="",
        cpu=facts.cpu_name(),
        cpu_flags=facts.cpu_flags(),
        cores_logical=os.cpu_count() or 1,
        thread_counts=(1,),
        widths=ROWS,
        torch=torch.__version__,
        onednn_max_cpu_isa=os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
    )
    with cache.one_at_a_time():
        measured = cache.recall(fingerprint, KERNELS)
        if measured is None:
            measured = measure({name: _command(name) for name in KERNELS}, TIMEOUT)
            cache.remember(fingerprint, measured)
    best = fastest(measured)
    if best == FALLBACK:
        others = (f"{name}: {found.problem or 'slower'}" for name, found in measured.items())
        problems = "; ".join(other for other in others if not other.startswith(FALLBACK))
        warnings.warn(
            f"8-bit weights are multiplied in float32, which saves no time ({problems}).",
            stacklevel=2,
        )
    return best


def _command(kernel: str) -> list[str]:
    script = Path(__file__).with_name("int8_kernels.py")
    return [sys.executable or "python", "-P", "-W", "ignore", str(script), kernel]


def fastest(measured: Measurements) -> str:
    """The fastest kernel; those further down must be clearly faster."""
    best = FALLBACK
    for name in measured:
        if _speed(measured[name]) > CLEARLY * _speed(measured.get(best)):
            best = name
    return best


def _speed(measurement: Measurement | None) -> float:
    """The geometric mean, in which all numbers of rows count alike."""
    speeds = [] if measurement is None else [speed.tflops for speed in measurement.speeds]
    return math.prod(speeds) ** (1 / len(speeds)) if speeds else 0.0
