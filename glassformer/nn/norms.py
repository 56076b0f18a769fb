"""Normalisation: keep the scale of each position's vector steady from layer to layer."""

from typing import Literal

from torch import Tensor, nn

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
