"""Windows: each place of a grid attends only to the places in its own window.

Attention over a whole image costs N² for N places; in windows of w×w places it costs N · w². In
every second layer the windows are shifted by half their size, so that what is next to a border in
one layer is inside a window in the next (Liu et al., 2021):

    ┌───────┬───────┐        ┌───┬───────┬───┐
    │       │       │        │ a │       │ a │     The grid is rolled by half a window, so that all
    │       │       │        ├───┼───────┼───┤     windows keep one size. A window at the border
    ├───────┼───────┤        │   │       │   │     then has parts of opposite sides of the image;
    │       │       │        │   │       │   │     a mask keeps these apart.
    │       │       │        ├───┼───────┼───┤
    └───────┴───────┘        │ a │       │ a │
                             └───┴───────┴───┘

Where a place is in its window is known from a trained bias per head for each distance between two
places, which is added to their score.

Grids whose sides are not multiples of the window are padded at the right and the bottom; no place
attends to padding.
"""

from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.nn.attention import NO_RULES, AttentionRules, MultiHeadAttention
from glassformer.nn.cache import LayerCache
from glassformer.nn.linear import Linear
from glassformer.nn.patches import Grid

WindowShift = Literal["each_side", "both_sides"]


def partition(x: Tensor, window: Grid) -> Tensor:
    """(B, rows, columns, D) → (B, W, T, D): W windows in raster order, of T places each."""
    high, wide = window
    x = x.unflatten(2, (-1, wide)).unflatten(1, (-1, high))  # (B, rows/h, h, columns/w, w, D)
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)  # (B, W, h·w, D)


def assembled(windows: Tensor, window: Grid, grid: Grid) -> Tensor:
    """The inverse of `partition`: (B, W, T, D) → (B, rows, columns, D)."""
    (high, wide), (rows, columns) = window, grid
    x = windows.unflatten(2, window).unflatten(1, (rows // high, columns // wide))
    return x.transpose(2, 3).flatten(1, 2).flatten(2, 3)  # (B, rows, columns, D)


@lru_cache(maxsize=64)  # a few kilobytes each; they depend on the size of the images only
def shifted_mask(grid: Grid, padded: Grid, window: Grid, shift: Grid) -> Tensor | None:
    """(W, T, T): which places of a window may attend to each other after a shift; None: all.

    Places belong together if they come from the same side of the image; padding only to itself.
    """
    if shift == (0, 0) and grid == padded:
        return None
    regions = []
    for length, full, size, offset in zip(grid, padded, window, shift, strict=True):
        place = torch.arange(full)
        region = (place >= full - size).long() + (place >= full - offset).long()
        region = region if offset else torch.zeros_like(place)
        region[(place + offset) % full >= length] = -1  # padding
        regions.append(region)
    rows, columns = regions
    number = torch.where((rows[:, None] < 0) | (columns < 0), -1, rows[:, None] * 3 + columns)
    number = partition(number[None, :, :, None], window)[0, :, :, 0]  # (W, T)
    return number[:, :, None] == number[:, None]  # (W, T, T)


class RelativeBias(nn.Module):
    """A trained bias per head for each distance, in rows and columns, between two places."""

    def __init__(self, window_size: int, num_heads: int) -> None:
        super().__init__()
        self.window_size = window_size
        self.table = nn.Parameter(torch.zeros((2 * window_size - 1) ** 2, num_heads))

    def forward(self, window: Grid) -> Tensor:
        """(H, T, T) for a window of at most `window_size` rows and columns."""
        return self.table[self.index(window)].permute(2, 0, 1)

    def index(self, window: Grid) -> Tensor:
        """(T, T): the number of the distance between two places of a window."""
        high, wide = window
        row = torch.arange(high, device=self.table.device).repeat_interleave(wide)  # (T,)
        column = torch.arange(wide, device=self.table.device).repeat(high)  # (T,)
        down, right = row[:, None] - row, column[:, None] - column  # (T, T)
        reach = self.window_size - 1
        return (down + reach) * (2 * reach + 1) + right + reach


class WindowAttention(MultiHeadAttention):
    """Attention inside windows of a grid, shifted by half their size if `is_shifted`.

    Windows are computed as if they were further heads: (B, W·H, T, d). Then one bias and one mask
    serve all rows of a batch.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        window_size: int,
        is_shifted: bool,
        window_shift: WindowShift = "each_side",
        **more: Any,
    ) -> None:
        super().__init__(d_model, num_heads, **more)
        self.window_size = window_size
        self.is_shifted = is_shifted
        self.window_shift = window_shift
        self.bias = RelativeBias(window_size, num_heads)

    def windows(self, grid: Grid) -> tuple[Grid, Grid, Grid]:
        """The padded grid, the size of a window and the shift for a grid."""
        window = tuple(min(self.window_size, side) for side in grid)
        padded = tuple(-(-side // size) * size for side, size in zip(grid, window, strict=True))
        # A side that is one window wide has no border inside the image.
        has_border = [side > size for side, size in zip(grid, window, strict=True)]
        if not self.is_shifted or (self.window_shift == "both_sides" and not all(has_border)):
            has_border = [False, False]
        shift = tuple(
            size // 2 if border else 0 for size, border in zip(window, has_border, strict=True)
        )
        return padded, window, shift  # type: ignore[return-value]

    def cut(self, x: Tensor, padding: float = 0.0) -> Tensor:
        """The windows of a grid: (B, rows, columns, D) → (B, W, T, D)."""
        grid = (x.size(1), x.size(2))
        padded, window, shift = self.windows(grid)
        if padded != grid:
            below, right = padded[0] - grid[0], padded[1] - grid[1]
            x = F.pad(x, (0, 0, 0, right, 0, below), value=padding)
        if any(shift):
            x = x.roll((-shift[0], -shift[1]), (1, 2))
        return partition(x, window)

    def places(self, grid: Grid) -> Tensor:
        """(W, T): which place of the grid is where in the windows; -1 is padding."""
        numbers = torch.arange(grid[0] * grid[1]).view(1, *grid, 1)
        return self.cut(numbers, padding=-1)[0, :, :, 0]

    def forward(
        self, x: Tensor, rules: AttentionRules = NO_RULES, cache: LayerCache | None = None
    ) -> Tensor:
        """(B, rows, columns, D) → (B, rows, columns, D)."""
        rows, columns = grid = (x.size(1), x.size(2))
        padded, window, shift = self.windows(grid)
        windows = self.cut(x)  # (B, W, T, D)
        heads = self._attend_in_windows(windows, self._rules(grid, windows))  # (B, W, T, H·d)
        x = assembled(self.output(heads), window, padded)
        if any(shift):
            x = x.roll(shift, (1, 2))
        return x if padded == grid else x[:, :rows, :columns]

    def _attend_in_windows(self, windows: Tensor, rules: AttentionRules) -> Tensor:
        number = windows.size(1)
        query, key, value = (
            x.unflatten(-1, (-1, self.head_dim)).transpose(2, 3).flatten(1, 2)
            for x in self._project(windows)
        )  # (B, W·H, T, d)
        heads = self._attend(self.query_norm(query), self.key_norm(key), value, rules)
        return heads.unflatten(1, (number, -1)).transpose(2, 3).flatten(3)  # (B, W, T, H·d)

    def _rules(self, grid: Grid, windows: Tensor) -> AttentionRules:
        padded, window, shift = self.windows(grid)
        mask = shifted_mask(grid, padded, window, shift)
        bias = self.bias(window).to(windows.dtype)  # (H, T, T)
        every = bias.expand(windows.size(1), *bias.shape)  # (W, H, T, T)
        if mask is not None:
            every = every.masked_fill(~mask[:, None].to(every.device), -torch.inf)
        return AttentionRules(bias=every.flatten(0, 1))  # (W·H, T, T)


class PatchMerging(nn.Module):
    """Four neighbouring places become one, twice as wide: (B, R, C, D) → (B, R/2, C/2, D')."""

    def __init__(self, width: int, wider: int, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.reduction = Linear(4 * width, wider, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, 0, x.size(2) % 2, 0, x.size(1) % 2))  # to even sides
        x = x.unflatten(2, (-1, 2)).unflatten(1, (-1, 2))  # (B, R/2, 2, C/2, 2, D)
        x = x.permute(0, 1, 3, 4, 2, 5).flatten(3)  # (B, R/2, C/2, 4·D): down, then right
        return self.reduction(self.norm(x))
