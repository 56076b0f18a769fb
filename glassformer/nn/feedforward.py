"""The feed-forward layer: a wider hidden layer, applied to each position on its own.

plain    down(activation(up(x)))
SwiGLU   down(silu(gate(x)) · up(x))
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear, Merged

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "relu", "silu", "swiglu"]


def gelu_tanh(x: Tensor) -> Tensor:
    """GPT-2's own approximation: x · (1 + tanh z) / 2 = x · σ(2z), z = √(2/π) · (x + 0.044715 x³).

    Sigmoids are computed twice as fast as hyperbolic tangents.
    """
    if torch.is_grad_enabled():
        return F.gelu(x, approximate="tanh")
    factor = 2 * math.sqrt(2 / math.pi)
    return (
        torch.addcmul(x.new_tensor(factor), x, x, value=factor * 0.044715)
        .mul_(x)
        .sigmoid_()
        .mul_(x)
    )


_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": lambda x: x * (1.702 * x).sigmoid(),  # ImageGPT's
    "relu": F.relu,
    "silu": F.silu,  # Marian's
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """D → d_hidden → D, the same at every position."""

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        activation: Activation = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation = _FUNCTIONS[activation]
        self.gate = Linear(d_model, d_hidden, bias=bias) if activation == "swiglu" else None
        self.up = Linear(d_model, d_hidden, bias=bias)
        self.down = Linear(d_hidden, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        self._merged: Merged | None = None

    def merge(self) -> None:
        """Compute gate and up as one matrix product whenever gradients are off."""
        if self.gate is not None:
            self._merged = Merged(self.gate, self.up)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            hidden = self.activation(self.up(x))  # (B, T, d_hidden)
        elif self._merged is not None and self._merged.is_usable:
            gate, up = self._merged(x)
            hidden = self.activation(gate) * up  # (B, T, d_hidden)
        else:
            hidden = self.activation(self.gate(x)) * self.up(x)  # (B, T, d_hidden)
        return self.down(self.dropout(hidden))
