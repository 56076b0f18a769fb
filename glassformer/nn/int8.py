"""Linear layers with 8-bit weights: a quarter of the memory to read, and so several times as fast.

    q     = round(w / scale)            int8, from -127 to 127
    scale = max |w| / 127               one for each row of W
    y     = (x qᵀ) · scale + b

Generation on a CPU is limited by how fast the weights are read. x keeps the accuracy of float32, so
that a row does not depend on those beside it (`int8_kernels.py`). Only linear layers are quantised:
embeddings, norms and positions stay float32, as does the embedding matrix of a model whose output
layer shares its weights. Quantised layers are for prediction: they have no gradients.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.nn.blocks import Block
from glassformer.nn.int8_kernels import KERNELS, int8_kernel
from glassformer.nn.linear import Linear

KINDS = ("int8",)
LARGEST_WEIGHT = 127


class QuantizedLinear(nn.Module):
    """`Linear` with int8 weights. They are packed for the machine's kernel when first used."""

    by_row = ("weight", "scale", "bias")
    """Tensors with an entry for each output."""
    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight)  # (out, in)
        self.register_buffer("scale", scale)  # (out,)
        self.register_buffer("bias", bias)  # (out,)
        self._packed: Any = None

    @classmethod
    @torch.no_grad()
    def of(cls, layer: nn.Linear) -> "QuantizedLinear":
        """A layer with its weights rounded."""
        weight, bias = layer.weight, layer.bias
        if weight.is_meta:  # shapes only: the weights will come from a file
            return cls(weight.to(torch.int8), weight[:, 0], bias)
        # A row of zeros has any scale.
        scale = (weight.abs().amax(dim=1) / LARGEST_WEIGHT).clamp(
            min=torch.finfo(weight.dtype).tiny
        )
        rounded = (weight / scale[:, None]).round_().to(torch.int8)
        return cls(rounded, scale, None if bias is None else bias.detach())

    @classmethod
    def product(cls, weight: Tensor, scale: Tensor, bias: Tensor | None) -> "QuantizedLinear":
        return cls(weight, scale, bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) → (…, out)"""
        if x.requires_grad and torch.is_grad_enabled():  # of inputs, for attribution
            return F.linear(x, self.weight * self.scale[:, None], self.bias)
        kernel = KERNELS[int8_kernel()]
        if self._packed is None:
            self._packed = kernel.pack(self.weight, self.scale)
        return kernel.multiply(x, self._packed, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, int8"


def quantizable(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Linear]]:
    """The layers that are quantised: those of Transformer blocks, and the output layer over a
    vocabulary, if there is one. Each with its name, its parent and its name there."""
    blocks = {name: module for name, module in model.named_modules() if isinstance(module, Block)}
    for place, block in blocks.items():
        for inside, parent in block.named_modules():
            for key, child in parent.named_children():
                if isinstance(child, Linear):
                    yield ".".join(filter(None, (place, inside, key))), parent, key, child
    for key in getattr(model, "vocabulary_layers", ()) if blocks else ():
        if isinstance(child := getattr(model, key, None), Linear):
            yield key, model, key, child


def quantize(model: nn.Module, names: set[str] | None = None) -> None:
    """Replace the linear layers of a model, or those with these names, by quantised ones."""
    layers = list(quantizable(model))
    if not layers and not is_quantized(model):
        raise GlassformerError(
            "this model cannot be quantised: it has no Transformer blocks. Leave out --quantize."
        )
    for name, parent, key, layer in layers:
        if names is None or name in names:
            setattr(parent, key, QuantizedLinear.of(layer))


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(module, QuantizedLinear) for module in model.modules())
