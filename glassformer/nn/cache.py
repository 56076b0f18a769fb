"""The memory of a decoder: keys and values of every layer, kept so that no token is read twice.

The cache is a value that the caller owns and passes in. Its room is taken once; appending writes
into it and hands back views, so a step of generation copies only the new position. Rows that are
reordered have to be copied: then there is room for a few more positions only, and more when needed.
"""

import torch
from torch import Tensor

from glassformer.errors import GlassformerError

BLOCK = 16  # positions


class KVCache:
    """Keys and values for `num_layers` layers, with room for `capacity` positions."""

    def __init__(
        self,
        num_layers: int,
        batch: int,
        num_kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        shape = (num_layers, batch, num_kv_heads, capacity, head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)  # (layers, B, G, S, d)
        self.values = torch.empty(shape, dtype=dtype, device=device)  # (layers, B, G, S, d)
        self.capacity = capacity
        self.length = 0

    def layer(self, index: int) -> "LayerCache":
        return LayerCache(self, index)

    def advance(self, count: int) -> None:
        """Every layer has appended `count` positions: they are part of the past now."""
        self.length += count

    def reorder(self, indices: Tensor) -> "KVCache":
        """Row b of the result continues row `indices[b]` (beam search keeps some, drops others)."""
        other = object.__new__(KVCache)
        other.capacity, other.length = self.capacity, self.length
        room = min(self.keys.size(3), -(-(self.length + 1) // BLOCK) * BLOCK)
        self._resize(room)
        other.keys = self.keys.index_select(1, indices)
        other.values = self.values.index_select(1, indices)
        return other

    def make_room(self, positions: int) -> None:
        """For so many positions in all."""
        if positions > self.capacity:
            raise GlassformerError(
                f"{positions:,} tokens do not fit in a cache with room for {self.capacity:,}. "
                "Start it with a larger capacity."
            )
        if positions > self.keys.size(3):
            self._resize(min(self.capacity, -(-positions // BLOCK) * BLOCK))

    def _resize(self, room: int) -> None:
        if room != self.keys.size(3):
            self.keys, self.values = (self._moved(kept, room) for kept in (self.keys, self.values))

    def _moved(self, kept: Tensor, room: int) -> Tensor:
        moved = kept.new_empty(*kept.shape[:3], room, kept.size(4))
        moved[..., : self.length, :] = kept[..., : self.length, :]
        return moved


def is_in_order(rows: Tensor, count: int) -> bool:
    """Whether `rows` are 0, 1, … count - 1: nothing has to be moved then."""
    return len(rows) == count and bool((rows == torch.arange(count, device=rows.device)).all())


class LayerCache:
    """One layer's share of a cache."""

    def __init__(self, cache: KVCache, index: int) -> None:
        self._cache = cache
        self._index = index

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new positions (B, G, T, d); return past and new together (B, G, S, d)."""
        start, end = self._cache.length, self._cache.length + key.size(2)
        self._cache.make_room(end)
        keys, values = self._cache.keys[self._index], self._cache.values[self._index]
        keys[:, :, start:end] = key
        values[:, :, start:end] = value
        return keys[:, :, :end], values[:, :, :end]
