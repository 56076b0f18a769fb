"""Pooling: one vector from the vectors of a sequence, (B, T, D) → (B, D)."""

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["mean", "max", "first", "last"]


def pool(x: Tensor, is_text: Tensor | None = None, pooling: Pooling = "mean") -> Tensor:
    """Pool the real positions of each row, which `is_text` (B, T) marks; None: all are real.

    The mean and the maximum of a row without real positions are zero.
    """
    if pooling == "first":
        return x[:, 0]
    if is_text is None:
        if pooling == "last":
            return x[:, -1]
        return x.mean(dim=1) if pooling == "mean" else x.amax(dim=1)
    if pooling == "last":  # padding is on the right
        last = (is_text.sum(dim=1) - 1).clamp(min=0)  # (B,)
        return x[torch.arange(x.size(0), device=x.device), last]
    real = is_text[..., None]  # (B, T, 1)
    if pooling == "mean":
        return x.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    largest = x.masked_fill(~real, -torch.inf).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1), 0)
