"""Patches: an image becomes a sequence of vectors, one for each square of its grid.

    patches       cut P×P squares and project each        (B, C, H, W) → (B, N, D)
    convolution   convolve, rectify, take maxima; log₂ P times: squares overlap

N = rows · columns, in raster order. A linear layer on squares is all that a ViT knows about images;
convolutions know from the start that neighbouring pixels belong together, which little data cannot
teach. `GridPositions` says where on the grid each vector is; `ConvolutionalBlock` lets the places
look at their neighbours.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.nn.linear import Linear
from glassformer.nn.positions import LearnedPositions

Grid = tuple[int, int]  # rows, columns


class PatchEmbedding(nn.Module):
    """Cut an image into squares and project each of them linearly."""

    def __init__(self, num_channels: int, patch_size: int, width: int) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.projection = Linear(num_channels * patch_size**2, width)

    def grid(self, height: int, width: int) -> Grid:
        """Rows and columns of the patches of an image of this size."""
        return height // self.patch_size, width // self.patch_size

    def forward(self, pixels: Tensor) -> Tensor:
        return self.projection(patches(pixels, self.patch_size))  # (B, N, D)


def patches(pixels: Tensor, size: int) -> Tensor:
    """Squares of `size`² pixels in raster order: (B, C, H, W) → (B, N, C·size²)."""
    x = pixels.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # (B, C, rows, P, columns, P)
    return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, C·P·P)


class ConvolutionalEmbedding(nn.Module):
    """Convolutions of 3×3 pixels, each followed by ReLU; after the first log₂ P of them, a 3×3
    maximum at every second pixel halves the image.

    The channels double towards `width`, so that most of the work is done on small images. What a
    place sees is centred on its square of the grid, so that attention can be drawn there.
    """

    def __init__(
        self, num_channels: int, patch_size: int, width: int, num_convolutions: int | None = None
    ) -> None:
        super().__init__()
        self.num_halvings = round(math.log2(patch_size))
        depth = max(1, self.num_halvings, num_convolutions or 0)
        widths = [num_channels, *(max(1, width // 2**n) for n in reversed(range(depth)))]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(wide, wider, 3, padding=1, bias=False) for wide, wider in pairwise(widths)
        )

    def grid(self, height: int, width: int) -> Grid:
        for _ in range(self.num_halvings):
            height, width = -(-height // 2), -(-width // 2)
        return height, width

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels
        for layer, convolution in enumerate(self.convolutions, 1):
            x = convolution(x)
            if layer <= self.num_halvings:  # before ReLU: the same result from fewer values
                x = _halved(x, is_last=layer == self.num_halvings)  # (B, D', H/2, W/2)
            x = x.relu()
        return x.flatten(2).transpose(1, 2)  # (B, N, D)


def _halved(x: Tensor, is_last: bool) -> Tensor:
    """Maxima of 3×3 at every second place. Three is odd and two is even, so a maximum reaches one
    place too far to one side. Up to the left, that adds up to half a patch; so the last of several
    reaches down to the right instead, which leaves half a pixel."""
    if not is_last:
        return F.max_pool2d(x, 3, stride=2, padding=1)
    below, right = (1 + side % 2 for side in x.shape[2:])
    return F.max_pool2d(F.pad(x, (0, right, 0, below), value=-math.inf), 3, stride=2)


class GridPositions(LearnedPositions):
    """A trained vector for each place of a grid, in raster order, after those of `num_extra` tokens
    that have no place in the image. Another grid gets interpolated vectors."""

    def __init__(self, grid: Grid, width: int, num_extra: int = 0) -> None:
        super().__init__(num_extra + grid[0] * grid[1], width)
        self.trained_grid = grid
        self.num_extra = num_extra

    def on_grid(self, x: Tensor, grid: Grid) -> Tensor:
        """Vectors (B, num_extra + N, D) with their positions added."""
        table = self.table.weight  # (num_extra + N, D)
        if grid != self.trained_grid:
            extra, places = table[: self.num_extra], table[self.num_extra :]
            table = torch.cat([extra, interpolated(places, self.trained_grid, grid)])
        return x + table.to(x.dtype)


def interpolated(vectors: Tensor, grid: Grid, other: Grid) -> Tensor:
    """Vectors on a grid (rows · columns, D), by bicubic interpolation on another one."""
    image = vectors.unflatten(0, grid).permute(2, 0, 1)[None]  # (1, D, rows, columns)
    resized = F.interpolate(image, size=other, mode="bicubic", align_corners=False)
    return resized[0].flatten(1).T  # (N, D)


class ConvolutionalBlock(nn.Module):
    """Two convolutions of 3×3 places on a grid of vectors (B, D, rows, columns), added to it.

    x = x + conv(relu(norm(conv(relu(norm(x))))))

    Each image is normalised on its own, not with the others of its batch, so that it is read alike
    alone and among others.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.GroupNorm(1, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(1, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)
