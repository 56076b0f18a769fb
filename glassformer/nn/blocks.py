"""The Transformer block: look at the others, then think; add each result to what was there.

    pre-norm                              post-norm
    x = x + attention(norm(x))            x = norm(x + attention(x))
    x = x + feedforward(norm(x))          x = norm(x + feedforward(x))

The original Transformer and the lecture's GPT are post-norm; GPT-2 and what came since is pre-norm:
it leaves a straight path for the gradient from the last layer to the first.
"""

from collections.abc import Callable

from torch import Tensor, nn

from glassformer.nn.attention import MultiHeadAttention, Rotation
from glassformer.nn.cache import LayerCache
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
        self.dropout = nn.Dropout(dropout)

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
        def attend(x: Tensor) -> Tensor:
            return self.attention(
                x, mask=mask, causal=causal, bias=bias, rotate=rotate, cache=cache
            )

        x = self._add(x, attend, self.attention_norm)
        return self._add(x, self.feedforward, self.feedforward_norm)

    def _add(self, x: Tensor, layer: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        if self.pre_norm:
            return x + self.dropout(layer(norm(x)))
        return norm(x + self.dropout(layer(x)))
