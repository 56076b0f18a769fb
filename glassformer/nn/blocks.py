"""The Transformer block: attention, then a feed-forward layer, each added to its input.

    pre-norm                              post-norm
    x = x + attention(norm(x))            x = norm(x + attention(x))
    x = x + feedforward(norm(x))          x = norm(x + feedforward(x))

The original Transformer and the lecture's GPT are post-norm. GPT-2 and later models are pre-norm,
which leaves a direct path for the gradient from the last layer to the first.

The decoder of an encoder-decoder has a third part between the two: cross-attention, with queries
from the decoder and keys and values from the encoder.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from glassformer.nn.attention import NO_RULES, AttentionRules, KeysAndValues, MultiHeadAttention
from glassformer.nn.cache import KVCache, LayerCache
from glassformer.nn.layers import Dropout, FeedForward
from glassformer.nn.observe import Tap


class Block(nn.Module):
    """Self-attention, cross-attention if given, and feed-forward.

    Each part has its norm, dropout and residual connection.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feedforward: FeedForward,
        make_norm: Callable[[], nn.Module],
        *,
        cross_attention: MultiHeadAttention | None = None,
        pre_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = make_norm()
        self.feedforward = feedforward
        self.feedforward_norm = make_norm()
        self.cross_attention = cross_attention
        self.cross_attention_norm = nn.Identity() if cross_attention is None else make_norm()
        self.pre_norm = pre_norm
        self.dropout = Dropout(dropout)
        self.added = Tap()
        """Hears what each part adds to its input, (B, T, D), in the order of the parts."""

    def forward(
        self,
        x: Tensor,
        rules: AttentionRules = NO_RULES,
        cache: LayerCache | None = None,
        memory: KeysAndValues | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D). `memory` is the result of `cross_attention.project_memory`."""
        attend = partial(self.attention, rules=rules, cache=cache)
        x = self._add(x, attend, self.attention_norm)
        if self.cross_attention is not None:
            if memory is None:
                raise TypeError("a block with cross-attention needs a memory")
            attend = partial(self.cross_attention.cross_attend, memory=memory)
            x = self._add(x, attend, self.cross_attention_norm)
        return self._add(x, self.feedforward, self.feedforward_norm)

    def _add(self, x: Tensor, layer: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        change = self.dropout(layer(norm(x) if self.pre_norm else x))
        self.added.hear(change)
        return x + change if self.pre_norm else norm(x + change)


@dataclass(frozen=True)
class StackMemory:
    """Keys and values of a memory for every layer of a stack."""

    layers: list[KeysAndValues]

    def take(self, rows: Tensor) -> "StackMemory":
        return StackMemory([layer.take(rows) for layer in self.layers])

    def __len__(self) -> int:
        return len(self.layers[0].key)


class Stack(nn.ModuleList):
    """Blocks, one after another."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        super().__init__(blocks)
        self.tap = Tap()
        """Hears the states (B, T, D) before the first block and after each block."""

    def forward(
        self,
        x: Tensor,
        rules: AttentionRules = NO_RULES,
        cache: KVCache | None = None,
        memory: StackMemory | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D). With a cache, `x` continues the sequence that it holds."""
        self.tap.hear(x)
        for index, block in enumerate(self):
            past = None if cache is None else LayerCache(cache, index)
            x = block(x, rules, past, None if memory is None else memory.layers[index])
            self.tap.hear(x)
        if cache is not None:
            cache.length += x.size(1)
        return x

    @property
    def attentions(self) -> list[MultiHeadAttention]:
        return [block.attention for block in self if isinstance(block, Block)]

    @property
    def cross_attentions(self) -> list[MultiHeadAttention]:
        layers = [block.cross_attention for block in self if isinstance(block, Block)]
        return [layer for layer in layers if layer is not None]

    def project_memory(self, states: Tensor, is_text: Tensor | None = None) -> StackMemory:
        """A memory of an encoder's output (B, S, D); `is_text` (B, S) marks what is no padding."""
        mask = None if is_text is None else is_text[:, None, None]  # (B, 1, 1, S)
        return StackMemory([layer.project_memory(states, mask) for layer in self.cross_attentions])
