"""Dropout: each number is dropped with probability p, the others grow to make up for it.

    y = x · keep / (1 - p)      keep: 1 with probability 1 - p, else 0

PyTorch draws a whole random number for each of `keep` on the CPU, which takes longer than the layer
that is dropped from. Four of them fit into the 64 bits of one draw.
"""

import torch
from torch import Tensor, nn

BITS = 16  # of chance for each number: p is exact to 1 in 65,536


class Dropout(nn.Dropout):
    """`nn.Dropout`, several times as fast on the CPU."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not 0 < self.p < 1 or x.device.type != "cpu":
            return super().forward(x)
        steps = 2**BITS
        dropped = min(round(self.p * steps), steps - 1)
        keep = _random_bits(x.numel()).view(x.shape) >= dropped - steps // 2
        return x * keep.to(x.dtype).mul_(steps / (steps - dropped))


def _random_bits(count: int) -> Tensor:
    """So many random numbers from -2^15 to 2^15 - 1."""
    draws = torch.empty(-(-count * BITS // 64), dtype=torch.int64)
    return draws.random_(-(2**63), None).view(torch.int16)[:count]
