"""What the layers of a model compute on an input, as plain arrays.

    with capturing(model.blocks) as seen:
        model(ids)
    seen.attention, seen.hidden                 (L, H, T, S), (N + 1, T, D)

    with capturing_windows(model.layers) as seen:
        model(pixels)
    seen[2].weights, seen[2].places             (W, H, T, T), (W, T)

The model runs as always. The weights are computed beside it, only for the layers asked for, and
only the heads asked for are kept. `map_of` shows vectors on a map of the two directions in which
they differ most.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer.errors import UsageError
from glassformer.inspect import Array, Doubles, Floats, Ids
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.observe import listening
from glassformer.nn.patches import Grid
from glassformer.nn.windows import WindowAttention


class Capture:
    """What was heard, for the first row of the batch; L and H are the layers and heads asked
    for."""

    def __init__(self, stack: Stack, layers: Sequence[int] | None, heads: Sequence[int] | None):
        self.layers = select("layer", layers, len(stack))
        self.heads = select("head", heads, stack.attentions[0].num_heads)
        self.weights: list[list[Tensor]] = []
        self.cross_weights: list[list[Tensor]] = []
        self.vectors: list[list[Tensor]] = []
        self.cross_vectors: list[list[Tensor]] = []
        self.biases: list[Tensor] = []
        self.states: list[Tensor] = []
        self.added: list[list[Tensor]] = []
        """What each part of each block added to the states: (T, D) each."""

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
    attentions = [stack.attentions[layer] for layer in seen.layers]
    all_cross = stack.cross_attentions
    cross = [all_cross[layer] for layer in seen.layers] if all_cross else []

    def of_heads(weights: Tensor) -> Tensor:
        return weights[0, seen.heads].clone()  # a view would keep all heads in memory

    def first_row(values: Tensor) -> Tensor:
        return values[0]

    with (
        listening([attention.tap for attention in attentions], of_heads) as weights,
        listening([attention.tap for attention in cross], of_heads) as cross_weights,
        listening([attention.vectors for attention in attentions], first_row) as vectors,
        listening([attention.vectors for attention in cross], first_row) as cross_vectors,
        listening([attention.bias_tap for attention in attentions[:1]]) as biases,
        listening([stack.tap], first_row) as (states,),
        listening([block.added for block in stack if isinstance(block, Block)], first_row) as added,
    ):
        yield seen
    num_parts = 3 if all_cross else 2
    seen.added = [parts[-num_parts:] for parts in added]
    seen.weights, seen.cross_weights = weights, cross_weights
    seen.vectors, seen.cross_vectors = vectors, cross_vectors
    seen.biases = biases[0] if biases else []
    seen.states = states[-len(stack) - 1 :]


def select(what: str, numbers: Sequence[int] | None, count: int) -> list[int]:
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
    return {name: module for name, module in model.named_modules() if isinstance(module, Stack)}


def _stacked(tensors: Sequence[Tensor]) -> Array:
    return np.stack([tensor.float().cpu().numpy() for tensor in tensors])


# --- attention in windows of an image ---
# Layers may have grids of different sizes. Queries, keys and values are in the order of the grid;
# weights are kept window by window, since all others are zero.

WindowedLayer = tuple[WindowAttention, Grid]


@dataclass(frozen=True, eq=False)
class WindowLayer:
    """The attention of one layer, for the first image of the batch."""

    number: int
    """The number of the layer in the model."""
    heads: list[int]
    grid: Grid
    padded: Grid
    """The grid with its padding, which windows cover evenly."""
    window: Grid
    shift: Grid
    """By how many rows and columns the grid is rolled, up and to the left."""
    places: Ids
    """(W, T) the place of the grid at each position of each window; -1 is padding."""
    regions: Ids
    """(W, T) positions of a window attend to each other if these numbers are equal."""
    weights: Array
    """(W, H, T, T), rows sum to one."""
    queries: Array
    """(H, N, d) for the N places of the grid; keys and values are the same."""
    keys: Array
    values: Array
    bias: Array
    """(H, T, T) what is added to the scores for the distance of two positions of a window."""

    def as_json(self) -> dict[str, Any]:
        return {
            "layer": self.number,
            "heads": self.heads,
            "grid": list(self.grid),
            "places": self.places.tolist(),
            "attention": self.weights.tolist(),
        }


@contextmanager
def capturing_windows(
    model: Sequence[WindowedLayer],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Iterator[list[WindowLayer]]:
    """Observe one call of a model inside the `with` block; the list is filled when it ends."""
    numbers = select("layer", layers, len(model))
    observed = [model[number] for number in numbers]
    select("head", heads, min(attention.num_heads for attention, _ in observed))
    captured: list[WindowLayer] = []
    with (
        listening([attention.tap for attention, _ in observed]) as weights,
        listening([attention.vectors for attention, _ in observed]) as vectors,
        listening([attention.bias_tap for attention, _ in observed]) as biases,
    ):
        yield captured
    for number, (attention, grid), heard, parts, bias in zip(
        numbers, observed, weights, vectors, biases, strict=True
    ):
        if not heard:
            raise UsageError("the model did not run: there is nothing to show.")
        kept = select("head", heads, attention.num_heads)
        query, key, value = (part[0] for part in parts[-3:])
        captured.append(
            _window_layer(number, kept, attention, grid, heard[-1][0], query, key, value, bias[-1])
        )


def _window_layer(
    number: int,
    heads: list[int],
    attention: WindowAttention,
    grid: Grid,
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
) -> WindowLayer:
    """The arrays of a layer from what was heard, in which windows are further heads:
    (W·H, T, …)."""
    places = attention.places(grid).numpy()  # (W, T)
    padded, window, shift = attention.windows(grid)

    def split(x: Tensor) -> Array:
        whole: Array = x.float().cpu().numpy()
        return whole.reshape(len(places), -1, *whole.shape[1:])[:, heads]  # (W, H, T, …)

    def on_grid(x: Tensor) -> Array:
        windows = split(x).swapaxes(0, 1)  # (H, W, T, d)
        rows = np.zeros((len(heads), grid[0] * grid[1], x.shape[-1]), np.float32)
        rows[:, places[places >= 0]] = windows[:, places >= 0]
        return rows

    added = split(bias)  # (W, H, T, T); -inf where the mask forbids
    is_allowed = np.isfinite(added[:, 0])  # (W, T, T)
    largest: Array = added.max(axis=0)  # a bias is the same in all windows that allow it
    return WindowLayer(
        number=number,
        heads=heads,
        grid=grid,
        padded=padded,
        window=window,
        shift=shift,
        places=places,
        regions=is_allowed.argmax(axis=-1),  # the first position that it attends to
        weights=split(weights),
        queries=on_grid(query),
        keys=on_grid(key),
        values=on_grid(value),
        bias=np.where(np.isfinite(largest), largest, 0),
    )


# --- a map of vectors (PCA) ---


def main_directions(vectors: Floats) -> tuple[Doubles, float]:
    """The two directions (2, D) in which vectors (N, D) differ most, and their share of it all."""
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    _, scales, directions = np.linalg.svd(centred, full_matrices=False)
    missing = max(0, 2 - len(directions))
    total = float((scales**2).sum())
    share = float((scales[:2] ** 2).sum() / total) if total else 0.0
    return np.pad(directions[:2], [(0, missing), (0, 0)]), share


def map_of(vectors: Floats) -> tuple[Doubles, float]:
    """Vectors (…, D) on a map of these directions, (…, 2), and the share that it holds."""
    flat = vectors.reshape(-1, vectors.shape[-1]).astype(np.float64)
    directions, share = main_directions(flat)
    return ((flat - flat.mean(0)) @ directions.T).reshape(*vectors.shape[:-1], 2), share
