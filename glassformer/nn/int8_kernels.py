"""Products with int8 weights, y = x Wᵀ, by several kernels; and a program that tries one of them.

    w = scale · q               q from -127 to 127, one scale for each row of W

x86, fbgemm and onednn also quantise x, each row by its own largest value: a row of a batch must not
depend on how large the others are. On processors without the VNNI instructions, sums of two
products of 8 bits overflow; then x is quantised to 7 bits (`_7_bits`). bfloat16 rounds x to
bfloat16. float32 is the fallback, with the same weights.

    python int8_kernels.py KERNEL

Some kernels die of instructions that a processor advertises but does not have, others compute
something else. So each is tried in a child process (`nn/int8.py`), which prints
[[rows, 1, TFLOP/s], ...] as JSON, or fails. One thread: two would wait for each other whenever
something else runs, and measure that. This file imports nothing of glassformer.
"""

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ROWS = (1, 8, 32)  # of x, as in generation
WIDTH, LAYERS = 1024, 12  # together more than what the caches near a core hold
BUDGET = 0.1  # seconds for each number of rows
TOLERANCE = 0.02  # of the largest value of a result


@dataclass(frozen=True)
class Kernel:
    """A way to multiply."""

    pack: Callable[[Tensor, Tensor], Any]
    """int8 weights (out, in) and their scales (out,) in the kernel's own layout."""
    multiply: Callable[..., Tensor]
    """x (…, in), packed weights and perhaps a bias (out,) → (…, out)"""


def _pack_for(engine: str, weight: Tensor, scale: Tensor) -> Any:
    zeros = torch.zeros(len(scale), dtype=torch.long)
    with warnings.catch_warnings():
        # Where a future torch has removed it, the trial fails, and another kernel is chosen.
        warnings.filterwarnings("ignore", ".*are deprecated", UserWarning)
        quantized = torch._make_per_channel_quantized_tensor(weight, scale.double(), zeros, 0)
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        return torch.ops.quantized.linear_prepack(quantized, None)
    finally:
        torch.backends.quantized.engine = before


def _multiply_dynamic(
    reduce_range: bool, x: Tensor, packed: Any, bias: Tensor | None = None
) -> Tensor:
    """torch finds one range for all of x: so rows are first scaled to the same range."""
    if x.size(-1) == x.numel():
        y = torch.ops.quantized.linear_dynamic(x, packed, reduce_range)
        return y if bias is None else y.add_(bias)
    largest = x.abs().amax(-1, keepdim=True).clamp_(min=1e-30)  # (…, 1)
    y = torch.ops.quantized.linear_dynamic(x / largest, packed, reduce_range)
    return y.mul_(largest) if bias is None else torch.addcmul(bias, y, largest)


def _pack_bfloat16(weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return weight.contiguous(), torch.ones(len(scale), dtype=torch.bfloat16), scale


def _multiply_bfloat16(
    x: Tensor, packed: tuple[Tensor, Tensor, Tensor], bias: Tensor | None = None
) -> Tensor:
    weight, ones, scale = packed  # the kernel would round the scales to bfloat16
    rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
    y = torch._weight_int8pack_mm(rows.bfloat16(), weight, ones).float()
    y = y.mul_(scale) if bias is None else torch.addcmul(bias, y, scale)
    return y.view(*x.shape[:-1], -1)


def _dynamic(engine: str, reduce_range: bool = False) -> Kernel:
    return Kernel(partial(_pack_for, engine), partial(_multiply_dynamic, reduce_range))


KERNELS = {  # from the most accurate
    "x86": _dynamic("x86"),
    "fbgemm": _dynamic("fbgemm"),
    "onednn": _dynamic("onednn"),
    "bfloat16": Kernel(_pack_bfloat16, _multiply_bfloat16),
    "fbgemm_7_bits": _dynamic("fbgemm", reduce_range=True),
    "float32": Kernel(lambda weight, scale: weight * scale[:, None], F.linear),
}


@torch.inference_mode()
def largest_error(kernel: Kernel) -> float:
    """Of a product whose sums are as large as they can be, and of one with random values, relative
    to the largest value."""
    random = torch.Generator().manual_seed(0)
    errors = []
    for fill in (torch.ones, partial(torch.randn, generator=random)):
        x, weight = fill((8, WIDTH)), fill((64, WIDTH))
        scale = weight.abs().amax(1) / 127
        quantized = (weight / scale[:, None]).round().to(torch.int8)
        exact = F.linear(x, weight)
        found = kernel.multiply(x, kernel.pack(quantized, scale))
        errors.append(float((found - exact).abs().max() / exact.abs().max()))
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
