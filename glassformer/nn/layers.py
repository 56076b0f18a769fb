"""The layers around attention: token embedding, normalisation, feed-forward layer, dropout.

    embedding      a table of vectors, one for each token        (B, T) → (B, T, D)
    norm           LayerNorm or RMSNorm                          (B, T, D) → (B, T, D)
    feed-forward   down(activation(up(x)))                       (B, T, D) → (B, T, D)
                   down(silu(gate(x)) · up(x))                   SwiGLU
    dropout        x · keep / (1 - p), keep: 0 or 1 at random

`blocks.py` puts them together with attention.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.nn.linear import Linear, Merged
from glassformer.nn.observe import Tap

# --- embedding: a vector for each token, or for the numbers of each time step ---


class Embedding(nn.Embedding):
    """A table of vectors. A call can use others in their place (`observe.changing`)."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__(num_embeddings, embedding_dim)
        self.tap = Tap()
        """Passes the vectors that were looked up, (…, D)."""

    def forward(self, input: Tensor) -> Tensor:
        return self.tap.changed(super().forward(input))


def make_embedding(vocab_size: int | None, num_features: int | None, width: int) -> nn.Module:
    """(B, T) tokens → (B, T, width) by a table, or (B, T, F) numbers by a linear layer."""
    if num_features is not None:
        return Linear(num_features, width)
    if vocab_size is None:
        raise GlassformerError(
            "the model has no input size. Set vocab_size, the number of tokens, or num_features, "
            "the number of values per time step."
        )
    return Embedding(vocab_size, width)


# --- normalisation: keeps the scale of each position's vector steady from layer to layer ---

NormKind = Literal["layer", "rms"]


class RMSNorm(nn.RMSNorm):
    """x / √(mean(x²) + ε) · weight"""

    def forward(self, x: Tensor) -> Tensor:
        # Under autocast, `x` may be bfloat16 and the weights are not: torch's function warns, and
        # squares are better summed in float32 anyway.
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


def norm(kind: NormKind, width: int, eps: float = 1e-5, bias: bool = True) -> nn.Module:
    """LayerNorm centres and scales; RMSNorm only scales, and has no bias."""
    if kind == "rms":
        return RMSNorm(width, eps=eps)
    return nn.LayerNorm(width, eps=eps, bias=bias)


# --- feed-forward layer: a wider hidden layer, applied to each position on its own ---

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
        self.kind = activation
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


# --- dropout: each value is zeroed with probability p, the others are scaled up to compensate ---

BITS = 16  # random bits per value: p is exact to 1 in 65,536


class Dropout(nn.Dropout):
    """`nn.Dropout`, several times as fast on the CPU.

    There, PyTorch draws one random number per value, which takes longer than the layer before it.
    Here, one 64-bit draw serves four values.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not 0 < self.p < 1 or x.device.type != "cpu":
            return super().forward(x)
        steps = 2**BITS
        dropped = min(round(self.p * steps), steps - 1)
        draws = torch.empty(-(-x.numel() * BITS // 64), dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)  # from -2^15 to 2^15 - 1
        keep = bits >= dropped - steps // 2
        return x * keep.to(x.dtype).mul_(steps / (steps - dropped))


class WordDropout(nn.Module):
    """Drops whole tokens in training, so that no single word decides the prediction."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.share == 0:
            return x
        return x * F.dropout(x.new_ones(*x.shape[:2], 1), self.share)  # (B, T, D) · (B, T, 1)


# --- what the last layer returns ---


def refuse_nan(logits: Tensor) -> Tensor:
    """The logits; an error if any is NaN or ∞. -∞ is allowed: it means never."""
    # One pass: the largest of values with a NaN is NaN.
    if logits.numel() and not logits.amax() < math.inf:
        raise GlassformerError(
            "the model predicts NaN or infinity: its weights are damaged, or its training "
            "diverged. Use an earlier checkpoint."
        )
    return logits
