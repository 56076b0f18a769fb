"""The memory of a decoder: keys and values of every layer, kept so that no token is read twice.

The cache is a value that the caller owns and passes in. Its room is taken once; appending writes
into it and hands back views, so a step of generation copies only the new position.
"""

import torch
from torch import Tensor

from glassformer.errors import GlassformerError


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
        self.length = 0

    @property
    def capacity(self) -> int:
        return self.keys.size(3)

    def layer(self, index: int) -> "LayerCache":
        return LayerCache(self, index)

    def advance(self, count: int) -> None:
        """Every layer has appended `count` positions: they are part of the past now."""
        self.length += count

    def reorder(self, indices: Tensor) -> "KVCache":
        """Row b of the result continues row `indices[b]` (beam search keeps some, drops others)."""
        other = object.__new__(KVCache)
        other.length = self.length
        other.keys = self._take(self.keys, indices)
        other.values = self._take(self.values, indices)
        return other

    def _take(self, kept: Tensor, indices: Tensor) -> Tensor:
        layers, _, groups, capacity, width = kept.shape
        room = kept.new_empty(layers, len(indices), groups, capacity, width)
        room[..., : self.length, :] = kept[:, indices, :, : self.length]
        return room


class LayerCache:
    """One layer's share of a cache."""

    def __init__(self, cache: KVCache, index: int) -> None:
        self._cache = cache
        self._index = index

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new positions (B, G, T, d); return past and new together (B, G, S, d)."""
        start, end = self._cache.length, self._cache.length + key.size(2)
        if end > self._cache.capacity:
            raise GlassformerError(
                f"{end:,} tokens do not fit in a cache with room for {self._cache.capacity:,}. "
                "Start it with a larger capacity."
            )
        keys, values = self._cache.keys[self._index], self._cache.values[self._index]
        keys[:, :, start:end] = key
        values[:, :, start:end] = value
        return keys[:, :, :end], values[:, :, :end]
