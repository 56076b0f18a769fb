"""Positions: attention alone sees a set, not a sequence. Four ways to encode the order.

sinusoidal  fixed waves added to the embeddings
learned     a trained vector per position, added to the embeddings
relative    a trained bias per head and distance, added to the attention scores
rotary      queries and keys rotated by an angle per position, so that their dot product
            depends only on the distance
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.nn import masks
from glassformer.nn.attention import AttentionRules, Rotation
from glassformer.nn.cache import KVCache

PositionKind = Literal["learned", "sinusoidal", "relative", "rotary", "none"]


class Positions(nn.Module):
    """No positions. Each kind overrides one of the first three methods."""

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (…, T, D) with their positions added."""
        return x

    def rotation(self, positions: Tensor) -> Rotation | None:
        """Applied to queries and keys."""
        return None

    def bias(self, num_queries: int, num_keys: int) -> Tensor | None:
        """Added to the attention scores: (H, T, S)."""
        return None

    def frequencies(self, d_model: int, device: torch.device | None = None) -> Tensor | None:
        """Angle per position of each wave or rotation; None: there are none."""
        return None

    def fitted(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights of such positions that were trained with another context, for this one. Texts
        that fit into both contexts are read alike."""
        return weights

    def both_ways(self, x: Tensor, is_text: Tensor | None = None) -> tuple[Tensor, AttentionRules]:
        """Place embeddings (B, T, D) that attend to each other, but not to padding.

        `is_text` (B, T) marks the real positions; None: there is no padding.
        """
        length = x.size(1)
        positions = torch.arange(length, device=x.device)  # (T,)
        mask = None if is_text is None else masks.padding_keys(is_text)  # (B, 1, T, T)
        bias, rotate = self.bias(length, length), self.rotation(positions)
        return self.add(x, positions), AttentionRules(mask, False, bias, rotate)

    def causal(self, x: Tensor, cache: KVCache | None = None) -> tuple[Tensor, AttentionRules]:
        """Place embeddings (B, T, D) that attend to the past, and continue the cache if given."""
        new, length = x.size(1), x.size(1) + (cache.length if cache else 0)
        positions = torch.arange(length - new, length, device=x.device)  # (T,)
        mask = None
        if cache is not None and cache.is_padded:
            mask = masks.left_padded(cache.padding, new, length)  # (B, 1, T, S)
            positions = (positions - cache.padding[:, None]).clamp(min=0)  # (B, T)
        bias, rotate = self.bias(new, length), self.rotation(positions)
        return self.add(x, positions), AttentionRules(mask, mask is None, bias, rotate)


def wave_frequencies(width: int, device: torch.device | None = None) -> Tensor:
    """(⌈width/2⌉,) 10000^(-2k/width)"""
    even = torch.arange(0, width, 2, device=device)
    return torch.exp(even * (-math.log(10000.0) / width))


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """(…, width): sin(i / 10000^(2k/width)) and cos of the same angle, interleaved, at position i.

    Each sine has the frequency of the cosine next to it, so a shift by a fixed number of positions
    is the same rotation everywhere.
    """
    angles = positions[..., None] * wave_frequencies(width, positions.device)
    pairs = torch.stack((angles.sin(), angles.cos()), dim=-1)  # (…, ⌈width/2⌉, 2)
    return pairs.flatten(-2)[..., :width]


class SinusoidalPositions(Positions):
    """Adds `sinusoids`: no parameters, any length."""

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + sinusoids(positions, x.size(-1)).to(x.dtype)

    def frequencies(self, d_model: int, device: torch.device | None = None) -> Tensor:
        return wave_frequencies(d_model, device)


class LearnedPositions(Positions):
    """A trained vector for each of the first `context_length` positions."""

    def __init__(self, context_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(context_length, width)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table(positions).to(x.dtype)

    def fitted(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """A longer table begins again with the first vectors, which are closer to what has to be
        learned than random ones."""
        table = weights["table.weight"]
        repeats = -(-self.table.num_embeddings // len(table))
        longer = table.repeat(repeats, 1)[: self.table.num_embeddings]
        return weights | {"table.weight": longer}


class RelativePositions(Positions):
    """A trained bias per head for each distance, the same everywhere in the text.

    Distances beyond `max_distance` share the outermost bias.
    """

    def __init__(self, num_heads: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.scores = nn.Parameter(torch.zeros(num_heads, 2 * max_distance + 1))

    def bias(self, num_queries: int, num_keys: int) -> Tensor:
        """(H, T, S); the last query is the last key."""
        key = torch.arange(num_keys, device=self.scores.device)
        distance = key - key[num_keys - num_queries :, None]  # (T, S)
        limit = self.max_distance
        return self.scores[:, distance.clamp(-limit, limit) + limit]

    def fitted(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The outermost biases stand for all longer distances."""
        scores = weights["scores"]
        known = scores.size(1) // 2
        distance = torch.arange(-self.max_distance, self.max_distance + 1)
        return weights | {"scores": scores[:, distance.clamp(-known, known) + known]}


@dataclass(frozen=True)
class RotaryStretch:
    """Slower rotations, with which a trained model reads longer texts than before.

    Plain, every rotation is `factor` times slower. With `original_length` (Llama 3.1), rotations
    that turn less than `low` times within that length are, those that turn more than `high` times
    are left as they are, and those in between are interpolated.
    """

    factor: float
    original_length: int | None = None
    low: float = 1.0
    high: float = 4.0

    def __call__(self, turns: Tensor) -> Tensor:
        if self.original_length is None:
            return turns / self.factor
        number = self.original_length * turns / (2 * math.pi)  # of rotations within that length
        kept = ((number - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * turns + (1 - kept) * turns / self.factor


class RotaryPositions(Positions):
    """Rotates each pair of a head's coordinates by an angle that grows with the position.

    The pairs are coordinate k and k + d/2, as in Llama and Qwen.
    """

    def __init__(
        self, head_dim: int, base: float = 10000.0, stretch: RotaryStretch | None = None
    ) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.base = base
        self.stretch = stretch

    def frequencies(self, d_model: int, device: torch.device | None = None) -> Tensor:
        return self._turns(device)

    def rotation(self, positions: Tensor) -> Rotation:
        """The rotation for `positions` (T,) or (B, T), shared by all layers of one pass."""
        angles = positions[..., None] * self._turns(positions.device)  # (…, T, d/2)
        if angles.dim() == 3:
            angles = angles[:, None]  # (B, 1, T, d/2): the same for every head
        cos, sin = angles.cos(), angles.sin()

        def rotate(x: Tensor) -> Tensor:
            first, second = x.chunk(2, dim=-1)
            turned = (first * cos - second * sin, second * cos + first * sin)
            return torch.cat(turned, dim=-1).to(x.dtype)

        return rotate

    def _turns(self, device: torch.device | None) -> Tensor:
        even = torch.arange(0, self.head_dim, 2, device=device)
        turns = torch.pow(self.base, -even / self.head_dim)  # (d/2,)
        return turns if self.stretch is None else self.stretch(turns)
