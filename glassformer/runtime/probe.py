"""One precision, tried in a process that may die of it.

    python probe.py DEVICE PRECISION THREADS[,THREADS...]

Some processors advertise instructions that trap when used: no exception, the process is gone. So
each precision is tried in a child, by what training does (a feed-forward layer, forward and
backward, under autocast). The child waits for a line on stdin, measures, and prints
[[threads, TFLOP/s], ...] as JSON.

This file runs as a script and imports nothing of glassformer: whatever is wrong with the parent's
search path, working directory or threads cannot follow it here.
"""

import contextlib
import json
import math
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

WIDTH = 512
FEWEST_TOKENS, MOST_TOKENS = 64, 16_384
LONG_ENOUGH = 0.03  # seconds: a shorter step measures the clock and the launch, not the arithmetic
BUDGET = 0.6  # seconds of measuring, warm-up apart


def step_seconds(layer: "nn.Module", tokens: int, device: str, precision: str) -> float:
    """The time of one forward and backward pass over `tokens` random vectors."""
    import torch

    x = torch.randn(tokens, WIDTH, device=device)
    dtype = getattr(torch, precision)
    kind = torch.device(device).type
    started = time.perf_counter()
    with torch.autocast(kind, dtype, enabled=precision != "float32"):
        y = layer(x)
    loss = y.float().square().mean()
    loss.backward()
    value = loss.item()
    if kind != "cpu":
        torch.accelerator.synchronize()
    seconds = time.perf_counter() - started
    if not math.isfinite(value):
        raise ArithmeticError(f"the loss in {precision} is {value}")
    return seconds


def best_tflops(device: str, precision: str) -> float:
    """The best speed seen: whatever else runs on the machine can only make a step slower."""
    from torch import nn

    layer = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
    layer.to(device)
    step_seconds(layer, FEWEST_TOKENS, device, precision)  # the first step also builds kernels
    tokens, best, started = FEWEST_TOKENS, 0.0, time.perf_counter()
    while True:
        seconds = step_seconds(layer, tokens, device, precision)
        operations = 6 * tokens * 8 * WIDTH**2  # 2 forward + 4 backward, for each of 8·W² weights
        best = max(best, operations / seconds / 1e12)
        if seconds < LONG_ENOUGH and tokens < MOST_TOKENS:
            tokens *= 2
        elif time.perf_counter() - started > BUDGET:
            return best


def main() -> None:
    device, precision, thread_counts = sys.argv[1:]
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death here is no news: dump no core
    import torch

    if not sys.stdin.readline():
        return  # the parent is gone
    speeds = []
    for threads in map(int, thread_counts.split(",")):
        torch.set_num_threads(threads)
        speeds.append((threads, best_tflops(device, precision)))
    sys.stdout.write(json.dumps(speeds) + "\n")


if __name__ == "__main__":
    main()
