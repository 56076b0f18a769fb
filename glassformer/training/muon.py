"""Muon: a matrix learns by updates that change all directions equally, not only the loudest ones.

    momentum ← β · momentum + (1 − β) · gradient
    update   = orthogonal(β · momentum + (1 − β) · gradient)          U Vᵀ of U S Vᵀ, about
    weight   ← weight · (1 − rate · decay) − rate · 0.2 √longer · update

The factor gives an update the size that one of AdamW has, so that both share one learning rate.
Embeddings, the head and all vectors are no maps from one space of features to another: AdamW moves
those, in the same optimizer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from glassformer.nn.linear import MANY_TO_LEARN, is_for_onednn, learns_by_onednn
from glassformer.nn.onednn import product
from glassformer.runtime.divided import divided_like, own_part, whole

# x → a x + b x³ + c x⁵, one after the other: each brings the singular values that the one before
# left, at first [0.02, 1], as close to 1 as any such polynomial can. In the end: within 10 %. Those
# below 0.02 grow 55 times, the product of the a: 0.007 becomes 0.38.
POLYNOMIALS = (
    (7.7110, -22.1139, 16.2488),
    (3.2153, -2.4112, 0.5013),
    (2.2183, -1.5940, 0.4108),
)


def orthogonal(matrices: Tensor) -> Tensor:
    """The same singular vectors with singular values about one: (N, m, n) with m ≤ n.

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
    for number, (a, b, c) in enumerate(POLYNOMIALS):
        if number:
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
                    own_part(weight).sub_(group["lr"] * own_part(weight.grad))  # may be sparse
            elif group["params"]:
                self._adamw(group)
        return loss

    def _muon(self, group: dict[str, Any]) -> None:
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
                own = divided_like(update.reshape(weight.shape), weight)
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                own_part(weight).add_(own_part(own), alpha=scale)

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
            [own_part(weight) for weight in group["params"]],
            [own_part(weight.grad) for weight in group["params"]],
            [own_part(state["exp_avg"]) for state in states],
            [own_part(state["exp_avg_sq"]) for state in states],
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
    """The same numbers, from all inputs to all outputs; a convolution has those of each place:
    (out, in, 3, 3) → (out, in · 9)."""
    return weight.flatten(1)


def _wide(matrix: Tensor) -> Tensor:
    return matrix.mT if _is_tall(matrix) else matrix
