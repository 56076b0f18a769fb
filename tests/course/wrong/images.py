"""Typical wrong solutions of the notebook on images, and words of what is said about each."""

import math
from typing import Any

import torch


def cut(image: Any, size: int) -> Any:
    """(C, rows, columns, P, P)"""
    return image.unfold(1, size, size).unfold(2, size, size)


def flat(squares: Any, image: Any, size: int) -> Any:
    return squares.reshape(-1, image.size(0) * size * size)


def windows(grid: Any, size: int) -> Any:
    rows, columns, width = grid.shape
    cut = grid.view(rows // size, size, columns // size, size, width)
    return cut.transpose(1, 2).reshape(-1, size * size, width)


def same(number: Any, size: int) -> Any:
    number = windows(number[..., None], size)[..., 0]
    return number[:, :, None] == number[:, None]


def rows_only(side: int, size: int, shift: int) -> Any:
    part = (torch.arange(side) >= side - shift).long()
    return same(part[:, None].expand(side, side).contiguous(), size)


def counted_twice(side: int, size: int, shift: int) -> Any:
    part = (torch.arange(side) >= side - shift).long()
    return same(part[:, None] + part, size)


def own_rows(side: int, size: int, shift: int) -> Any:
    """Each row and column apart."""
    return same(torch.arange(side * side).view(side, side), size)


def right_mask(side: int, size: int, shift: int) -> Any:
    part = (torch.arange(side) >= side - shift).long()
    return same(2 * part[:, None] + part, size)


def shifted_off(grid: Any, size: int, shift: int) -> Any:
    moved = torch.zeros_like(grid)
    moved[: len(grid) - shift, : grid.size(1) - shift] = grid[shift:, shift:]
    return windows(moved, size)


def taken(logs: Any, colors: Any) -> Any:
    return logs[torch.arange(len(colors)), colors]


WRONG: dict[str, list[tuple[str, Any]]] = {
    "patches": [
        ("no neighbours", lambda x, p: x.reshape(-1, x.size(0) * p * p)),
        ("column by column", lambda x, p: flat(cut(x, p).permute(2, 1, 0, 3, 4), x, p)),
        ("are side by side", lambda x, p: flat(cut(x, p).permute(1, 2, 3, 4, 0), x, p)),
        ("its diagonal", lambda x, p: flat(cut(x, p).permute(1, 2, 0, 4, 3), x, p)),
        ("in the wrong patch", lambda x, p: flat(cut(x, p), x, p)),
        ("its shape", lambda x, p: flat(cut(x, p).permute(1, 2, 0, 3, 4), x, p)[None]),
    ],
    "shifted_windows": [
        ("is not shifted", lambda x, w, s: windows(x, w)),
        ("down and to the right", lambda x, w, s: windows(x.roll((s, s), (0, 1)), w)),
        ("in one direction", lambda x, w, s: windows(x.roll(-s, 0), w)),
        ("the rows are not", lambda x, w, s: windows(x.roll(-s, 1), w)),
        (
            "reshape alone",
            lambda x, w, s: x.roll((-s, -s), (0, 1)).reshape(-1, w * w, x.size(2)),
        ),
        ("lost or changed", shifted_off),
    ],
    "window_mask": [
        ("on the other side", lambda n, w, s: torch.ones((n // w) ** 2, w * w, w * w).bool()),
        ("on the other side", rows_only),
        ("the last columns", counted_twice),
        ("without a shift", own_rows),
        ("not bool", lambda n, w, s: right_mask(n, w, s).float()),
        ("its shape", lambda n, w, s: right_mask(n, w, s)[0]),
    ],
    "to_palette": [
        ("not distances", lambda x, c: (x[:, None] - c).square().sum(-1).amin(1)),
        ("the farthest", lambda x, c: (x[:, None] - c).square().sum(-1).argmax(1)),
        ("its shape", lambda x, c: (x[:, None] - c).square().sum(-1).argmin(0)),
        ("dot product", lambda x, c: (x @ c.T).argmax(1)),
        ("square the difference", lambda x, c: (x[:, None] - c).sum(-1).abs().argmin(1)),
        ("has squares", lambda x, c: (x[:, None] - c).abs().sum(-1).argmin(1)),
        ("adds up all channels", lambda x, c: (x[:, :1] - c[:, 0]).square().argmin(1)),
    ],
    "bits_per_pixel": [
        ("in nats", lambda x, y: torch.nn.functional.cross_entropy(x, y)),
        ("mind the sign", lambda x, y: taken(x.log_softmax(-1), y).mean() / math.log(2)),
        ("log-probabilities", lambda x, y: -taken(x, y).mean() / math.log(2)),
        ("take the mean", lambda x, y: -taken(x.log_softmax(-1), y).sum() / math.log(2)),
        ("comes first", lambda x, y: -taken(x.softmax(-1), y).mean().log2()),
        ("not a number", lambda x, y: -taken(x.log_softmax(-1), y) / math.log(2)),
        (
            "log_softmax avoids it",
            lambda x, y: -(taken(x.exp(), y) / x.exp().sum(-1)).log2().mean(),
        ),
    ],
}
