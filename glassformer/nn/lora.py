"""LoRA: fine-tune a large model by a low-rank update of its weight matrices.

    y = W x + s · B A dropout(x)        s = alpha / rank, or alpha / √rank (rank-stabilised)

W is frozen. A is initialised at random and B to zero, so that the model starts unchanged. Before it
is saved, the update is added to W (`merge_lora`): the saved model is an ordinary one.
"""

import math

import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.layers import Dropout, FeedForward

LINEAR = ("query", "key", "value", "output", "gate", "up", "down")  # attention and feed-forward


def lora_scale(rank: int, alpha: float, use_rslora: bool) -> float:
    """s in y = W x + s · B A x."""
    return alpha / (math.sqrt(rank) if use_rslora else rank)


class LoRALinear(nn.Module):
    """A frozen linear layer, and a trainable update of low rank."""

    def __init__(
        self,
        base: nn.Linear,
        rank: int,
        alpha: float,
        dropout: float = 0.0,
        use_rslora: bool = False,
    ) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.B = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        self.scale = lora_scale(rank, alpha, use_rslora)
        self.dropout = Dropout(dropout)
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.scale * (self.dropout(x) @ self.A.T @ self.B.T)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The layer itself, with the update added to its weights."""
        self.base.weight += self.scale * (self.B @ self.A)
        return self.base


def add_lora(
    model: nn.Module,
    rank: int,
    alpha: float,
    names: tuple[str, ...] = LINEAR,
    dropout: float = 0.0,
    use_rslora: bool = False,
) -> None:
    """Freeze `model`, and add a trainable update to its linear layers of these names.

    Pass only the body of a classifier, so that its head stays trainable.
    """
    layers = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if name in names and isinstance(child, nn.Linear)
    ]
    if not layers:
        raise GlassformerError(f"the model has no linear layer named {' or '.join(names)}.")
    model.requires_grad_(False)
    for parent, name, base in layers:
        setattr(parent, name, LoRALinear(base, rank, alpha, dropout, use_rslora))
        if isinstance(parent, MultiHeadAttention | FeedForward):
            parent._merged = None  # the merged projection would bypass the update


def lora_layers(model: nn.Module) -> dict[str, LoRALinear]:
    """The updated layers by name."""
    return {name: part for name, part in model.named_modules() if isinstance(part, LoRALinear)}


def merge_lora(model: nn.Module) -> None:
    """Fold every update into its matrix, which gives an ordinary model with no frozen weights."""
    for parent in [*model.modules()]:
        for name, child in [*parent.named_children()]:
            if isinstance(child, LoRALinear):
                setattr(parent, name, child.merged())
    model.requires_grad_(True)
