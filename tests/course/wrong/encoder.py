"""Typical wrong solutions of the notebook on encoders, and words of what is said about each."""

from typing import Any

import torch
from torch.nn import functional as F


def normed(x: Any, dims: Any, eps: float, unbiased: bool = False) -> Any:
    mean = x.mean(dims, keepdim=True)
    return (x - mean) / (x.var(dims, unbiased=unbiased, keepdim=True) + eps).sqrt()


def without_eps(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    return normed(x, -1, 0.0) * gain + bias


def eps_outside(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.std(-1, unbiased=False, keepdim=True) + eps) * gain + bias


def fixed_eps(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    return normed(x, -1, 1e-5) * gain + bias


def waves(length: int, width: int, cosine: Any, *, first: int = 0) -> Any:
    i, j = torch.arange(first, first + length)[:, None], torch.arange(width)
    sines = (i / 10000 ** (j / width)).sin()
    return torch.where(j % 2 == 1, (i / 10000 ** cosine(j, width)).cos(), sines)


def in_halves(length: int, width: int) -> Any:
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.cat((angles.sin(), angles.cos()), 1)


def right_exponent(j: Any, width: int) -> Any:
    return (j - 1) / width


WRONG: dict[str, list[tuple[str, Any]]] = {
    "layer_norm": [
        ("not by D", lambda x, g, b, eps=1e-5: normed(x, -1, eps, unbiased=True) * g + b),
        ("no effect", lambda x, g, b, eps=1e-5: normed(x, -1, eps)),
        ("only one of", lambda x, g, b, eps=1e-5: normed(x, -1, eps) * g),
        ("the texts of the batch", lambda x, g, b, eps=1e-5: normed(x, 0, eps) * g + b),
        ("those of all", lambda x, g, b, eps=1e-5: normed(x, tuple(range(x.dim())), eps) * g + b),
        ("where does ε go", without_eps),
        ("under the root", eps_outside),
        ("another eps", fixed_eps),
    ],
    "feed_forward": [
        ("it is linear", lambda x, up, down: down(up(x))),
        ("GELU comes last", lambda x, up, down: F.gelu(down(up(x)))),
        ("not GELU", lambda x, up, down: down(up(x).relu())),
        ("adds its input", lambda x, up, down: x + down(F.gelu(up(x)))),
        ("after the second", lambda x, up, down: F.gelu(down(F.gelu(up(x))))),
        ("its shape", lambda x, up, down: F.gelu(up(x))),
    ],
    "residual_step": [
        ("exchanged", lambda x, f, norm, pre: norm(x + f(x)) if pre else x + f(norm(x))),
        ("no residual", lambda x, f, norm, pre: f(norm(x)) if pre else norm(f(x))),
        ("must be free", lambda x, f, norm, pre: norm(x) + f(norm(x)) if pre else norm(x + f(x))),
        ("norm the sum", lambda x, f, norm, pre: x + f(norm(x)) if pre else x + norm(f(x))),
        (
            "two norms",
            lambda x, f, norm, pre: norm(x + f(norm(x))) if pre else norm(x + f(x)),
        ),
        ("has no effect", lambda x, f, norm, pre: x + f(norm(x))),
    ],
    "sinusoidal_positions": [
        ("mind the parentheses", lambda n, r: waves(n, r, lambda j, r: j - 1 / r)),
        ("the two of a pair", lambda n, r: waves(n, r, lambda j, r: j / r)),
        ("they take turns", in_halves),
        ("not 0", lambda n, r: waves(n, r, right_exponent, first=1)),
        ("not the length", lambda n, r: waves(n, r, lambda j, r: (j - 1) / n)),
        ("its shape", lambda n, r: waves(n, r, right_exponent).T),
    ],
}
