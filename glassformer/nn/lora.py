"""LoRA: a large model learns something new by a small, low-rank change of its matrices.

    y = W x + (alpha / rank) · B A x

W is frozen. A starts at random and B at zero, so that at first nothing changes.
"""

import math

import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.nn.attention import MultiHeadAttention

LINEAR = ("query", "key", "value", "output", "gate", "up", "down")  # attention and feed-forward


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.B = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        self.scale = alpha / rank
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.scale * (x @ self.A.T @ self.B.T)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        self.base.weight += self.scale * (self.B @ self.A)
        return self.base


def add_lora(model: nn.Module, rank: int, alpha: float, names: tuple[str, ...] = LINEAR) -> None:
    """Freeze all of `model` and let its linear layers of these names change.

    Of a classifier, pass the body: then the head beside it learns as before.
    """
    layers = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if name in names and isinstance(child, nn.Linear)
    ]
    if not layers:
        raise GlassformerError(f"no linear layer is called {' or '.join(names)}.")
    model.requires_grad_(False)
    for parent, name, base in layers:
        setattr(parent, name, LoRALinear(base, rank, alpha))
        if isinstance(parent, MultiHeadAttention):
            parent._merged = None  # one product for all three would pass the change by


def merge_lora(model: nn.Module) -> None:
    """Fold every change into its matrix: an ordinary model again, and none of it is frozen."""
    for parent in [*model.modules()]:
        for name, child in [*parent.named_children()]:
            if isinstance(child, LoRALinear):
                setattr(parent, name, child.merged())
    model.requires_grad_(True)
