"""Where a model looked: attention of one layer, or rolled out over all of them.

    attention   a = p · A                              one layer: what its places take from others
    rollout     p ← (p + p · A) / 2   layer by layer   from the last layer to the first

p is how much each place counts: at the end, its share in the pooled vector (all of it at the class
token, if there is one). A is the attention of a layer (rows sum to one), and half of what a place
passes on is its own, since attention is added to its input (Abnar and Zuidema, 2020). What is left
at the first layer is how much each patch of the image contributed.

A text is followed in the same way, from the position of a prediction to the tokens (`rolled_out`).
A decoder passes on half of what reaches its attention to the source, which the encoder's layers
follow further.

In an image, attention may be confined to windows; `LayerAttention.places` says which place is
where. All arrays are plain numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
Numbers = npt.NDArray[np.int64]
Grid = tuple[int, int]


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """The attention of a layer for one image, in windows; a layer without windows has one."""

    weights: Array
    """(W, H, T, T): of each window and head; rows sum to one."""
    places: Numbers
    """(W, T): the place of each position of a window; -1 is padding."""
    grid: Grid
    """Rows and columns of its places."""
    num_extra: int = 0
    """Positions before those of the image that are no place of it: a class token."""

    @property
    def num_places(self) -> int:
        return self.num_extra + self.grid[0] * self.grid[1]

    def attended(self, shares: Array) -> Array:
        """(H, N): how much of each place the others take, if they count by `shares` (N,)."""
        counted = np.where(self.places < 0, 0, shares[self.places])  # (W, T)
        taken = np.einsum("wq,whqk->hwk", counted, self.weights)  # (H, W, T)
        found = np.zeros((self.weights.shape[1], self.num_places + 1))
        for head, values in zip(found, taken, strict=True):
            np.add.at(head, self.places, values)  # padding is at -1, the last one
        return found[:, :-1]


def attention_maps(layers: Sequence[LayerAttention], pooled: Array) -> list[Array]:
    """(H, rows, columns) for each layer: what is looked at by the places that count. In the last
    grid these are the pooled ones; in finer grids all places count the same."""
    found = []
    for layer in layers:
        is_last = layer.num_places == len(pooled)
        shares = pooled if is_last else np.full(layer.num_places, 1 / layer.num_places)
        found.append(np.stack([_on_grid(head, layer) for head in layer.attended(shares)]))
    return found


def rollout(layers: Sequence[LayerAttention], pooled: Array) -> Array:
    """(rows, columns) of the first layer: how much each place contributed to the pooled vector."""
    shares: Array = np.asarray(pooled, dtype=np.float64)
    for number in reversed(range(len(layers))):
        layer = layers[number]
        shares = (shares + layer.attended(shares).mean(axis=0)) / 2
        if number and layers[number - 1].grid != layer.grid:
            shares = spread(shares.reshape(layer.grid), layers[number - 1].grid).ravel()
    return _on_grid(shares, layers[0])


def rolled_out(
    shares: Array, attention: Array, cross: Array | None = None
) -> tuple[Array, Array | None]:
    """How much each token contributed to the last states of a text, which count by `shares` (T,),
    and how much each position of a source, if there is one. The weights, (L, T, T) and (L, T, S),
    are means over the heads; all contributions together sum to one."""
    own: Array = np.asarray(shares, dtype=np.float64)
    memory = None if cross is None else np.zeros(cross.shape[-1])
    for number in reversed(range(len(attention))):
        if cross is not None and memory is not None:  # comes after self-attention in a block
            memory = memory + own @ cross[number] / 2
            own = own / 2
        own = (own + own @ attention[number]) / 2
    return own, memory


def spread(coarse: Array, grid: Grid) -> Array:
    """What counts on a coarse grid, divided equally among the places of a finer one."""
    rows, columns = (
        np.arange(fine) // -(-fine // side) for fine, side in zip(grid, coarse.shape, strict=True)
    )  # merging pads at the end, so the last coarse place may stand for fewer
    sizes = np.outer(*map(np.bincount, (rows, columns)))
    found: Array = (coarse / sizes)[np.ix_(rows, columns)]
    return found


def _on_grid(values: Array, layer: LayerAttention) -> Array:
    """(rows, columns), without the extra positions; the sum is one."""
    places = values[layer.num_extra :].reshape(layer.grid)
    return places / max(float(places.sum()), 1e-300)
