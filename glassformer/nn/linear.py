"""y = x Wᵀ + b, with a faster way for few rows and many weights.

While text is being written, one row at a time meets all the weights, and the product waits for them
to come from memory. There oneDNN's kernel reads them up to twice as fast as the one that
`nn.Linear` would take, and one large matrix comes faster than three small ones. Small matrices stay
in the cache, and there the usual kernel is the faster one, by far. The results are the same up to
rounding.
"""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW_ROWS = 256
MANY_WEIGHTS = 2**20


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear`, and nothing else as soon as gradients are wanted."""
    if _waits_for_weights(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _waits_for_weights(x: Tensor, weight: Tensor) -> bool:
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
    """`nn.Linear` by way of `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class Merged:
    """Several layers that read the same input, as one product.

    Their weights become rows of one matrix and stay their own: what changes one changes the other.
    Gradients would not find the way back, so this is for prediction.
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
        """Not when gradients are wanted, nor when a layer got other weights since."""
        return not torch.is_grad_enabled() and self._now() == self._places

    def _now(self) -> list[int]:
        """Where in memory the layers' weights are."""
        biases = [part.bias for part in self._parts if part.bias is not None]
        return [tensor.data_ptr() for tensor in (*(p.weight for p in self._parts), *biases)]

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        return linear(x, self._weight, self._bias).split(self._widths, dim=-1)
