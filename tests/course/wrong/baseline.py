"""Typical wrong solutions of the notebook on bags, and words of what is said about each."""

import math
from typing import Any

import torch
from torch.nn import functional as F


def normal_interval(right: int, total: int) -> tuple[float, float]:
    p = right / total
    reach = 1.96 * math.sqrt(p * (1 - p) / total)
    return p - reach, p + reach


def interval(right: int, total: int, z: float = 1.96, *, divided: bool = True) -> Any:
    p = right / total
    middle = p + 1.96**2 / (2 * total)
    reach = z * math.sqrt(p * (1 - p) / total + 1.96**2 / (4 * total**2))
    below = 1 + 1.96**2 / total if divided else 1.0
    return (middle - reach) / below, (middle + reach) / below


def smooth_idf(counts: Any, having: Any) -> Any:
    return 1 + ((1 + len(counts)) / (1 + having)).log()


def weighted(counts: Any, idf: Any) -> Any:
    return torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0) * idf


def logarithm_everywhere(counts: Any, idf: Any) -> Any:
    return F.normalize((1 + counts.log()) * idf, dim=1)


def one_everywhere(counts: Any, idf: Any) -> Any:
    return F.normalize((1 + counts.clamp(min=1).log()) * idf, dim=1)


def empty_divided(counts: Any, idf: Any) -> Any:
    return weighted(counts, idf) / weighted(counts, idf).norm(dim=1, keepdim=True)


def reversed_only(model: Any, ids: Any) -> bool:
    return torch.allclose(model(ids.flip(1)), model(ids), atol=1e-4)


def exactly_equal(model: Any, ids: Any) -> bool:
    return all(
        torch.equal(model(ids[:, torch.randperm(ids.size(1))]), model(ids)) for _ in range(20)
    )


def texts_shuffled(model: Any, ids: Any) -> bool:
    return torch.allclose(model(ids[torch.tensor([2, 0, 3, 1])]), model(ids), atol=1e-4)


def labels_compared(model: Any, ids: Any) -> bool:
    return all(
        torch.equal(model(ids[:, torch.randperm(ids.size(1))]).argmax(1), model(ids).argmax(1))
        for _ in range(20)
    )


WRONG: dict[str, list[tuple[str, Any]]] = {
    "mean_pooling": [
        ("padding has a share", lambda x, real: x.mean(1)),
        ("divided by the length with", lambda x, real: (x * real[..., None]).mean(1)),
        ("the sum, not the mean", lambda x, real: (x * real[..., None]).sum(1)),
        ("here is a token", lambda x, real: (x * ~real[..., None]).sum(1)),
        ("0 / 0", lambda x, real: (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)),
        (
            "do not multiply",
            lambda x, real: (x * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1),
        ),
    ],
    "accuracy_interval": [
        ("the simpler interval", normal_interval),
        ("is z in front", lambda right, total: interval(right, total, z=1.0)),
        ("the denominator", lambda right, total: interval(right, total, divided=False)),
        ("the lower end comes last", lambda right, total: interval(right, total)[::-1]),
        ("two numbers", lambda right, total: interval(right, total)[0]),
    ],
    "idf": [
        ("how many texts have it", lambda c: smooth_idf(c, c.sum(0))),
        ("gives ∞", lambda c: 1 + (len(c) / (c > 0).sum(0)).log()),
        ("in front is missing", lambda c: smooth_idf(c, (c > 0).sum(0)) - 1),
        ("rare words count less", lambda c: 2 - smooth_idf(c, (c > 0).sum(0))),
        ("the rows", lambda c: 1 + ((1 + c.size(1)) / (1 + (c > 0).sum(0))).log()),
        ("its shape", lambda c: smooth_idf(c, (c > 0).sum(1))),
    ],
    "tf_idf": [
        ("ln 0", logarithm_everywhere),
        ("divide each row", weighted),
        ("sum to 1", lambda c, idf: F.normalize(weighted(c, idf), p=1, dim=1)),
        ("not damped", lambda c, idf: F.normalize(c * idf, dim=1)),
        ("it is 1 + ln count", lambda c, idf: F.normalize((1 + c).log() * idf, dim=1)),
        ("only to counts above 0", one_everywhere),
        ("where is idf", lambda c, idf: F.normalize(weighted(c, 1.0), dim=1)),
        ("its norm is 0", empty_divided),
    ],
    "is_order_blind": [
        ("leaves its middle", reversed_only),
        ("allow for rounding", exactly_equal),
        ("not the texts", texts_shuffled),
        ("not answers", labels_compared),
        ("shuffled and unshuffled", lambda model, ids: True),
        ("not True or False", lambda model, ids: model(ids)),
    ],
}
