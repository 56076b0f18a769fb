"""Attention: each position asks a question and takes a weighted mean of the answers.

    weights = softmax(query · keyᵀ / √d + bias)     (B, H, T, S)
    output  = weights · value                       (B, H, T, d)

`explicit` is that equation, line by line. `fused` computes the same without ever holding the
weights, and is what training and serving run. A `Tap` listens to chosen layers: only there, and
only while it listens, are the weights computed.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.nn import masks
from glassformer.nn.cache import LayerCache
from glassformer.nn.linear import Linear, Merged

Rotation = Callable[[Tensor], Tensor]  # turns (B, H, T, d) by the angles of its positions


class Remembered(NamedTuple):
    """Somebody else's states as keys and values: made once, looked at in every step."""

    key: Tensor  # (B, G, S, d)
    value: Tensor  # (B, G, S, d)


def weights_of(
    query: Tensor, key: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """How much each query attends to each key: (B, H, T, S), rows sum to one."""
    key = _one_per_query_head(key, query)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1)


def explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    return weights_of(query, key, mask, bias) @ _one_per_query_head(value, query)


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """`explicit` in one kernel. `causal` stands for the causal mask of a square, unbuilt."""
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        dropout_p=dropout,
        enable_gqa=key.size(1) < query.size(1),
    )


def _one_per_query_head(x: Tensor, query: Tensor) -> Tensor:
    """Each group's keys (or values) serve H / G query heads: (B, G, S, d) → (B, H, S, d)."""
    return x.repeat_interleave(query.size(1) // x.size(1), dim=1)


class Tap:
    """Hands attention weights to whoever listens. Costs nothing when nobody does."""

    def __init__(self) -> None:
        self._seen: list[Tensor] | None = None

    @contextmanager
    def listen(self) -> Iterator[list[Tensor]]:
        self._seen = seen = list[Tensor]()
        try:
            yield seen
        finally:
            self._seen = None

    def __call__(
        self, query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None
    ) -> None:
        if self._seen is not None:
            self.hear(weights_of(query, key, mask, bias))

    def hear(self, weights: Tensor) -> None:
        if self._seen is not None:
            self._seen.append(weights.detach())

    @property
    def is_listening(self) -> bool:
        return self._seen is not None


class MultiHeadAttention(nn.Module):
    """Several heads look at the same sequence, each through its own projections.

    The input is projected first and split into heads afterwards. `num_kv_heads` below `num_heads`
    lets groups of query heads share their keys and values. `head_dim` is free: the heads together
    need not be as wide as the model. `query_norm` and `key_norm`, when given, are applied to each
    head before the positions turn it.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads or num_heads
        self.head_dim = head_dim or d_model // num_heads
        self.query = Linear(d_model, self.num_heads * self.head_dim, bias=bias)
        self.key = Linear(d_model, self.num_kv_heads * self.head_dim, bias=bias)
        self.value = Linear(d_model, self.num_kv_heads * self.head_dim, bias=bias)
        self.output = Linear(self.num_heads * self.head_dim, d_model, bias=bias)
        self.query_norm = query_norm
        self.key_norm = key_norm
        self.dropout = dropout
        self.tap = Tap()
        self._merged: Merged | None = None

    def merge(self) -> None:
        """Read the three projections as one matrix whenever no gradients are wanted."""
        self._merged = Merged(self.query, self.key, self.value)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        bias: Tensor | None = None,
        rotate: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Self-attention: (B, T, D) → (B, T, D)."""
        projected = self._project(x)
        query = self._queries(projected[0])  # (B, H, T, d)
        key, value = self._keys_and_values(*projected[1:])  # (B, G, T, d)
        if rotate is not None:
            query, key = rotate(query), rotate(key)
        if cache is not None:
            key, value = cache.append(key, value)
        heads = self._attend(query, key, value, mask, causal, bias)  # (B, H, T, d)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def remember(self, memory: Tensor) -> Remembered:
        """Keys and values of what cross-attention will look at: (B, S, D)."""
        return self._keys_and_values(self.key(memory), self.value(memory))

    def recall(self, x: Tensor, memory: Remembered, mask: Tensor | None = None) -> Tensor:
        """Cross-attention: the queries are ours, keys and values somebody else's.

        `x` may have several rows, one after the other, for each row of the memory: the beams of a
        sentence look at it together. `mask` is (B, 1, 1, S).
        """
        rows, beams, length = len(memory.key), len(x) // len(memory.key), x.size(1)
        query = self._queries(self.query(x))  # (B·K, H, T, d)
        query = query.unflatten(0, (rows, beams)).transpose(1, 2).flatten(2, 3)  # (B, H, K·T, d)
        heads = self._attend(query, memory.key, memory.value, mask, causal=False, bias=None)
        heads = heads.unflatten(2, (beams, length)).transpose(1, 2).flatten(0, 1)  # (B·K, H, T, d)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B·K, T, D)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        if self._merged is not None and self._merged.is_usable:
            return self._merged(x)
        return self.query(x), self.key(x), self.value(x)

    def _queries(self, projected: Tensor) -> Tensor:
        query = self._split(projected, self.num_heads)  # (B, H, T, d)
        return query if self.query_norm is None else self.query_norm(query)

    def _keys_and_values(self, key: Tensor, value: Tensor) -> Remembered:
        key = self._split(key, self.num_kv_heads)  # (B, G, S, d)
        key = key if self.key_norm is None else self.key_norm(key)
        return Remembered(key, self._split(value, self.num_kv_heads))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        bias: Tensor | None,
    ) -> Tensor:
        if causal and query.size(2) == 1:
            causal = False  # the newest token may look at everything there is
        square = query.size(2) == key.size(2)
        if causal and (not square or mask is not None or bias is not None):
            past = masks.causal(query.size(2), key.size(2), query.device)
            mask, causal = past if mask is None else mask & past, False
        if self.tap.is_listening:  # it is shown the mask in full; the computation stays as it is
            shown = masks.causal(query.size(2), key.size(2), query.device) if causal else mask
            self.tap(query, key, shown, bias)
        dropout = self.dropout if self.training else 0.0
        return fused(query, key, value, mask, bias, causal, dropout)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)  # (B, heads, T, d)


def merge_projections(model: nn.Module) -> None:
    """Make every attention of a model ready to predict with."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.merge()
