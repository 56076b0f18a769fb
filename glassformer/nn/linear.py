"""y = x Wᵀ + b, with a faster kernel for few rows and many weights.

Generation multiplies one row at a time by all weights, which is limited by memory bandwidth. There,
oneDNN's kernel is up to twice as fast as the one that `nn.Linear` uses, and one large matrix is
faster than three small ones. Small matrices fit in the CPU's cache, where the usual kernel is much
faster. The results are equal up to rounding.
"""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW_ROWS = 256
MANY_WEIGHTS = 2**20


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear`, with oneDNN's kernel where it is faster and gradients are off."""
    if _is_limited_by_memory(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _is_limited_by_memory(x: Tensor, weight: Tensor) -> bool:
    return (
        not torch.is_grad_enabled()
        and weight.numel() >= MANY_WEIGHTS
        and x.numel() <= FEW_ROWS * weight.size(1)
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and _has_onednn()
    )


@cache
def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """`nn.Linear` that computes with `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class Merged:
    """Several layers with the same input, computed as one matrix product.

    Their weights become views of one matrix: changing one changes the other. Gradients do not reach
    the layers, so this is for prediction only.
    """

    def __init__(self, *parts: nn.Linear) -> None:
        self._widths = [part.out_features for part in parts]
        self._weight = torch.cat([part.weight.data for part in parts])
        self._bias = None if parts[0].bias is None else torch.cat([p.bias.data for p in parts])
        for part, rows in zip(parts, self._weight.split(self._widths), strict=True):
            part.weight.data = rows
        if self._bias is not None:
            for part, rows in zip(parts, self._bias.split(self._widths), strict=True):
                part.bias.data = rows
        self._parts = parts
        self._places = self._now()

    @property
    def is_usable(self) -> bool:
        """False while gradients are on, and once a layer has been given other weights."""
        return not torch.is_grad_enabled() and self._now() == self._places

    def _now(self) -> list[int]:
        """Addresses of the layers' weights."""
        tensors = [tensor for part in self._parts for tensor in (part.weight, part.bias)]
        return [tensor.data_ptr() for tensor in tensors if tensor is not None]

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        return linear(x, self._weight, self._bias).split(self._widths, dim=-1)
