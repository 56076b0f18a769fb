"""Tensors of which every process has a part (torch's DTensor), and those that are whole."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def is_divided(tensor: "Tensor") -> bool:
    return hasattr(tensor, "full_tensor")  # the class itself takes long to import


def whole(tensor: "Tensor") -> "Tensor":
    """All of a tensor. If it is divided, all processes have to ask."""
    divided: Any = tensor
    return divided.full_tensor() if is_divided(tensor) else tensor


def own_part(tensor: "Tensor") -> "Tensor":
    """The part of a tensor that this process has: changing it changes the tensor."""
    divided: Any = tensor
    return divided.to_local() if is_divided(tensor) else tensor


def divided_like(tensor: "Tensor", other: "Tensor") -> "Tensor":
    """A whole tensor, divided as `other` is."""
    if not is_divided(other) or is_divided(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    like: Any = other
    there = tensor.to(other.device)
    # Every process has the whole: nothing needs to be sent.
    return distribute_tensor(there, like.device_mesh, like.placements, src_data_rank=None)
