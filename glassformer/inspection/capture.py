"""What a stack of blocks computes on an input, layer by layer, as plain arrays.

    with capturing(model.blocks) as seen:
        model(ids)
    seen.attention, seen.hidden                 (L, H, T, S), (N + 1, T, D)

The model runs as always. The weights are computed beside it, only for the layers asked for, and
only the heads asked for are kept.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.errors import UsageError
from glassformer.nn.blocks import Stack
from glassformer.nn.observe import listening

Array = NDArray[np.float32]


class Capture:
    """What was heard, for the first row of the batch; L and H are the layers and heads asked for,
    N all layers, G heads of keys and values."""

    def __init__(self, stack: Stack, layers: Sequence[int] | None, heads: Sequence[int] | None):
        self.layers = chosen("layer", layers, len(stack))
        self.heads = chosen("head", heads, stack.attentions[0].num_heads)
        self.weights: list[list[Tensor]] = []
        self.cross_weights: list[list[Tensor]] = []
        self.vectors: list[list[Tensor]] = []
        self.cross_vectors: list[list[Tensor]] = []
        self.biases: list[Tensor] = []
        self.states: list[Tensor] = []

    @property
    def attention(self) -> Array:
        """(L, H, T, S) how much each query attends to each key; rows sum to one."""
        return _stacked([heard[-1] for heard in self.weights])

    @property
    def cross_attention(self) -> Array | None:
        """(L, H, T, S) the same for the memory of a decoder, if it has one."""
        return _stacked([heard[-1] for heard in self.cross_weights]) if self.cross_weights else None

    @property
    def queries(self) -> Array:
        """(L, H, T, d)"""
        return _stacked([heard[-3][self.heads] for heard in self.vectors])

    @property
    def keys(self) -> Array:
        """(L, G, S, d)"""
        return _stacked([heard[-2] for heard in self.vectors])

    @property
    def values(self) -> Array:
        """(L, G, S, d)"""
        return _stacked([heard[-1] for heard in self.vectors])

    @property
    def cross(self) -> tuple[Array, Array, Array] | None:
        """Queries (L, H, T, d), keys and values (L, G, S, d) of the attention to the memory."""
        if not self.cross_vectors:
            return None
        queries, keys, values = zip(*(heard[-3:] for heard in self.cross_vectors), strict=True)
        return _stacked([query[self.heads] for query in queries]), _stacked(keys), _stacked(values)

    @property
    def bias(self) -> Array | None:
        """(H, T, S) what relative positions add to the scores, the same in all layers."""
        return self.biases[-1].float().cpu().numpy() if self.biases else None

    @property
    def hidden(self) -> Array:
        """(N + 1, T, D) the states before the first block and after each block."""
        return _stacked(self.states)


@contextmanager
def capturing(
    stack: Stack, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> Iterator[Capture]:
    """Observe the calls of a stack inside the `with` block; the last call counts."""
    seen = Capture(stack, layers, heads)
    own = [stack.attentions[layer] for layer in seen.layers]
    all_cross = stack.cross_attentions
    cross = [all_cross[layer] for layer in seen.layers] if all_cross else []

    def some(weights: Tensor) -> Tensor:
        return weights[0, seen.heads].clone()  # a view would keep all heads in memory

    with (
        listening([each.tap for each in own], some) as weights,
        listening([each.tap for each in cross], some) as cross_weights,
        listening([each.vectors for each in own], lambda each: each[0]) as vectors,
        listening([each.vectors for each in cross], lambda each: each[0]) as cross_vectors,
        listening([each.bias_tap for each in own[:1]]) as biases,
        listening([stack.tap], lambda states: states[0]) as (states,),
    ):
        yield seen
    seen.weights, seen.cross_weights = weights, cross_weights
    seen.vectors, seen.cross_vectors = vectors, cross_vectors
    seen.biases = biases[0] if biases else []
    seen.states = states[-len(stack) - 1 :]


def chosen(what: str, numbers: Sequence[int] | None, count: int) -> list[int]:
    """The layers or heads asked for; None: all of them."""
    for number in numbers or ():
        if not 0 <= number < count:
            raise UsageError(f"there is no {what} {number}: the last one is {count - 1}.")
    return list(range(count)) if numbers is None else list(numbers)


def layer_names(count: int) -> list[str]:
    """The names of the states before the first layer and after each: "input", "layer 0", …"""
    return ["input", *(f"layer {number}" for number in range(count - 1))]


def stacks_of(model: nn.Module) -> dict[str, Stack]:
    """The stacks of blocks in a model, by the names of their places in it."""
    return {name: each for name, each in model.named_modules() if isinstance(each, Stack)}


def _stacked(tensors: Sequence[Tensor]) -> Array:
    return np.stack([each.float().cpu().numpy() for each in tensors])
