"""The notebook on images: patches, windows, pixels and captions."""

import math

import torch
from torch import Tensor

from glassformer.course.checking import (
    Solution,
    Wrong,
    exercise,
    expect,
    first_difference,
    is_close,
)
from glassformer.nn.patches import patches as squares
from glassformer.nn.windows import partition, shifted_mask


@exercise
def patches(function: Solution) -> None:
    """An image (C, H, W) as a sequence of patches, (N, C · P · P)"""
    for channels, rows, columns, size in ((3, 2, 3, 4), (1, 3, 2, 2), (2, 4, 4, 3)):
        image = torch.randn(channels, rows * size, columns * size)
        shape = (rows * columns, channels * size * size)
        found = function.tensor(image, size, shape=shape)
        wanted = squares(image[None], size)[0]
        if torch.equal(found, wanted):
            continue
        cut = wanted.view(rows, columns, channels, size, size)
        _recognise(
            found,
            {
                "the patches come column by column": (
                    cut.transpose(0, 1).reshape(shape),
                    "go from left to right first, then down.",
                ),
                "in a patch, the channels of a pixel are side by side": (
                    cut.permute(0, 1, 3, 4, 2).reshape(shape),
                    "all pixels of the first channel come first, then those of the second.",
                ),
                "each patch is mirrored at its diagonal": (
                    cut.transpose(3, 4).reshape(shape),
                    "the pixels of a patch come row by row, too.",
                ),
                "a patch holds pixels that are no neighbours": (
                    image.reshape(shape),
                    "reshape alone cuts the image into strips: separate the rows and columns of "
                    "patches from those of pixels, then reorder the dimensions.",
                ),
            },
        )
        if _same_numbers(found, wanted):
            raise Wrong(
                "some pixels are in the wrong patch or in the wrong order",
                "draw patch 0 as an image: it is the upper left corner.",
            )
        expect(found, wanted, "patch 0 is the upper left square, channel by channel, row by row.")


@exercise
def shifted_windows(function: Solution) -> None:
    """A grid, shifted cyclically and cut into windows: (R, C, D) → (W, size², D)"""
    for rows, columns, size, shift in ((4, 6, 2, 0), (4, 8, 4, 2), (6, 6, 3, 1)):
        grid = torch.randn(rows, columns, 5)
        shape = (rows * columns // size**2, size**2, 5)
        found = function.tensor(grid, size, shift, shape=shape)
        wanted = _windows(grid, size, shift)
        if torch.equal(found, wanted):
            continue
        if shift:
            _recognise(
                found,
                {
                    "the grid is not shifted": (
                        _windows(grid, size, 0),
                        "roll it before it is cut into windows.",
                    ),
                    "the grid is shifted down and to the right": (
                        _windows(grid, size, -shift),
                        "place (shift, shift) must become the first one.",
                    ),
                    "the grid is shifted in one direction only": (
                        _windows(grid.roll(shift, 1), size, shift),
                        "both rows and columns are shifted.",
                    ),
                    "the columns are shifted, the rows are not": (
                        _windows(grid.roll(shift, 0), size, shift),
                        "both rows and columns are shifted.",
                    ),
                },
            )
        rolled = grid.roll((-shift, -shift), (0, 1))
        if torch.equal(found, rolled.reshape(shape)):
            raise Wrong(
                "a window holds places of one row that are no neighbours below each other",
                "reshape alone does not cut squares: separate the rows of windows from the rows in "
                "a window, then reorder the dimensions.",
            )
        if not _same_numbers(found, wanted):
            raise Wrong(
                "some places of the grid are lost or changed",
                "a cyclic shift brings what leaves at the top back at the bottom.",
            )
        raise Wrong(
            "the windows or their places are in another order",
            "both come row by row: the second window is to the right of the first.",
        )


@exercise
def window_mask(function: Solution) -> None:
    """Which places of a shifted window may attend to each other, (W, size², size²)"""
    for side, size, shift in ((4, 2, 0), (8, 4, 2), (6, 3, 1), (6, 2, 1)):
        shape = ((side // size) ** 2, size**2, size**2)
        mask = function.tensor(side, size, shift, shape=shape)
        if mask.dtype != torch.bool:
            raise Wrong(f"its type is {str(mask.dtype).removeprefix('torch.')}, not bool")
        wanted = shifted_mask((side, side), (side, side), (size, size), (shift, shift))
        if wanted is None:
            wanted = torch.ones(shape, dtype=torch.bool)
        if torch.equal(mask, wanted):
            continue
        case = f"a grid of {side} × {side}, windows of {size} × {size}, shift {shift}"
        if torch.equal(mask, ~wanted):
            raise Wrong("it is True where a place may not attend", "True means: may attend.")
        window, query, key = first_difference(mask, wanted)
        places = _windows(torch.arange(side**2).view(side, side, 1), size, shift)[window, :, 0]
        one, other = (divmod(int(places[each]), side) for each in (query, key))
        where = f"in window {window} ({case}), the place in row {one[0]}, column {one[1]}"
        if mask[window, query, key]:
            raise Wrong(
                f"{where} attends to row {other[0]}, column {other[1]}, on the other side of the "
                "image",
                "in the rolled grid, the last rows and the last columns came from the other side.",
            )
        hint = "places that were neighbours before the shift may attend to each other."
        if shift == 0:
            hint = "without a shift, nothing has come from another side."
        raise Wrong(f"{where} does not attend to row {other[0]}, column {other[1]}", hint)


@exercise
def to_palette(function: Solution) -> None:
    """The number of the nearest colour of a palette for each pixel"""
    for num_pixels, num_colors, channels in ((50, 7, 3), (30, 4, 1), (6, 12, 3)):
        pixels = 255 * torch.rand(num_pixels, channels)
        palette = 255 * torch.rand(num_colors, channels)
        palette[0] = 255.0  # the brightest: as a product it would win too often
        found = function.tensor(pixels, palette, shape=(num_pixels,))
        if found.is_floating_point() or found.dtype == torch.bool:
            kind = str(found.dtype).removeprefix("torch.")
            raise Wrong(f"its type is {kind}", "return numbers of colours, not distances.")
        difference = pixels[:, None] - palette
        wanted = difference.square().sum(-1).argmin(1)
        found = found.long()
        if torch.equal(found, wanted):
            continue
        near: dict[str, tuple[Tensor, str]] = {
            "these are the farthest colours": (
                difference.square().sum(-1).argmax(1),
                "which end of the distances is nearest?",
            ),
            "these are the colours with the largest dot product": (
                (pixels @ palette.T).argmax(1),
                "a bright colour has a large product with everything: measure distances.",
            ),
            "positive and negative differences cancel out": (
                difference.sum(-1).abs().argmin(1),
                "square the difference of each channel before you add them.",
            ),
            "signed differences are compared": (
                difference.sum(-1).argmin(1),
                "a difference may be negative: square it.",
            ),
            "only the first channel is compared": (
                difference[..., 0].square().argmin(1),
                "the distance adds up all channels.",
            ),
            "absolute differences are added, not squares": (
                difference.abs().sum(-1).argmin(1),
                "the equation has squares.",
            ),
        }
        _recognise(found, near)
        place = int((found != wanted).nonzero()[0])
        raise Wrong(
            f"pixel {place} became colour {int(found[place])}, but colour {int(wanted[place])} is "
            "nearer",
            "compare each pixel (rows) with all colours (columns).",
        )
    twins = torch.tensor([[9.0, 9.0, 9.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = function.tensor(torch.zeros(2, 3), twins, shape=(2,))
    if found.tolist() != [1, 1]:
        raise Wrong("of two colours that are equally near, it does not take the first")


@exercise
def bits_per_pixel(function: Solution) -> None:
    """The mean of −log₂ p of the true colours"""
    for num_pixels, num_colors in ((40, 16), (7, 5)):
        logits = 2 * torch.randn(num_pixels, num_colors)
        colors = torch.randint(num_colors, (num_pixels,))
        found = function.number(logits, colors)
        logs = logits.double().log_softmax(-1)
        own = logs[torch.arange(num_pixels), colors]
        wanted = -own.mean() / math.log(2)
        if is_close(found, wanted):
            continue
        known: dict[str, tuple[Tensor, str]] = {
            "it is in nats, not in bits": (-own.mean(), "log₂ x = ln x / ln 2."),
            "it is negative": (-wanted, "log p is negative: mind the sign."),
            "it is multiplied by ln 2": (-own.mean() * math.log(2), "log₂ x = ln x / ln 2."),
            "it is the sum over all pixels": (wanted * num_pixels, "take the mean."),
            "it is the entropy of the predictions, not the cost of the true colours": (
                -(logs.exp() * logs).sum(-1).mean() / math.log(2),
                "which colour was right at each pixel?",
            ),
            "the logits are used as log-probabilities": (
                -logits[torch.arange(num_pixels), colors].double().mean() / math.log(2),
                "normalise them first: the probabilities of all colours sum to 1.",
            ),
            "it averages probabilities, then takes the logarithm": (
                -own.exp().mean().log2(),
                "the logarithm comes first, the mean last.",
            ),
            "the softmax runs along the pixels": (
                -logits.double().log_softmax(0)[torch.arange(num_pixels), colors].mean()
                / math.log(2),
                "the probabilities of all colours at one pixel sum to 1.",
            ),
        }
        for problem, (value, hint) in known.items():
            if is_close(found, value):
                raise Wrong(problem, hint)
        raise Wrong(
            f"it is {found:.4f}, not {float(wanted):.4f}",
            "for 16 colours that are equally likely it is 4.",
        )
    sure = torch.tensor([[2000.0, 0.0], [0.0, 2000.0]])
    found = function.number(sure, torch.tensor([0, 1]))
    if not is_close(found, 0.0):
        raise Wrong(
            f"large logits give {found}", "e^2000 is too large a number: log_softmax avoids it."
        )


def _windows(grid: Tensor, size: int, shift: int) -> Tensor:
    return partition(grid.roll((-shift, -shift), (0, 1))[None], (size, size))[0]


def _recognise(found: Tensor, typical: dict[str, tuple[Tensor, str]]) -> None:
    """Raise what is said about a typical mistake if this is what it gives."""
    for problem, (value, hint) in typical.items():
        if torch.equal(found, value):
            raise Wrong(problem, hint)


def _same_numbers(found: Tensor, wanted: Tensor) -> bool:
    return torch.equal(found.flatten().sort().values, wanted.flatten().sort().values)
