"""Dropout: as often as asked for, unbiased, repeatable, and the same on the way back."""

import pytest
import torch

from glassformer.nn.layers import Dropout


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_for_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(0)
    count = 400_001  # no multiple of what one draw gives
    y = Dropout(p)(torch.ones(count))
    deviation = (p * (1 - p) / count) ** 0.5
    assert abs((y == 0).float().mean() - p) < 5 * deviation + 2**-16
    assert abs(y.double().mean() - 1) < 5 * deviation / (1 - p)
    torch.testing.assert_close(y[y > 0], torch.full_like(y[y > 0], 1 / (1 - p)), rtol=2e-4, atol=0)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = Dropout(0.3)(torch.ones(400_000)) == 0
    for distance in (1, 2, 3, 4, 5, 8):
        together = (dropped[distance:] & dropped[:-distance]).float().mean()
        assert abs(together - 0.09) < 0.003


def test_the_gradient_is_dropped_where_the_value_was() -> None:
    x = torch.randn(3, 5, 7).transpose(0, 2).requires_grad_()
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_a_seed_repeats_it_whatever_the_number_of_threads() -> None:
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        torch.manual_seed(3)
        found.append(Dropout(0.5)(torch.ones(1000, 100)))
    assert torch.equal(*found)


def test_nothing_is_dropped_after_training_or_at_zero() -> None:
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert not Dropout(1.0)(torch.ones(300_000)).any()
    assert Dropout(0.5)(torch.empty(0, 3)).shape == (0, 3)
    assert Dropout(0.5)(torch.ones(9, dtype=torch.float64)).dtype == torch.float64
