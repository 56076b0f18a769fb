"""Muon orthogonalises its updates."""

import math

import pytest
import torch

from glassformer.nn.linear import has_onednn
from glassformer.training import optimizer_and_schedule as muon
from glassformer.training.optimizer_and_schedule import orthogonal


def test_orthogonal_is_the_polar_factor_up_to_a_tenth():
    u, _ = torch.linalg.qr(torch.randn(3, 8, 8))
    v, _ = torch.linalg.qr(torch.randn(3, 20, 8))
    matrices = u @ torch.diag(torch.logspace(0, -1.2, 8)) @ v.mT
    found = orthogonal(matrices * 1e-6)  # gradients can be small
    singular = torch.linalg.svdvals(found)
    assert singular.min() > 0.89
    assert singular.max() < 1.11
    torch.testing.assert_close(found, u @ v.mT, atol=0.11, rtol=0)


@pytest.mark.parametrize("shape", [(8, 8), (64, 64), (64, 256)])
@pytest.mark.parametrize("condition", [2, 10, 30, 100, 1000, 1e5])
def test_only_singular_values_of_two_percent_come_near_one(shape, condition):
    torch.manual_seed(0)
    rows, columns = shape
    u, _ = torch.linalg.qr(torch.randn(1, rows, rows))
    v, _ = torch.linalg.qr(torch.randn(1, columns, rows))
    sizes = torch.logspace(0, -math.log10(condition), rows)
    found = u.mT @ orthogonal(u @ torch.diag(sizes) @ v.mT) @ v
    becomes = found[0].diagonal()  # in the order of `sizes`: the vectors stay the same
    share = sizes / sizes.pow(4).sum() ** 0.25
    large = share >= 0.02
    assert ((becomes[large] - 1).abs() <= 0.1).all()
    assert (becomes[~large] < 0.92).all()
    assert (becomes[~large] <= 55.1 * share[~large] + 1e-4).all()
    small = share < 0.002
    torch.testing.assert_close(becomes[small], 55 * share[small], rtol=0.02, atol=1e-4)


def test_orthogonal_of_zeros_is_zeros():
    assert orthogonal(torch.zeros(2, 3, 4)).eq(0).all()


def test_equal_shapes_at_once_are_the_same_as_one_by_one():
    matrices = torch.randn(5, 6, 9)
    alone = torch.stack([orthogonal(matrix[None])[0] for matrix in matrices])
    torch.testing.assert_close(orthogonal(matrices), alone)


@pytest.mark.parametrize("size", [1e-30, 1e-11, 1.0, 1e11])
def test_how_large_a_gradient_is_does_not_matter(size):
    torch.manual_seed(0)
    gradient = torch.randn(1, 6, 9)
    torch.testing.assert_close(orthogonal(size * gradient), orthogonal(gradient))
    assert orthogonal(torch.zeros(1, 6, 9)).eq(0).all()


def test_large_matrices_may_take_another_kernel(monkeypatch):
    if not has_onednn():
        pytest.skip("needs oneDNN")
    matrices = torch.randn(3, 6, 10)
    expected = orthogonal(matrices)
    monkeypatch.setattr(muon, "learns_by_onednn", lambda: True)
    monkeypatch.setattr(muon, "MANY_TO_LEARN", 1)
    torch.testing.assert_close(orthogonal(matrices), expected, atol=1e-5, rtol=1e-4)
