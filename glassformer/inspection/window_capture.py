"""What attention in windows computes on an image, layer by layer, as plain arrays.

    with capturing_windows(model.layers) as seen:
        model(pixels)
    seen[2].weights, seen[2].places                 (W, H, T, T), (W, T)

Layers may have grids of different sizes. Queries, keys and values are in the order of the grid;
weights are kept window by window, since all others are zero.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.inspection.capture import Array, chosen
from glassformer.nn.observe import listening
from glassformer.nn.patches import Grid
from glassformer.nn.windows import WindowAttention

Numbers = NDArray[np.int64]
WindowedLayer = tuple[WindowAttention, Grid]


@dataclass(frozen=True, eq=False)
class WindowLayer:
    """The attention of one layer, for the first image of the batch."""

    number: int
    """Which layer of the model it is."""
    heads: list[int]
    grid: Grid
    places: Numbers
    """(W, T) the place of the grid at each position of each window; -1 is padding."""
    regions: Numbers
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
    numbers = chosen("layer", layers, len(model))
    some = [model[number] for number in numbers]
    chosen("head", heads, min(attention.num_heads for attention, _ in some))
    found: list[WindowLayer] = []
    with (
        listening([attention.tap for attention, _ in some]) as weights,
        listening([attention.vectors for attention, _ in some]) as vectors,
        listening([attention.bias_tap for attention, _ in some]) as biases,
    ):
        yield found
    for number, (attention, grid), seen, parts, bias in zip(
        numbers, some, weights, vectors, biases, strict=True
    ):
        if not seen:
            raise UsageError("the model did not run: there is nothing to show.")
        own = chosen("head", heads, attention.num_heads)
        kept = (seen[-1][0], *(each[0] for each in parts[-3:]), bias[-1])
        found.append(_layer(number, own, attention, grid, *kept))


def _layer(
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
    """From what was heard, in which windows are further heads: (W·H, T, …)."""
    places = attention.places(grid).numpy()  # (W, T)

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
        places=places,
        regions=is_allowed.argmax(axis=-1),  # the first position that it attends to
        weights=split(weights),
        queries=on_grid(query),
        keys=on_grid(key),
        values=on_grid(value),
        bias=np.where(np.isfinite(largest), largest, 0),
    )
