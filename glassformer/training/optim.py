"""The optimizer: AdamW, which shrinks matrices a little at each step and leaves vectors alone."""

import torch
from torch import nn


def adamw(
    model: nn.Module, *, learning_rate: float, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    """Weight decay for matrices; none for biases and norms, whose size is their meaning."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in learned if parameter.dim() >= 2]
    vectors = [parameter for parameter in learned if parameter.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)
