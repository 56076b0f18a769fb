import pytest
import torch

from glassformer.nn.pooling import pool

X = torch.tensor([[[1.0], [5.0], [3.0]], [[-2.0], [-4.0], [9.0]]])
IS_TEXT = torch.tensor([[True, True, True], [True, True, False]])
EXPECTED = {
    "mean": ([3.0, -3.0], [3.0, 1.0]),
    "max": ([5.0, -2.0], [5.0, 9.0]),
    "first": ([1.0, -2.0], [1.0, -2.0]),
    "last": ([3.0, -4.0], [3.0, 9.0]),
}


@pytest.mark.parametrize("pooling", EXPECTED)
def test_only_real_positions_are_pooled(pooling):
    padded, whole = EXPECTED[pooling]
    assert pool(X, IS_TEXT, pooling).flatten().tolist() == padded
    assert pool(X, None, pooling).flatten().tolist() == whole


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_row_without_real_positions_is_zero(pooling):
    assert pool(X, torch.zeros_like(IS_TEXT), pooling).eq(0).all()


@pytest.mark.parametrize("pooling", EXPECTED)
def test_a_row_without_real_positions_is_not_nan(pooling):
    assert pool(X, torch.zeros_like(IS_TEXT), pooling).isfinite().all()
