"""Normalisation: keep the scale of each position's vector steady from layer to layer."""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def norm(kind: NormKind, width: int, eps: float = 1e-5, bias: bool = True) -> nn.Module:
    """LayerNorm centres and scales; RMSNorm only scales, and has no bias."""
    if kind == "rms":
        return nn.RMSNorm(width, eps=eps)
    return nn.LayerNorm(width, eps=eps, bias=bias)
