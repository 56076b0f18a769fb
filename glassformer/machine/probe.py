"""One precision, tried in a process that may die of it.

    python probe.py DEVICE PRECISION THREADS[,THREADS...] KERNEL

Some processors advertise instructions that trap when used: no exception, the process is gone. So
each precision is tried in a child, by what training does (a Transformer block, forward and
backward, under autocast), for models of several widths: where matrices are small, converting them
can take longer than a faster product saves. KERNEL, torch or onednn, multiplies in float32 on a
CPU. The child waits for a line on stdin, measures, and prints [[width, threads, TFLOP/s], ...] as
JSON.

This file runs as a script and imports nothing of glassformer: whatever is wrong with the parent's
search path, working directory or threads cannot follow it here.
"""

import contextlib
import json
import math
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    Product = Callable[[Tensor, Tensor, Tensor], Tensor]

WIDTHS = (128, 256, 512)
HEAD = 64
LENGTH = 128  # of a sequence
MOST_ROWS_PER_WIDTH = 1 / 4  # tokens in a step grow with the model: 4,096 at a width of 128
LONG_ENOUGH = 0.03  # seconds: a shorter step measures the clock and the launch, not the arithmetic
BUDGET = 0.3  # seconds of measuring, warm-up apart


def make_block(width: int, multiply: "Product | None" = None) -> "nn.Module":
    """Attention and feed-forward layer, each added to its input."""
    from torch import nn
    from torch.nn import functional as F

    class Linear(nn.Linear):
        def forward(self, input: "Tensor") -> "Tensor":
            return (multiply or F.linear)(input, self.weight, self.bias)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.projections = Linear(width, 3 * width)
            self.output = Linear(width, width)
            self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

        def forward(self, x: "Tensor") -> "Tensor":
            parts = self.projections(self.norms[0](x)).unflatten(
                -1, (3, -1, HEAD)
            )  # (B, T, 3, H, d)
            query, key, value = parts.transpose(1, 3).unbind(2)  # (B, H, T, d)
            heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)
            return x + self.down(F.gelu(self.up(self.norms[1](x))))

    return Block()


def step_seconds(block: "nn.Module", width: int, rows: int, device: str, precision: str) -> float:
    """The time of one forward and backward pass over random sequences."""
    import torch

    x = torch.randn(rows, LENGTH, width, device=device)
    dtype = getattr(torch, precision)
    kind = torch.device(device).type
    started = time.perf_counter()
    with torch.autocast(kind, dtype, enabled=precision != "float32"):
        y = block(x)
    loss = y.float().square().mean()
    loss.backward()
    value = loss.item()
    if kind != "cpu":
        torch.accelerator.synchronize()
    seconds = time.perf_counter() - started
    if not math.isfinite(value):
        raise ArithmeticError(f"the loss in {precision} is {value}")
    return seconds


def best_tflops(
    width: int, device: str, precision: str, multiply: "Product | None" = None
) -> float:
    """The best speed seen: whatever else runs on the machine can only make a step slower."""
    block = make_block(width, multiply).to(device)
    step_seconds(block, width, 1, device, precision)  # the first step also builds kernels
    rows, best, started = 1, 0.0, time.perf_counter()
    while True:
        seconds = step_seconds(block, width, rows, device, precision)
        # 2 forward + 4 backward, for each of 12·W² weights and of the 2·T·W products of attention.
        operations = 6 * rows * LENGTH * (12 * width**2 + 2 * LENGTH * width)
        best = max(best, operations / seconds / 1e12)
        if seconds < LONG_ENOUGH and rows < MOST_ROWS_PER_WIDTH * width:
            rows *= 2
        elif time.perf_counter() - started > BUDGET:
            return best


def faster_product(device: str, precision: str, kernel: str) -> "Product | None":
    """oneDNN's product, where training would use it."""
    import torch

    if (device, precision, kernel) != ("cpu", "float32", "onednn"):
        return None
    if not torch.backends.mkldnn.is_available():
        return None
    path = Path(__file__).parent.parent / "nn/onednn.py"
    spec = spec_from_file_location("onednn", path)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    product: Product = module.learned_product
    return product


def main() -> None:
    device, precision, thread_counts, kernel = sys.argv[1:]
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death here is no news: dump no core
    import torch

    if not sys.stdin.readline():
        return  # the parent is gone
    speeds, multiply = [], faster_product(device, precision, kernel)
    for threads in map(int, thread_counts.split(",")):
        torch.set_num_threads(threads)
        speeds += [
            (width, threads, best_tflops(width, device, precision, multiply)) for width in WIDTHS
        ]
    sys.stdout.write(json.dumps(speeds) + "\n")


if __name__ == "__main__":
    main()
