"""Kernels that multiply float32 vectors with int8 weights, y = x Wᵀ, and the choice of the fastest.

    w = scale · q                                  q from -127 to 127, one scale for each row of W
    x = step · (base² · high + base · middle + low)   whole numbers, one step for each row of x
    y = step · scale · (base² · high qᵀ + base · middle qᵀ + low qᵀ)

Kernels for 8 bits multiply whole numbers of 8 bits and add the products up in 32 bits, without any
rounding. So x, cut to 24 bits relative to the largest value of its row, becomes three such
numbers ("digits"), which are the rows of one product: weights are read from memory once, and what
becomes of a row depends on the rows beside it no more than in float32. 8 bits for x would lose
accuracy. Worse, each rounding to 8 bits makes a step of the smallest difference, and attention over
another number of padding tokens always has one in its last digits: with 8 bits the logits of
SmolLM2 differ by 3 then, with 16 bits by 0.01, with 24 bits by 0.00005 as in float32.

On processors without the VNNI instructions, sums of two products of 8 bits overflow; digits of 7
bits do not. float32 multiplies without digits; it is as slow as weights that are not quantised.

    python int8_kernels.py KERNEL

Some kernels die of instructions that a processor advertises but does not have, others compute
something else. So each is tried in a child process, which prints
[[rows, 1, TFLOP/s], ...] as JSON, or fails. One thread: two would wait for each other whenever
something else runs, and measure that. The child imports nothing of glassformer.
"""

import contextlib
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from glassformer.machine.precision import Measurement, Measurements


ROWS = (1, 8, 32)  # of x, as in generation
WIDTH, LAYERS = 1024, 12  # together more than what the caches near a core hold
BUDGET = 0.1  # seconds for each number of rows
TOLERANCE = 1e-5  # of the largest value of a result
FALLBACK = "float32"  # right everywhere, and as slow as weights that are not quantised
CLEARLY = 1.1  # times as fast: less than what chance makes of two measurements
BITS = 24  # of x: as many as float32 has
# The largest |x| / step: the first digit, of 8 bits or less, has room for a carry.
LARGEST = 2 ** (BITS - 1) - 2 ** (BITS - 8)
ROWS_AT_ONCE = 64  # of x, so that its digits stay in the cache


class Kernel(Protocol):
    """A way to multiply."""

    def pack(self, weight: Tensor, scale: Tensor) -> Any:
        """int8 weights (out, in) and their scales (out,) in the kernel's own layout."""

    def multiply(self, x: Tensor, packed: Any, bias: Tensor | None = None) -> Tensor:
        """x (…, in), packed weights and perhaps a bias (out,) → (…, out)"""


class Float32:
    """Multiplies by the same weights in float32."""

    def pack(self, weight: Tensor, scale: Tensor) -> Tensor:
        return weight * scale[:, None]

    def multiply(self, x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.linear(x, packed, bias)


class Digits:
    """Multiplies the digits of x by a kernel for whole numbers.

    `product(digits, packed)` is digits · scale · qᵀ: digits (rows, in) are unsigned, and half of
    the base stands for 0. `bits` is the size of a digit.
    """

    def __init__(
        self,
        pack: Callable[[Tensor, Tensor], Any],
        product: Callable[[Tensor, Any], Tensor],
        bits: int = 8,
    ) -> None:
        self.pack = pack
        self.product = product
        self.bits = bits
        shifts = torch.arange(0, BITS, bits, dtype=torch.int32).flip(0)
        self._zero = int((2 ** (shifts + bits - 1)).sum())  # half of the base in each digit
        self._shifts = shifts[:, None, None]
        self._values = 2.0 ** shifts[None]  # of the digits: (1, 3 or 4)

    def multiply(self, x: Tensor, packed: Any, bias: Tensor | None = None) -> Tensor:
        width = x.size(-1)
        if x.numel() == width:
            y = self._multiply_one(x.reshape(1, width), packed, bias)
        else:
            parts = [
                self._multiply(rows, packed, bias)
                for rows in x.reshape(-1, width).split(ROWS_AT_ONCE)
            ]
            y = parts[0] if len(parts) == 1 else torch.cat(parts)
        return y.view(*x.shape[:-1], y.size(-1))

    def _multiply(self, x: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        step = x.abs().amax(1, True).mul_(1 / LARGEST)  # (R, 1)
        # A row of zeros becomes 0 / 0, and then any digits, times a step of 0.
        parts = self.product(self._digits(x / step), packed)  # (3 or 4 · R, out)
        y, *higher = reversed(parts.unflatten(0, (-1, len(x))).unbind())
        for place, part in enumerate(higher, 1):
            y.add_(part, alpha=2 ** (self.bits * place))
        y.mul_(step)
        return y if bias is None else y.add_(bias)

    def _multiply_one(self, x: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        """The same for a single row, in fewer operations: there, each takes as long as it takes to
        start it."""
        step = float(x.abs().max()) / LARGEST
        parts = self.product(self._digits(x * (1 / (step or 1.0))), packed)  # (3 or 4, out)
        values = self._values * step
        return values @ parts if bias is None else torch.addmm(bias, values, parts)

    def _digits(self, whole: Tensor) -> Tensor:
        """The digits of numbers (R, in) between -LARGEST and LARGEST: (3 or 4 · R, in)"""
        moved = whole.int().add_(self._zero) >> self._shifts
        if self.bits < 8:  # of 8 bits, the conversion leaves the others out
            moved &= 2**self.bits - 1
        return moved.view(-1, whole.size(1)).to(torch.uint8)


def _pack_onednn(weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    zeros = torch.zeros(len(scale), dtype=torch.int32)
    return torch.ops.onednn.qlinear_prepack(weight, None), scale, zeros


def _product_onednn(digits: Tensor, packed: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return torch.ops.onednn.qlinear_pointwise(  # its float overload: 1 · (digits - 128)
        digits, 1.0, 128, *packed, None, 1.0, 0, torch.float32, "none", [], ""
    )


def _pack_for(engine: str, weight: Tensor, scale: Tensor) -> Any:
    zeros = torch.zeros(len(scale), dtype=torch.long)
    with warnings.catch_warnings():
        # When torch removes it, `tests/nn/test_int8_kernels.py` fails.
        warnings.filterwarnings("ignore", r"torch\.quantize_per_tensor, .* deprecated", UserWarning)
        quantized = torch._make_per_channel_quantized_tensor(weight, scale.double(), zeros, 0)
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        return torch.ops.quantized.linear_prepack(quantized, None)
    finally:
        torch.backends.quantized.engine = before


def _product_dynamic(bits: int, digits: Tensor, packed: Any) -> Tensor:
    """torch rounds x to a range that it looks for: one more row makes it that of all digits."""
    half = 2 ** (bits - 1)
    x = F.pad(digits.float(), (0, 0, 0, 1))
    x[-1, 0] = 2 * half - 1
    x -= half
    return torch.ops.quantized.linear_dynamic(x, packed, bits == 7)[:-1]


KERNELS: dict[str, Kernel] = {  # from the one that torch is likeliest to keep
    "onednn": Digits(_pack_onednn, _product_onednn),  # Intel and AMD with VNNI
    "fbgemm": Digits(partial(_pack_for, "fbgemm"), partial(_product_dynamic, 7), 7),  # with AVX2
    "qnnpack": Digits(partial(_pack_for, "qnnpack"), partial(_product_dynamic, 8)),  # ARM
    "float32": Float32(),
}


# --- which kernel multiplies: measured once on each machine, and cached ---
#
#     onednn     0.04  0.19  0.32 TFLOP/s for 1, 8 and 32 rows   → chosen
#     fbgemm     0.04  0.13  0.17
#     qnnpack    0.02  0.04  0.06
#
# Each is tried in a child process (`main`), for its speed and for its results: it may
# die, or overflow on a processor without VNNI. If none works, a warning says why. Two of them stand
# on functions that torch deprecates: `tests/nn/test_int8_kernels.py` fails when they are removed.


@cache
def int8_kernel() -> str:
    """The name of the fastest kernel that survives here and computes the right thing."""
    from glassformer.machine import facts, precision

    fingerprint = precision.Fingerprint(
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
    with precision.one_at_a_time():
        measured = precision.load_measurements(fingerprint, KERNELS)
        if measured is None:
            measured = precision.measure(
                {name: _command(name) for name in KERNELS}, precision.TIMEOUT
            )
            precision.store_measurements(fingerprint, measured)
    best = fastest(measured)
    if best == FALLBACK:
        problems = "; ".join(
            f"{name}: {measurement.problem or 'slower'}"
            for name, measurement in measured.items()
            if name != FALLBACK
        )
        warnings.warn(
            f"8-bit weights are multiplied in float32, which saves no time ({problems}).",
            stacklevel=2,
        )
    return best


def _command(kernel: str) -> list[str]:
    return [sys.executable or "python", "-P", "-W", "ignore", __file__, kernel]


def fastest(measured: "Measurements") -> str:
    """The fastest kernel; those further down must be clearly faster."""
    best = FALLBACK
    for name in measured:
        if _speed(measured[name]) > CLEARLY * _speed(measured.get(best)):
            best = name
    return best


def _speed(measurement: "Measurement | None") -> float:
    """The geometric mean, in which all numbers of rows count alike."""
    speeds = [] if measurement is None else [speed.tflops for speed in measurement.speeds]
    return math.prod(speeds) ** (1 / len(speeds)) if speeds else 0.0


# --- trying one kernel, in a process of its own ---


@torch.inference_mode()
def largest_error(kernel: Kernel) -> float:
    """Of a product whose sums are as large as they can be, and of one with random values, relative
    to the largest value."""
    random = torch.Generator().manual_seed(0)
    errors = []
    for fill in (torch.ones, partial(torch.randn, generator=random)):
        x, quantized = fill((8, WIDTH)), (127 * fill((64, WIDTH))).clamp(-127, 127)
        scale = fill((64,)).abs()
        exact = x.double() @ (quantized.to(torch.int8).double() * scale[:, None]).T
        product = kernel.multiply(x, kernel.pack(quantized.to(torch.int8), scale))
        errors.append(float((product - exact).abs().max() / exact.abs().max()))
    return max(errors)


@torch.inference_mode()
def speed(kernel: Kernel, rows: int) -> float:
    """TFLOP/s, the best seen: whatever else runs on the machine can only make it slower."""
    weight = torch.ones((WIDTH, WIDTH), dtype=torch.int8)
    layers = [kernel.pack(weight, torch.ones(WIDTH)) for _ in range(LAYERS)]
    x, best, begun = torch.randn(rows, WIDTH), 0.0, time.perf_counter()
    while time.perf_counter() - begun < BUDGET:
        started = time.perf_counter()
        for layer in layers:
            kernel.multiply(x, layer)
        seconds = time.perf_counter() - started
        best = max(best, 2 * rows * WIDTH**2 * LAYERS / seconds / 1e12)
    return best


def main() -> None:
    kernel = KERNELS[sys.argv[1]]
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death here is no news: dump no core
    if not sys.stdin.readline():
        return  # the parent is gone
    torch.set_num_threads(1)
    if not (error := largest_error(kernel)) < TOLERANCE:
        raise ArithmeticError(f"its results differ by {error:.2g}")
    sys.stdout.write(json.dumps([(rows, 1, speed(kernel, rows)) for rows in ROWS]) + "\n")


if __name__ == "__main__":
    main()
