"""The optimizer of a model: which weights learn by Muon, which by AdamW, and which decay."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from glassformer.tasks.recipe import OptimizerKind
from glassformer.training.muon import MuonAndAdamW

RARER = 30  # by gradient descent, embeddings learn this much faster: each is in few examples
BOLDER = 3  # beside Muon, embeddings, head and vectors learn this much faster than matrices


def make_optimizer(
    kind: OptimizerKind,
    model: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float],
    shares: Mapping[str, float] | None = None,
) -> torch.optim.Optimizer:
    """Weight decay for matrices; none for biases and norms, whose size is their meaning.

    `shares` has the parameters, by name, that learn at a part of the learning rate.
    """
    if kind == "sgd":
        return _sgd(model, learning_rate, weight_decay)
    inner = _inner_matrices(model) if kind == "muon" else set()
    alike: dict[tuple[bool, bool, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            share = 1.0 if shares is None else shares.get(name, 1.0)
            alike[id(parameter) in inner, parameter.dim() >= 2, share].append(parameter)
    groups: list[dict[str, Any]] = []
    for (is_inner, is_matrix, share), parameters in sorted(
        alike.items(), key=lambda item: item[0], reverse=True
    ):
        bolder = BOLDER if kind == "muon" and not is_inner else 1
        group = {
            "params": parameters,
            "lr": learning_rate * share * bolder,
            "weight_decay": weight_decay if is_matrix else 0.0,
        }
        groups.append(group | ({"muon": True} if is_inner else {}))
    # For both kinds: torch's own fused AdamW cannot be clipped by Lightning in fewer bits.
    return MuonAndAdamW(groups, lr=learning_rate, betas=betas)


def _sgd(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    for table in tables:
        table.sparse = not weight_decay  # a step then changes only the rows of its own tokens
    of_tables = {id(table.weight) for table in tables}
    learning = [each for each in model.parameters() if each.requires_grad]
    rest = [each for each in learning if id(each) not in of_tables]
    rare = [each for each in learning if id(each) in of_tables]
    groups = [
        {"params": rare, "lr": learning_rate * RARER, "weight_decay": weight_decay},
        {"params": rest, "lr": learning_rate, "weight_decay": 0.0},
    ]
    return torch.optim.SGD([group for group in groups if group["params"]], lr=learning_rate)


def _inner_matrices(model: nn.Module) -> set[int]:
    """Those that map features to features: of all linear layers and convolutions but the head. By
    AdamW, the convolutions that read pixels learn several times more slowly."""
    head = getattr(model, "head", None)
    kinds = (nn.Linear, nn.Conv2d)
    maps = (module for module in model.modules() if isinstance(module, kinds))
    return {id(module.weight) for module in maps if module is not head}
