"""The optimizer: AdamW, which shrinks matrices a little at each step and leaves vectors alone."""

from collections.abc import Iterable

import torch
from torch import nn


def adamw(
    model: nn.Module, *, learning_rate: float, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    """Weight decay for matrices; none for biases and norms, whose size is their meaning."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": _with_dimensions(parameters, 2), "weight_decay": weight_decay},
        {"params": _with_dimensions(parameters, 1), "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)


def _with_dimensions(parameters: Iterable[nn.Parameter], dimensions: int) -> list[nn.Parameter]:
    """Matrices (2, and all above) or vectors (1, and all below)."""
    return [p for p in parameters if (p.dim() >= 2) == (dimensions == 2)]
