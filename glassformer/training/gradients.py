"""The size of a gradient: whether it is finite, and how it is clipped."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from glassformer.runtime.divided import own_part, whole


def are_finite(parameters: Iterable[nn.Parameter]) -> bool:
    return bool(_norm(_numbers(parameters)).isfinite())


def clip(parameters: Iterable[nn.Parameter], most: float) -> None:
    """Scale all gradients together so that their norm is at most so much."""
    numbers = _numbers(parameters)
    share = (most / (_norm(numbers) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([own_part(each) for each in numbers], share)


def _norm(numbers: list[Tensor]) -> Tensor:
    return whole(get_total_norm(numbers))


def _numbers(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """The numbers of each gradient; of a sparse one, those of the rows that it has."""
    numbers = []
    for parameter in parameters:
        if (gradient := parameter.grad) is None:
            continue
        if gradient.is_sparse:
            gradient = parameter.grad = gradient.coalesce()  # each row once
        numbers.append(gradient.values() if gradient.is_sparse else gradient)
    return numbers
