"""A linear classifier on fixed features: multinomial logistic regression by L-BFGS.

loss = mean of -log softmax(W x + b)[label] + penalty / 2 · |W|²
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

STEPS = 60


class Linear(NamedTuple):
    """Weights (C, D) and biases (C,)."""

    weight: Tensor
    bias: Tensor

    def logits(self, features: Tensor) -> Tensor:
        return F.linear(features, self.weight, self.bias)


def fit_linear(features: Tensor, targets: Tensor, num_labels: int, penalty: float) -> Linear:
    """Features (N, D), which should have mean 0 and deviation 1, and labels (N,)."""
    weight = torch.zeros(num_labels, features.size(1), requires_grad=True)
    bias = torch.zeros(num_labels, requires_grad=True)
    search = torch.optim.LBFGS((weight, bias), max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = F.cross_entropy(F.linear(features, weight, bias), targets)
        loss = loss + penalty / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        search.step(closure)
    return Linear(weight.detach(), bias.detach())
