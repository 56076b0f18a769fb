"""The Transformer block: look at the others, then think; add each result to what was there.

    pre-norm                              post-norm
    x = x + attention(norm(x))            x = norm(x + attention(x))
    x = x + feedforward(norm(x))          x = norm(x + feedforward(x))

The original Transformer and the lecture's GPT are post-norm; GPT-2 and what came since is pre-norm:
it leaves a straight path for the gradient from the last layer to the first.

A decoder that answers an encoder has a third part between the two: cross-attention, whose queries
are its own and whose keys and values are the encoder's.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from glassformer.nn.attention import MultiHeadAttention, Remembered, Rotation
from glassformer.nn.cache import LayerCache
from glassformer.nn.dropout import Dropout
from glassformer.nn.feedforward import FeedForward


class Block(nn.Module):
    """Self-attention and feed-forward, each with its norm, dropout and residual connection."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feedforward: FeedForward,
        make_norm: Callable[[], nn.Module],
        *,
        pre_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = make_norm()
        self.feedforward = feedforward
        self.feedforward_norm = make_norm()
        self.pre_norm = pre_norm
        self.dropout = Dropout(dropout)

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
        attend = partial(
            self.attention, mask=mask, causal=causal, bias=bias, rotate=rotate, cache=cache
        )
        x = self._add(x, attend, self.attention_norm)
        return self._add(x, self.feedforward, self.feedforward_norm)

    def _add(self, x: Tensor, layer: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        if self.pre_norm:
            return x + self.dropout(layer(norm(x)))
        return norm(x + self.dropout(layer(x)))


class CrossBlock(Block):
    """Self-attention, cross-attention and feed-forward."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feedforward: FeedForward,
        make_norm: Callable[[], nn.Module],
        *,
        pre_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(attention, feedforward, make_norm, pre_norm=pre_norm, dropout=dropout)
        self.cross_attention = cross_attention
        self.cross_attention_norm = make_norm()

    def forward(
        self,
        x: Tensor,
        *,
        memory: Remembered | None = None,
        memory_mask: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        bias: Tensor | None = None,
        rotate: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """`memory` is what `cross_attention.remember` made of the encoder's states."""
        if memory is None:
            raise TypeError("a block with cross-attention needs a memory to look at")

        attend = partial(
            self.attention, mask=mask, causal=causal, bias=bias, rotate=rotate, cache=cache
        )
        look_up = partial(self.cross_attention.recall, memory=memory, mask=memory_mask)
        x = self._add(x, attend, self.attention_norm)
        x = self._add(x, look_up, self.cross_attention_norm)
        return self._add(x, self.feedforward, self.feedforward_norm)
