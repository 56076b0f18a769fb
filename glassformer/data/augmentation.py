"""Augmentation: the same picture, slightly different each time it is learned from.

    shifted, zoomed, flipped, turned      where its pixels are
    brighter, paler, posterised …         what its pixels are
    a part erased                         what can be seen of it
    mixed with another picture            and its label with the other's (mixup, cutmix)

Everything is computed for a whole batch of tensors, and follows from the state of the generator
alone: seeded with (seed, step), a resumed training sees the same pictures.
"""

import math
from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import Config, Count

GREY = (0.299, 0.587, 0.114)  # how bright red, green and blue look


class Movement(Config):
    """How images are moved in training, whatever their values are. The defaults leave them as they
    are."""

    shift: float = Field(0.0, ge=0, le=0.5)
    """Shift by up to this share of each side; what is missing is mirrored."""
    flip: float = Field(0.0, ge=0, le=1)
    """Probability of mirroring left and right."""


class AugmentationConfig(Movement):
    """How images are varied in training."""

    zoom: float = Field(1.0, gt=0, le=1)
    """Show a random part of the image, with at least this share of its area."""
    color: float = Field(0.0, ge=0, le=1)
    """Change brightness, contrast and saturation by up to this share."""
    num_ops: Count = Field(0, ge=0, le=8)
    """Random operations on each image, as in RandAugment: turn, shear, shift, brightness, contrast,
    saturation, posterize, solarize, autocontrast, invert."""
    magnitude: float = Field(0.5, ge=0, le=1)
    """Strength of these operations."""
    erasing: float = Field(0.0, ge=0, le=1)
    """Probability of replacing a rectangle by noise."""
    mixup: float = Field(0.0, ge=0)
    """Mix images and labels in proportions drawn from Beta(mixup, mixup); 0: never."""
    cutmix: float = Field(0.0, ge=0)
    """Paste a rectangle of another image, of an area drawn from Beta(cutmix, cutmix), and mix the
    labels by area; 0: never. If mixup is set as well, each batch uses one of the two."""

    @property
    def mixes(self) -> bool:
        return self.mixup > 0 or self.cutmix > 0


def augment(images: Tensor, config: AugmentationConfig, generator: torch.Generator) -> Tensor:
    """Vary images (B, C, H, W) with values from 0 to 1; the result has the same shape and range."""
    images = moved(images, config, generator)
    draw = _Draw(len(images), generator)
    affine = _identity(len(images))
    if config.zoom < 1:
        affine = affine @ _zoomed(config.zoom, draw)
    for _ in range(config.num_ops):
        images, affine = _random_op(images, affine, config.magnitude, draw)
    if config.zoom < 1 or config.num_ops:
        images = _transformed(images, affine)
    if config.color:
        for operation in (_brightness, _contrast, _saturation):
            images = operation(images, draw.signed() * config.color)
    if config.erasing:
        images = _erased(images, config.erasing, draw)
    return images.clamp(0, 1)


def moved(images: Tensor, config: Movement, generator: torch.Generator) -> Tensor:
    """Images (B, C, H, W), whose values may be anything, such as the colours of a palette: shifted
    by up to a share of each side, and mirrored with a probability."""
    draw = _Draw(len(images), generator)
    if config.shift:
        images = _shifted(images, config.shift, draw)
    if config.flip:
        is_flipped = draw.uniform() < config.flip
        images = torch.where(is_flipped.view(-1, 1, 1, 1), images.flip(-1), images)
    return images


def mix(
    images: Tensor, targets: Tensor, config: AugmentationConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mix each image (B, C, H, W) with another of the batch, and its target (B, K) with the other's
    in the same proportion."""
    draw = _Draw(len(images), generator)
    coin = float(draw.uniform()[0])
    cuts = config.cutmix > 0 and (config.mixup == 0 or coin < 0.5)
    if not config.mixes:
        return images, targets
    share = _beta(config.cutmix if cuts else config.mixup, draw)  # of the image itself
    other = torch.randperm(len(images), generator=generator)
    if not cuts:
        mixed = torch.lerp(images[other], images, share.view(-1, 1, 1, 1))
    else:
        is_cut = _rectangle(1 - share, images.shape[-2:], draw)  # (B, H, W)
        mixed = torch.where(is_cut[:, None], images[other], images)
        share = 1 - is_cut.float().mean((1, 2))  # rectangles are cut off at the edges
    return mixed, torch.lerp(targets[other].float(), targets.float(), share[:, None])


class _Draw:
    """Random numbers, one for each image."""

    def __init__(self, count: int, generator: torch.Generator) -> None:
        self.count, self.generator = count, generator

    def uniform(self) -> Tensor:
        return torch.rand(self.count, generator=self.generator)

    def signed(self) -> Tensor:
        """Random numbers from -1 to 1."""
        return 2 * self.uniform() - 1

    def below(self, limit: int) -> Tensor:
        return torch.randint(limit, (self.count,), generator=self.generator)


def _beta(alpha: float, draw: _Draw) -> Tensor:
    """Beta(alpha, alpha) by two gamma variables, of which torch draws with any generator."""
    shape = torch.full((2, draw.count), alpha, dtype=torch.float64)
    first, second = torch._standard_gamma(shape, generator=draw.generator)
    total = first + second
    return torch.where(total > 0, first / total, 0.5).float()


# --- where pixels are ---


def _shifted(images: Tensor, share: float, draw: _Draw) -> Tensor:
    """Images shifted by whole pixels, so that nothing is blurred."""
    height, width = images.shape[-2:]
    rows = _mirrored(height, (draw.signed() * share * height).round().long())  # (B, H)
    columns = _mirrored(width, (draw.signed() * share * width).round().long())  # (B, W)
    batch = torch.arange(len(images)).view(-1, 1, 1)
    pixels = images.permute(0, 2, 3, 1)[batch, rows[:, :, None], columns[:, None]]  # (B, H, W, C)
    return pixels.permute(0, 3, 1, 2).contiguous()


def _mirrored(length: int, shift: Tensor) -> Tensor:
    """The positions to read for each shift: (B,) → (B, length), mirrored at the edges."""
    positions = torch.arange(length) + shift[:, None]
    reflected = positions.abs() % max(1, 2 * length - 2)
    return torch.where(reflected < length, reflected, 2 * length - 2 - reflected)


def _identity(count: int) -> Tensor:
    return torch.eye(3).repeat(count, 1, 1)


def _zoomed(least: float, draw: _Draw) -> Tensor:
    side = (least + (1 - least) * draw.uniform()).sqrt()
    matrix = _identity(draw.count)
    matrix[:, 0, 0] = matrix[:, 1, 1] = side
    matrix[:, 0, 2], matrix[:, 1, 2] = (draw.signed() * (1 - side) for _ in range(2))
    return matrix


def _transformed(images: Tensor, affine: Tensor) -> Tensor:
    size = list(images.shape)
    grid = F.affine_grid(affine[:, :2], size, align_corners=False)  # (B, H, W, 2)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


# --- what pixels are ---


def _factor(amount: Tensor) -> Tensor:
    return (1 + amount).view(-1, 1, 1, 1)


def _grey(images: Tensor) -> Tensor:
    """(B, 1, H, W)"""
    if images.size(1) == 1:
        return images
    return (images * torch.tensor(GREY).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _brightness(images: Tensor, amount: Tensor) -> Tensor:
    return (images * _factor(amount)).clamp(0, 1)


def _contrast(images: Tensor, amount: Tensor) -> Tensor:
    mean = _grey(images).mean((2, 3), keepdim=True)
    return (mean + (images - mean) * _factor(amount)).clamp(0, 1)


def _saturation(images: Tensor, amount: Tensor) -> Tensor:
    grey = _grey(images)
    return (grey + (images - grey) * _factor(amount)).clamp(0, 1)


def _posterize(images: Tensor, amount: Tensor) -> Tensor:
    """Down to two levels of brightness."""
    levels = 2 ** (8 - 7 * amount.abs()).floor().view(-1, 1, 1, 1) - 1
    return (images * levels).round() / levels


def _solarize(images: Tensor, amount: Tensor) -> Tensor:
    limit = (1 - amount.abs()).view(-1, 1, 1, 1)
    return torch.where(images >= limit, 1 - images, images)


def _autocontrast(images: Tensor, amount: Tensor) -> Tensor:
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    span = high - low
    return torch.where(span > 0, (images - low) / span.clamp(min=1e-6), images)


def _invert(images: Tensor, amount: Tensor) -> Tensor:
    return 1 - images


_PIXEL_OPS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    _brightness, _contrast, _saturation, _posterize, _solarize, _autocontrast, _invert,
)  # fmt: skip
# The strongest turn, shear and shift at magnitude 1.
_TURN, _SHEAR, _SHIFT = math.radians(30), 0.3, 0.3
_NUM_MOVES = 6  # nothing, a turn, two shears and two shifts


def _random_op(
    images: Tensor, affine: Tensor, magnitude: float, draw: _Draw
) -> tuple[Tensor, Tensor]:
    """One operation of its own on each image; those that move pixels are collected in `affine`."""
    choice = draw.below(_NUM_MOVES + len(_PIXEL_OPS))
    amount = draw.signed() * magnitude
    matrix = _identity(draw.count)
    angle = torch.where(choice == 1, amount * _TURN, 0.0)
    matrix[:, 0, 0], matrix[:, 0, 1] = angle.cos(), -angle.sin()
    matrix[:, 1, 0], matrix[:, 1, 1] = angle.sin(), angle.cos()
    for op, (row, column, most) in enumerate(
        ((0, 1, _SHEAR), (1, 0, _SHEAR), (0, 2, 2 * _SHIFT), (1, 2, 2 * _SHIFT)), 2
    ):
        matrix[:, row, column] += torch.where(choice == op, amount * most, 0.0)
    changed = images.clone()
    for op, operation in enumerate(_PIXEL_OPS, _NUM_MOVES):
        rows = (choice == op).nonzero().flatten()
        if len(rows):
            changed[rows] = operation(images[rows], amount[rows])
    return changed, affine @ matrix


# --- rectangles: erased, or cut from another image ---


def _rectangle(area: Tensor, size: torch.Size, draw: _Draw) -> Tensor:
    """(B, H, W) a rectangle with this share of the area, at a random place, cut at the edges."""
    height, width = size
    side = area.sqrt()
    middle_y, middle_x = draw.uniform() * height, draw.uniform() * width
    rows, columns = torch.arange(height) + 0.5, torch.arange(width) + 0.5
    in_rows = (rows - middle_y[:, None]).abs() <= side[:, None] * height / 2  # (B, H)
    in_columns = (columns - middle_x[:, None]).abs() <= side[:, None] * width / 2  # (B, W)
    return in_rows[:, :, None] & in_columns[:, None]


def _erased(images: Tensor, probability: float, draw: _Draw) -> Tensor:
    area = 0.02 + 0.31 * draw.uniform()
    is_erased = _rectangle(area, images.shape[-2:], draw)
    is_erased &= (draw.uniform() < probability).view(-1, 1, 1)
    noise = torch.rand(images.shape, generator=draw.generator)
    return torch.where(is_erased[:, None], noise, images)
