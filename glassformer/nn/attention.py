"""Attention: each position queries all others and takes a weighted mean of their values.

    weights = softmax(query · keyᵀ / √d + bias)     (B, H, T, S)
    output  = weights · value                       (B, H, T, d)

`explicit` is that equation, line by line. `fused` computes the same in one kernel that never holds
the weights; training and serving use it. The weights are computed only where a call observes or
changes them (`observe.py`). Decoders of recurrent networks have an attention of their own, below.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.nn import masks
from glassformer.nn.cache import LayerCache
from glassformer.nn.layers import FeedForward
from glassformer.nn.linear import Linear, Merged
from glassformer.nn.observe import Tap

Rotation = Callable[[Tensor], Tensor]  # rotates (B, H, T, d) by the angles of its positions


@dataclass(frozen=True)
class AttentionRules:
    """How the positions of a sequence attend to each other: the same in all layers of a stack."""

    mask: Tensor | None = None  # broadcasts to (B, H, T, S); True: may attend
    causal: bool = False  # also, no position attends to a later one
    bias: Tensor | None = None  # (H, T, S), added to the scores
    rotate: Rotation | None = None  # applied to queries and keys


NO_RULES = AttentionRules()  # every position attends to every other


class KeysAndValues(NamedTuple):
    """The keys and values of a memory: computed once, attended to in every step."""

    key: Tensor  # (B, G, S, d)
    value: Tensor  # (B, G, S, d)
    mask: Tensor | None = None  # (B, 1, 1, S); None: there is no padding

    def take(self, rows: Tensor) -> "KeysAndValues":
        mask = None if self.mask is None else self.mask[rows]
        return KeysAndValues(self.key[rows], self.value[rows], mask)


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
    """`explicit` in one kernel. `causal` applies the square causal mask without building it."""
    is_grouped = key.size(1) < query.size(1)
    if not is_grouped and _is_faster_explicit(query):
        return explicit(query, key, value, mask, bias)
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
        enable_gqa=is_grouped,
    )


def _is_faster_explicit(query: Tensor) -> bool:
    """When many rows are decoded on a CPU, each has a single query, too few for the kernel."""
    has_one = query.size(2) == 1 < len(query)
    return has_one and query.device.type == "cpu" and not torch.is_grad_enabled()


def _one_per_query_head(x: Tensor, query: Tensor) -> Tensor:
    """Repeat each group's keys or values for its H / G query heads: (B, G, S, d) → (B, H, S, d)."""
    heads, groups = query.size(1), x.size(1)
    return x if heads == groups else x.repeat_interleave(heads // groups, dim=1)


class MultiHeadAttention(nn.Module):
    """Several heads attend to the same sequence, each through its own projections.

    The input is projected first and split into heads afterwards. With `num_kv_heads` below
    `num_heads`, groups of query heads share keys and values. `head_dim` is free: the heads together
    need not be as wide as the model. `query_norm` and `key_norm`, if given, are applied to each
    head before rotary positions rotate it.
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
        self.query_norm = query_norm or nn.Identity()
        self.key_norm = key_norm or nn.Identity()
        self.dropout = dropout
        self.tap = Tap()
        """Hears the weights, (B, H, T, S)."""
        self.vectors = Tap()
        """Hears queries (B, H, T, d), keys and values (B, G, S, d), in this order."""
        self.bias_tap = Tap()
        """Hears what is added to the scores, (H, T, S), if anything is."""
        self._merged: Merged | None = None

    def merge(self) -> None:
        """Compute the three projections as one matrix product whenever gradients are off."""
        self._merged = Merged(self.query, self.key, self.value)

    def forward(
        self, x: Tensor, rules: AttentionRules = NO_RULES, cache: LayerCache | None = None
    ) -> Tensor:
        """Self-attention: (B, T, D) → (B, T, D)."""
        query, key, value = self._project(x)
        query = self.query_norm(self._split(query))  # (B, H, T, d)
        key, value = self.key_norm(self._split(key)), self._split(value)  # (B, G, T, d)
        if rules.rotate is not None:
            query, key = rules.rotate(query), rules.rotate(key)
        if cache is not None:
            key, value = cache.append(key, value)  # (B, G, S, d)
        heads = self._attend(query, key, value, rules)  # (B, H, T, d)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def project_memory(self, memory: Tensor, mask: Tensor | None = None) -> KeysAndValues:
        """Keys and values for cross-attention to a memory (B, S, D)."""
        key = self.key_norm(self._split(self.key(memory)))
        return KeysAndValues(key, self._split(self.value(memory)), mask)

    def cross_attend(self, x: Tensor, memory: KeysAndValues) -> Tensor:
        """Cross-attention: queries from `x`, keys and values from a memory.

        `x` may have several consecutive rows for each row of the memory, such as the beams of one
        sentence.
        """
        rows, length = memory.key.size(0), x.size(1)
        beams = x.size(0) // rows
        query = self.query_norm(self._split(self.query(x)))  # (B·K, H, T, d)
        # As further queries of one row: a source is never copied for its beams.
        query = query.unflatten(0, (rows, beams)).transpose(1, 2).flatten(2, 3)  # (B, H, K·T, d)
        heads = self._attend(query, memory.key, memory.value, AttentionRules(memory.mask))
        heads = heads.unflatten(2, (beams, length)).transpose(1, 2).flatten(0, 1)  # (B·K, H, T, d)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B·K, T, D)

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        if self._merged is not None and self._merged.is_usable:
            return self._merged(x)
        return self.query(x), self.key(x), self.value(x)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, heads, T, d)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, rules: AttentionRules) -> Tensor:
        mask, bias = rules.mask, rules.bias
        num_queries, num_keys = query.size(2), key.size(2)
        # The last token may attend to every position.
        causal = rules.causal and bool(num_queries > 1)
        if causal and (num_queries < num_keys or mask is not None or bias is not None):
            past = masks.causal(num_queries, num_keys, query.device)
            mask, causal = past if mask is None else mask & past, False
        full_mask = mask
        if causal and (self.tap.is_listening or self.tap.is_changing):
            full_mask = masks.causal(num_queries, num_keys, query.device)
        if self.tap.is_listening:  # observing never changes how the output is computed
            self.tap.hear(weights_of(query, key, full_mask, bias))
        if self.vectors.is_listening:
            for vectors in (query, key, value):
                self.vectors.hear(vectors)
            if bias is not None:
                self.bias_tap.hear(bias)
        if self.tap.is_changing:  # the kernel has no weights to be changed: the equation has
            weights = self.tap.changed(weights_of(query, key, full_mask, bias))
            return self.tap.without_silent(weights @ _one_per_query_head(value, query))
        if torch.compiler.is_exporting():  # a graph for other tools is made of the equation, too
            if causal:
                mask = masks.causal(num_queries, num_keys, query.device)
            return explicit(query, key, value, mask, bias)
        dropout = self.dropout if self.training else 0.0
        return self.tap.without_silent(fused(query, key, value, mask, bias, causal, dropout))


def merge_projections(model: nn.Module) -> None:
    """Merge the projections of every attention and feed-forward layer that have the same input, to
    make prediction faster."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | FeedForward):
            module.merge()


# --- attention of a recurrent decoder: from its state s to the states h of an encoder ---
#
#     score(s, h) = v · tanh(W_enc h + W_dec s)     additive (Bahdanau et al., 2015)
#                   s · h                           dot
#                   s · W h                         general (Luong et al., 2015)
#     weights     = softmax over the states h       (B, K, S)
#     context     = weights · states                (B, K, D)

ScoreKind = Literal["additive", "dot", "general"]


class Places(NamedTuple):
    """The states of an encoder, ready to be attended to."""

    keys: Tensor  # (B, S, A): what a decoder's state is scored against
    states: Tensor  # (B, S, D)
    is_text: Tensor | None = None  # (B, S); None: there is no padding

    def take(self, rows: Tensor) -> "Places":
        is_text = None if self.is_text is None else self.is_text[rows]
        return Places(self.keys[rows], self.states[rows], is_text)


class PlaceAttention(nn.Module):
    """Attention from the state of a recurrent decoder to the states of an encoder."""

    def __init__(self, kind: ScoreKind, d_query: int, d_states: int) -> None:
        super().__init__()
        if kind == "dot" and d_query != d_states:
            raise ValueError(f"dot attention needs equal widths, not {d_query} and {d_states}")
        is_additive = kind == "additive"
        self.encoder = None if kind == "dot" else Linear(d_states, d_query, bias=False)
        self.decoder = Linear(d_query, d_query) if is_additive else None
        self.score = Linear(d_query, 1, bias=False) if is_additive else None
        self.tap = Tap()

    def project_memory(self, states: Tensor, is_text: Tensor | None = None) -> Places:
        """W_enc h of every position, computed once, from (B, S, D)."""
        return Places(states if self.encoder is None else self.encoder(states), states, is_text)

    def weights(self, query: Tensor, places: Places) -> Tensor:
        """How much each query (B · K, d_query) attends to each place: (B, K, S). K consecutive
        queries share one row of `places`, such as the beams of one sentence."""
        queries = query.unflatten(0, (len(places.keys), -1))  # (B, K, d_query)
        if self.decoder is not None and self.score is not None:
            both = places.keys[:, None] + self.decoder(queries)[:, :, None]  # (B, K, S, d_query)
            scores = self.score(both.tanh()).squeeze(-1)
        else:
            scores = queries @ places.keys.transpose(1, 2)
        if places.is_text is not None:
            scores = scores.masked_fill(~places.is_text[:, None], -math.inf)
        weights = scores.softmax(dim=-1)  # (B, K, S)
        self.tap.hear(weights)
        return self.tap.changed(weights)

    def forward(self, query: Tensor, places: Places) -> Tensor:
        """(B · K, d_query) → (B · K, D)."""
        return context_of(self.weights(query, places), places)


def context_of(weights: Tensor, places: Places) -> Tensor:
    """The states as the weights (B, K, S) mix them: (B · K, D)."""
    return (weights @ places.states).flatten(0, 1)
