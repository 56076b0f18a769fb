"""Random predictions with random answers."""

import pytest
import torch


def a_problem(examples, classes, seed=0, multi_label=False):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(examples, classes, generator=generator)
    shape = (examples, classes) if multi_label else (examples,)
    targets = torch.randint(0, 2 if multi_label else classes, shape, generator=generator)
    return logits, targets, [f"class {n}" for n in range(classes)]


def same(found, expected):
    assert found == pytest.approx(expected, abs=1e-6)
