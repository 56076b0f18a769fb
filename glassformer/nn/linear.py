"""y = x Wᵀ + b, with a faster kernel for large products.

oneDNN's kernel reads weights from memory up to twice as fast as the one that `nn.Linear` uses, and
on some processors it has wider instructions: more than twice as many products a second. Small
products end before this pays off. For several sequences, the kernel gets the weights in a layout of
its own (`Packed`). One large matrix is faster than three small ones (`Merged`). The results are
equal up to rounding.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.machine.precision import float32_kernel
from glassformer.nn.onednn import learned_product, product

MANY_PRODUCTS = 2**20  # of a row and a column: one row and a million weights, 16 rows and 256 × 256
MANY_TO_LEARN = 2**24  # with gradients, where a product in Python costs a little more
ROWS_PACKED_FOR = 16


class Packed:
    """A copy of a weight in the layout of oneDNN's kernel, made when first needed.

    Without it, the kernel would rearrange the weights in every call. It takes as much memory as the
    weight, so only models that are used for prediction have it, and only once they process several
    sequences at a time.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, int] | None = None

    def __call__(self, weight: Tensor) -> Tensor:
        now = weight.data_ptr(), 0 if weight.is_inference() else weight._version
        if self._seen != now:
            self._copy = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS_PACKED_FOR)
            self._seen = now
        return self._copy


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, packed: Packed | None = None) -> Tensor:
    """`F.linear`, with oneDNN's kernel where it is faster."""
    if not _may_be_faster(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return learned_product(x, weight, bias)
    if packed is not None and len(x) > 1:
        weight = packed(weight)
    return product(x, weight, bias)


def _may_be_faster(x: Tensor, weight: Tensor) -> bool:
    if torch.is_grad_enabled():
        return is_for_onednn(x, weight, MANY_TO_LEARN) and learns_by_onednn()
    return is_for_onednn(x, weight, MANY_PRODUCTS)


def is_for_onednn(x: Tensor, weight: Tensor, least: int) -> bool:
    """Whether oneDNN's kernel can compute x Wᵀ, and it has at least so many multiplications."""
    return (
        x.numel() * weight.size(0) >= least
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.compiler.is_exporting()
        and not torch.is_autocast_enabled("cpu")
        and has_onednn()
    )


@cache
def has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def learns_by_onednn() -> bool:
    """Whether products with gradients are oneDNN's, too: only where torch's own leave half of the
    processor idle, since they have less to copy. That is a rule about processors, not a
    measurement, so that a run gives the same bytes whenever it is repeated."""
    return has_onednn() and float32_kernel() == "onednn"


class Linear(nn.Linear):
    """`nn.Linear` that computes with `linear`."""

    by_row = ("weight", "bias")
    """Tensors with an entry for each output."""
    packed: Packed | None = None

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias, self.packed)

    @staticmethod
    def product(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        """The function of a layer with these weights."""
        return partial(linear, weight=weight, bias=bias, packed=Packed())


class Merged:
    """Several layers with the same input, computed as one matrix product.

    Their weights become views of one matrix: changing one changes the other. Gradients do not reach
    the layers, so this is for prediction only.
    """

    def __init__(self, *parts: Any) -> None:
        self._widths = [part.out_features for part in parts]
        self._parts = parts
        whole: dict[str, Tensor | None] = dict.fromkeys(parts[0].by_row)
        for name in whole:
            tensors = [getattr(part, name) for part in parts]
            if tensors[0] is not None:
                whole[name] = together = _together([tensor.data for tensor in tensors])
                for tensor, rows in zip(tensors, together.split(self._widths), strict=True):
                    tensor.data = rows
        self._product = parts[0].product(**whole)
        self._places = self._now()

    @property
    def is_usable(self) -> bool:
        """False while gradients are on or the model is exported, and once a layer has been given
        other weights."""
        if torch.is_grad_enabled() or torch.compiler.is_exporting():
            return False
        return self._now() == self._places

    def _now(self) -> list[int]:
        """Addresses of the layers' weights."""
        tensors = [getattr(part, name) for part in self._parts for name in part.by_row]
        return [tensor.data_ptr() for tensor in tensors if tensor is not None]

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        return self._product(x).split(self._widths, dim=-1)


def _together(parts: list[Tensor]) -> Tensor:
    """The rows of all parts in one tensor: a copy, unless they already are the rows of one."""
    first, total = parts[0], sum(len(part) for part in parts)
    storage, place = first.untyped_storage().data_ptr(), first.data_ptr()
    for part in parts:
        follows = part.data_ptr() == place and part.untyped_storage().data_ptr() == storage
        if not follows or not part.is_contiguous():
            return torch.cat(parts)
        place += part.nbytes
    return first.as_strided((total, *first.shape[1:]), first.stride())


def pack_weights(model: nn.Module) -> None:
    """Let the linear layers of a model keep packed copies of their weights, for prediction."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.packed = Packed()
