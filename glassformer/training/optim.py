"""The optimizer of a model: what learns by Muon, what by AdamW, and what shrinks meanwhile."""

from typing import Any, Literal

import torch
from torch import nn

from glassformer.training.muon import MuonAndAdamW

OptimizerKind = Literal["muon", "adamw"]


BOLDER = 3  # beside Muon, embeddings, head and vectors learn this much faster than matrices


def make_optimizer(
    kind: OptimizerKind,
    model: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float],
) -> torch.optim.Optimizer:
    """Weight decay for matrices; none for biases and norms, whose size is their meaning."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    inner = _inner_matrices(model) if kind == "muon" else set()
    groups = _filled(
        {"params": [p for p in learned if id(p) in inner], "muon": True},
        {"params": [p for p in learned if id(p) not in inner and p.dim() >= 2]},
        {"params": [p for p in learned if p.dim() < 2]},
    )
    for group in groups:
        group["weight_decay"] = weight_decay if group["params"][0].dim() >= 2 else 0.0
    if kind == "muon":
        for group in groups:
            group["lr"] = learning_rate * (1 if group.get("muon") else BOLDER)
    # For both kinds: torch's own fused AdamW cannot be clipped by Lightning in fewer bits.
    return MuonAndAdamW(groups, lr=learning_rate, betas=betas)


def _inner_matrices(model: nn.Module) -> set[int]:
    """Those that map features to features: of all linear layers but the head."""
    head = getattr(model, "head", None)
    linear = (module for module in model.modules() if isinstance(module, nn.Linear))
    return {id(module.weight) for module in linear if module is not head}


def _filled(*groups: dict[str, Any]) -> list[dict[str, Any]]:
    return [group for group in groups if group["params"]]
