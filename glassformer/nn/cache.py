"""The key-value cache of a decoder: keys and values of every layer, so that no token is read twice.

The caller owns the cache and passes it in. Its memory is allocated once; appending writes into it
and returns views, so a decoding step copies only the new position. Reordering rows has to copy
them, layer by layer, each into the memory of the one before it: new memory has to be cleared by the
system first, which takes several times as long as copying. The copies have room for a few more
positions, and grow when needed.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import GlassformerError

BLOCK = 16  # positions


class KVCache:
    """Keys and values for `num_layers` layers, with room for `capacity` positions.

    `padding` (B,) is the number of padding tokens at the start of each row.
    """

    def __init__(
        self,
        num_layers: int,
        padding: Tensor,
        num_kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = (len(padding), num_kv_heads, capacity, head_dim)
        empty = partial(torch.empty, shape, dtype=dtype, device=padding.device)
        self.keys = [empty() for _ in range(num_layers)]  # (B, G, S, d) each
        self.values = [empty() for _ in range(num_layers)]
        self.padding = padding
        self.capacity = capacity
        self.length = 0  # positions that every layer has appended

    @property
    def room(self) -> int:
        """Positions for which there is memory."""
        return self.keys[0].size(2)

    @property
    def is_padded(self) -> bool:
        """Whether a row begins with padding. In a graph that is exported, it may."""
        return torch.compiler.is_exporting() or bool(self.padding.any())

    def reorder(self, indices: Tensor) -> "KVCache":
        """Row b of the result continues row `indices[b]`, as beam search needs. The result uses the
        memory of this cache: continue with the result only."""
        self._resize(min(self.room, _whole_blocks(self.length + 1)))
        spare = None
        for layers in (self.keys, self.values):
            for layer, rows in enumerate(layers):
                layers[layer] = _selected(rows, indices, spare)
                spare = rows
        self.padding = self.padding[indices]
        return self

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store new positions (B, G, T, d) of a layer; return all, past and new (B, G, S, d)."""
        start, end = self.length, self.length + key.size(2)
        self.make_room(end)
        keys, values = self.keys[layer], self.values[layer]
        keys[:, :, start:end] = key
        values[:, :, start:end] = value
        return keys[:, :, :end], values[:, :, :end]

    def make_room(self, positions: int) -> None:
        """Make room for `positions` positions in total."""
        if positions > self.capacity:
            raise GlassformerError(
                f"{positions:,} tokens do not fit in a cache with room for {self.capacity:,}. "
                "Create it with a larger capacity."
            )
        if positions > self.room:
            self._resize(min(self.capacity, _whole_blocks(positions)))

    def _resize(self, room: int) -> None:
        if room == self.room:
            return
        more = (0, 0, 0, room - self.length)
        self.keys, self.values = (
            [F.pad(tensor[:, :, : self.length], more) for tensor in layers]
            for layers in (self.keys, self.values)
        )


def _selected(rows: Tensor, indices: Tensor, into: Tensor | None) -> Tensor:
    """Some rows, in the memory of a tensor of the same shape, if it has enough."""
    if into is None or len(into) < len(indices):
        return rows.index_select(0, indices)
    return torch.index_select(rows, 0, indices, out=into[: len(indices)])


def _whole_blocks(positions: int) -> int:
    return -(-positions // BLOCK) * BLOCK


def is_in_order(rows: Tensor, count: int) -> bool:
    """Whether `rows` are 0, 1, … count - 1, so that nothing has to be moved."""
    return len(rows) == count and bool((rows == torch.arange(count, device=rows.device)).all())


@dataclass(frozen=True)
class LayerCache:
    """One layer's part of a cache."""

    cache: KVCache
    index: int

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new positions (B, G, T, d); return all positions, past and new (B, G, S, d)."""
        return self.cache.append(self.index, key, value)
