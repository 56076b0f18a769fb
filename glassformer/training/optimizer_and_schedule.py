"""The optimizer: which weights learn by Muon, which by AdamW, which decay; and the learning rate at
each step.

Muon: a matrix learns by updates that change all directions equally, not only the loudest ones.

    momentum ← β · momentum + (1 − β) · gradient
    update   = orthogonal(β · momentum + (1 − β) · gradient)          U Vᵀ of U S Vᵀ, about
    weight   ← weight · (1 − rate · decay) − rate · 0.2 √longer · update

The factor gives an update the size that one of AdamW has, so that both share one learning rate.
Embeddings, the head and all vectors are no maps from one space of features to another: AdamW moves
those, in the same optimizer.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from glassformer.machine.processes import local_part, sharded_like, whole
from glassformer.nn.linear import MANY_TO_LEARN, is_for_onednn, learns_by_onednn
from glassformer.nn.onednn import product
from glassformer.options import OptimizerKind, ScheduleKind
from glassformer.tasks.recipe import DecidedTraining
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import learning_shares

EMBEDDING_FACTOR = 30  # of SGD, for the rate of embeddings: each occurs in few examples
NON_MATRIX_FACTOR = 3  # beside Muon, for the rate of embeddings, head and vectors


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
    parts = side_parts(model)
    beside = {id(parameter) for part in parts for parameter in part.parameters()}
    inner = _inner_matrices(model) if kind == "muon" else set()
    by_settings: dict[tuple[bool, bool, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in beside:
            share = 1.0 if shares is None else shares.get(name, 1.0)
            by_settings[id(parameter) in inner, parameter.dim() >= 2, share].append(parameter)
    groups: list[dict[str, Any]] = []
    for (is_inner, is_matrix, share), parameters in sorted(
        by_settings.items(), key=lambda item: item[0], reverse=True
    ):
        factor = NON_MATRIX_FACTOR if kind == "muon" and not is_inner else 1
        group = {
            "params": parameters,
            "lr": learning_rate * share * factor,
            "weight_decay": weight_decay if is_matrix else 0.0,
        }
        groups.append(group | ({"muon": True} if is_inner else {}))
    for part in parts:
        groups += [group | {"plain": True} for group in _plain(part, part.gradient_rate)]
    # For both kinds: torch's own fused AdamW cannot be clipped by Lightning in fewer bits.
    return MuonAndAdamW(groups, lr=learning_rate, betas=betas)


def side_parts(model: nn.Module) -> list[Any]:
    """The parts of a model that learn by plain gradient steps at a rate of their own, whatever the
    rest of the model learns by: AdamW would make the weights of a rare word as large as those of a
    frequent one, which suits no bag of words."""
    return [part for part in model.modules() if hasattr(part, "gradient_rate")]


def clipped_together(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters by the part whose gradients are clipped together: a large gradient of one part
    does not make the steps of another smaller."""
    sides = [list(part.parameters()) for part in side_parts(model)]
    beside = {id(parameter) for part in sides for parameter in part}
    return [[weight for weight in model.parameters() if id(weight) not in beside], *sides]


def _plain(model: nn.Module, rate: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
    """The groups of parameters that learn by plain gradient steps."""
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    for table in tables:
        table.sparse = not weight_decay  # a step then changes only the rows of its own tokens
    of_tables = {id(table.weight) for table in tables}
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    rest = [weight for weight in learning if id(weight) not in of_tables]
    rare = [weight for weight in learning if id(weight) in of_tables]
    groups = [
        {"params": rare, "lr": rate * EMBEDDING_FACTOR, "weight_decay": weight_decay},
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


# --- Muon ---
# Newton–Schulz is our own, since torch's casts to bfloat16.

# x → a x + b x³ + c x⁵, one after the other: each brings the singular values that the one before
# left, at first [0.02, 1], as close to 1 as any such polynomial can. In the end: within 10 %. Those
# below 0.02 grow 55 times, the product of the a: 0.007 becomes 0.38.
POLYNOMIALS = ((7.7110, -22.1139, 16.2488), (3.2153, -2.4112, 0.5013), (2.2183, -1.5940, 0.4108))


def orthogonal(matrices: Tensor) -> Tensor:
    """Orthogonalize matrices (N, m, n) with m ≤ n: the singular values become about one.

    Within 10 % of one are those that were at least 2 % of (Σ σ⁴)^¼, a bound on the largest σ.
    Smaller ones stay below one, 55 times as large as they were beside that bound.

    Newton–Schulz: an odd polynomial of a matrix is that polynomial of its singular values. All in
    float32: bfloat16, usual here, is slow on most CPUs and deadly on some.
    """
    # The square of a tiny gradient is no float32 any more, and its fourth power far from one.
    x = matrices / matrices.abs().amax(dim=(-2, -1), keepdim=True).clamp(min=1e-38)
    gram = _times(x, x)  # (N, m, m)
    # Its norm bounds the largest singular value much closer than that of the matrix would.
    size = gram.norm(dim=(-2, -1), keepdim=True).sqrt() + 1e-12
    x, gram = x / size, gram / size / size
    for index, (a, b, c) in enumerate(POLYNOMIALS):
        if index:
            gram = _times(x, x)
        inner = _times(gram, gram).mul_(c).add_(gram, alpha=b)  # it is symmetric
        x = _times(inner, x.mT).add_(x, alpha=a)  # a x + (b · gram + c · gram²) x
    return x


def _times(one: Tensor, other: Tensor) -> Tensor:
    """one · otherᵀ for each pair of matrices: (N, m, k), (N, n, k) → (N, m, n)"""
    if is_for_onednn(one[0], other[0], MANY_TO_LEARN) and learns_by_onednn():
        return torch.stack([product(*pair) for pair in zip(one, other, strict=True)])
    return one @ other.mT


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for the groups with `muon` set, plain gradient steps for those with `plain` set, and
    AdamW for the others."""

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        momentum: float = 0.95,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "momentum": momentum, "weight_decay": 0.0}
        super().__init__(groups, settings | {"muon": False, "plain": False})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group = group | {"params": [p for p in group["params"] if p.grad is not None]}
            if group["muon"]:
                self._muon(group)
            elif group["plain"]:
                for weight in group["params"]:
                    local_part(weight).sub_(group["lr"] * local_part(weight.grad))  # may be sparse
            elif group["params"]:
                self._adamw(group)
        return loss

    def _muon(self, group: dict[str, Any]) -> None:
        # Of a sharded matrix the momentum stays in parts, but an update needs all of it.
        shapes: dict[Any, list[Tensor]] = defaultdict(list)
        for weight in group["params"]:
            shapes[tuple(sorted(_matrix(weight).shape)), weight.device].append(weight)
        for (shape, _), weights in shapes.items():
            ahead = [
                _wide(_matrix(whole(self._momentum_ahead(weight, group["momentum"]))))
                for weight in weights
            ]
            scale = -group["lr"] * 0.2 * shape[1] ** 0.5
            for weight, update in zip(weights, orthogonal(torch.stack(ahead)), strict=True):
                update = update.mT if _is_tall(_matrix(weight)) else update
                part = sharded_like(update.reshape(weight.shape), weight)
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                local_part(weight).add_(local_part(part), alpha=scale)

    def _momentum_ahead(self, weight: Tensor, beta: float) -> Tensor:
        """The momentum as it would be after one more step with the same gradient (Nesterov's)."""
        state, gradient = self.state[weight], weight.grad
        if gradient is None:
            raise ValueError("a weight without a gradient cannot be moved")
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(gradient, 1 - beta)
        return torch.lerp(gradient, state["momentum"], beta)

    def _adamw(self, group: dict[str, Any]) -> None:
        for weight in group["params"]:
            state = self.state[weight]
            if not state:
                state["step"] = torch.zeros((), device=weight.device)
                state["exp_avg"] = torch.zeros_like(weight)
                state["exp_avg_sq"] = torch.zeros_like(weight)
        states = [self.state[weight] for weight in group["params"]]
        beta1, beta2 = group["betas"]
        adamw(
            [local_part(weight) for weight in group["params"]],
            [local_part(weight.grad) for weight in group["params"]],
            [local_part(state["exp_avg"]) for state in states],
            [local_part(state["exp_avg_sq"]) for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=1e-8,
            maximize=False,
        )


def _is_tall(matrix: Tensor) -> bool:
    return matrix.size(0) > matrix.size(1)


def _matrix(weight: Tensor) -> Tensor:
    """The weight as a matrix from all inputs to all outputs; that of a convolution is flattened:
    (out, in, 3, 3) → (out, in · 9)."""
    return weight.flatten(1)


def _wide(matrix: Tensor) -> Tensor:
    return matrix.mT if _is_tall(matrix) else matrix


# --- the learning rate ---
# A pure function of the step: rise, then fall.
#
#     cosine    ╱⌒╲   half a wave
#     linear    ╱╲    a line
#     wsd       ╱─╲   full for most of the time, then a line (warm-up, stable, decay)
#     noam      ╱╲_   with the root of the step, as in "Attention is all you need"
#     constant  ╱──

STABLE = 0.6  # the part of a wsd schedule before it falls


def rate_of(config: DecidedTraining, step: int) -> float:
    """Share of the full learning rate at `step` (from 0) of a training.

    A time limit may change the plan on the way. The curve then bends but does not jump: the rest of
    the rise and of the fall is spread over the steps that are left.
    """
    risen = fallen = 0.0
    top = 0  # the first step with the full rate
    for plan, following in zip(config.plans, (*config.replans, None), strict=True):
        begin, last = plan.step - 1, step if following is None else min(step, following.step - 1)
        if risen < 1:  # so much of the rise is left for this plan
            begin = top = plan.step + int((1 - risen) * plan.warmup_steps)
            way = (last - plan.step + 1) / (top - plan.step + 1)
            risen = 1.0 if last >= top else risen + (1 - risen) * way
        # Complete at the step after the last: a step that changes nothing would be wasted.
        part = max(0, last - begin) / max(1, plan.max_steps - begin)
        fallen = min(1.0, fallen + (1 - fallen) * part)
        if last == step:
            break
    if risen < 1:
        return risen
    if config.lr_scheduler_type == "noam":
        return math.sqrt((top + 1) / (step + 1))
    return config.min_lr_rate + (1 - config.min_lr_rate) * _shape(config.lr_scheduler_type, fallen)


def _shape(kind: ScheduleKind, fallen: float) -> float:
    """The height of the curve when this share of the fall is over."""
    match kind:
        case "cosine":
            return (1 + math.cos(math.pi * fallen)) / 2
        case "linear":
            return 1 - fallen
        case "wsd":
            return min(1.0, (1 - fallen) / (1 - STABLE))
        case _:
            return 1.0
