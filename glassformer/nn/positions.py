"""Positions: attention alone sees a set, not a sequence. Four ways to tell it the order.

sinusoidal  fixed waves added to the embeddings
learned     a trained vector per position, added to the embeddings
relative    a trained number per head and distance, added to the attention scores
rotary      queries and keys turned by an angle per position, so that their dot product
            depends on the distance alone
"""

import math

import torch
from torch import Tensor, nn

from glassformer.nn.attention import Rotation


class Positions(nn.Module):
    """What a kind of positions adds, and where. Each kind says one of three; this one says none."""

    def added(self, positions: Tensor) -> Tensor | None:
        """To the embeddings: (…, T, D)."""
        return None

    def rotation(self, positions: Tensor) -> Rotation | None:
        """To queries and keys: how to turn them."""
        return None

    def bias(self, num_queries: int, num_keys: int) -> Tensor | None:
        """To the attention scores: (H, T, S)."""
        return None


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """(…, width): sin(i / 10000^(2k/width)) and cos of the same angle, in turn, at position i.

    Each sine shares its frequency with the cosine beside it; so a shift by a fixed number of
    positions is one and the same rotation everywhere.
    """
    even = torch.arange(0, width, 2, device=positions.device)
    angles = positions[..., None] * torch.exp(even * (-math.log(10000.0) / width))
    pairs = torch.stack((angles.sin(), angles.cos()), dim=-1)  # (…, ⌈width/2⌉, 2)
    return pairs.flatten(-2)[..., :width]


class SinusoidalPositions(Positions):
    """Adds the waves of `sinusoids`; nothing to learn, any length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def added(self, positions: Tensor) -> Tensor:
        return sinusoids(positions, self.width)


class LearnedPositions(Positions):
    """A trained vector for each of the first `context_length` positions."""

    def __init__(self, context_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(context_length, width)

    def added(self, positions: Tensor) -> Tensor:
        return self.table(positions)


class RelativePositions(Positions):
    """A trained score per head for each distance, the same wherever in the text it occurs.

    Distances beyond `max_distance` share the outermost number.
    """

    def __init__(self, num_heads: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.scores = nn.Parameter(torch.zeros(num_heads, 2 * max_distance + 1))

    def bias(self, num_queries: int, num_keys: int) -> Tensor:
        """(H, T, S); the last query is the last key."""
        device = self.scores.device
        query = torch.arange(num_keys - num_queries, num_keys, device=device)[:, None]
        distance = torch.arange(num_keys, device=device) - query  # (T, S)
        limit = self.max_distance
        return self.scores[:, distance.clamp(-limit, limit) + limit]


class RotaryPositions(Positions):
    """Turns each pair of a head's coordinates by an angle that grows with the position.

    The pairs are coordinate k and k + d/2, as in Llama and Qwen.
    """

    def __init__(self, head_dim: int, base: float = 10000.0) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.base = base

    def rotation(self, positions: Tensor) -> Rotation:
        """The turn for `positions` (T,) or (B, T), shared by all layers of one pass."""
        even = torch.arange(0, self.head_dim, 2, device=positions.device)
        angles = positions[..., None] * self.base ** (-even / self.head_dim)  # (…, T, d/2)
        if angles.dim() == 3:
            angles = angles[:, None]  # (B, 1, T, d/2): the same for every head
        cos, sin = angles.cos(), angles.sin()

        def rotate(x: Tensor) -> Tensor:
            first, second = x.chunk(2, dim=-1)
            turned = (first * cos - second * sin, second * cos + first * sin)
            return torch.cat(turned, dim=-1).to(x.dtype)

        return rotate
