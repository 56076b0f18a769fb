"""The optimizer of a model: which weights learn by Muon, which by AdamW, and which decay.

A part of a model that has a `gradient_rate` learns by plain gradient steps at that rate, whatever
the rest of the model learns by: AdamW would make the weights of a rare word as large as those of a
frequent one, which suits no bag of words.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from glassformer.options import OptimizerKind
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import learning_shares
from glassformer.training.muon import MuonAndAdamW

RARER = 30  # by gradient descent, embeddings learn this much faster: each is in few examples
BOLDER = 3  # beside Muon, embeddings, head and vectors learn this much faster than matrices


def optimizer_of(objective: Objective, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that a recipe asks for. Its groups remember their highest learning rate, a
    share of which is the rate of each step."""
    config = objective.config
    optimizer = make_optimizer(
        config.optimizer,
        model,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        betas=(config.adam_beta1, config.adam_beta2),
        shares=learning_shares(objective.recipe, model),
    )
    for group in optimizer.param_groups:
        group["highest_lr"] = group["lr"]
    return optimizer


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
        return torch.optim.SGD(_plain(model, learning_rate, weight_decay), lr=learning_rate)
    sides = side_parts(model)
    beside = {id(parameter) for part in sides for parameter in part.parameters()}
    inner = _inner_matrices(model) if kind == "muon" else set()
    alike: dict[tuple[bool, bool, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in beside:
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
    for part in sides:
        groups += [group | {"plain": True} for group in _plain(part, part.gradient_rate)]
    # For both kinds: torch's own fused AdamW cannot be clipped by Lightning in fewer bits.
    return MuonAndAdamW(groups, lr=learning_rate, betas=betas)


def side_parts(model: nn.Module) -> list[Any]:
    """The parts of a model that learn by plain gradient steps at a rate of their own."""
    return [part for part in model.modules() if hasattr(part, "gradient_rate")]


def clipped_together(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters by the part whose gradients are clipped together: a large gradient of one part
    does not make the steps of another smaller."""
    sides = [list(part.parameters()) for part in side_parts(model)]
    beside = {id(parameter) for part in sides for parameter in part}
    return [[each for each in model.parameters() if id(each) not in beside], *sides]


def _plain(model: nn.Module, rate: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
    """The groups of gradient steps."""
    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    for table in tables:
        table.sparse = not weight_decay  # a step then changes only the rows of its own tokens
    of_tables = {id(table.weight) for table in tables}
    learning = [each for each in model.parameters() if each.requires_grad]
    rest = [each for each in learning if id(each) not in of_tables]
    rare = [each for each in learning if id(each) in of_tables]
    groups = [
        {"params": rare, "lr": rate * RARER, "weight_decay": weight_decay},
        {"params": rest, "lr": rate, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _inner_matrices(model: nn.Module) -> set[int]:
    """The matrices that map features to features: of linear layers and convolutions, not the head.
    By AdamW, the convolutions that read pixels learn several times more slowly."""
    head = getattr(model, "head", None)
    kinds = (nn.Linear, nn.Conv2d)
    maps = (module for module in model.modules() if isinstance(module, kinds))
    return {id(module.weight) for module in maps if module is not head}
