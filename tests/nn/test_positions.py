import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.nn.positions import (
    LearnedPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    sinusoids,
)


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_follow_the_formula_written_by_hand(width):
    waves = sinusoids(torch.arange(20), width)
    for i in range(20):
        for j in range(width):
            angle = i / 10000 ** ((j - j % 2) / width)
            expected = math.cos(angle) if j % 2 else math.sin(angle)
            assert waves[i, j].item() == pytest.approx(expected, abs=1e-5)


def test_row_zero_of_the_sinusoids_is_zero_one_zero_one():
    assert sinusoids(torch.tensor([0]), 6).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_the_sine_and_cosine_of_a_pair_share_their_frequency():
    waves = sinusoids(torch.arange(300), 12)
    lengths = waves[:, 0::2] ** 2 + waves[:, 1::2] ** 2  # sin² + cos² of one angle
    torch.testing.assert_close(lengths, torch.ones_like(lengths))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 50))
def test_a_shift_of_position_is_one_rotation_everywhere(here, there, shift):
    width = 8
    frequencies = 10000 ** (-torch.arange(0, width, 2) / width)
    cos, sin = (shift * frequencies).cos(), (shift * frequencies).sin()
    for position in (here, there):
        waves = sinusoids(torch.tensor([position, position + shift]), width)
        before, after = waves.unflatten(-1, (-1, 2))  # pairs (sin, cos)
        turned = torch.stack(
            (before[:, 0] * cos + before[:, 1] * sin, before[:, 1] * cos - before[:, 0] * sin), -1
        )
        torch.testing.assert_close(turned, after, atol=1e-4, rtol=0)


def test_sinusoidal_positions_have_nothing_to_learn_and_no_last_position():
    positions = SinusoidalPositions()
    assert list(positions.parameters()) == []
    far, x = torch.tensor([[10**5]]), torch.randn(1, 1, 6)
    assert torch.equal(positions.add(x, far), x + sinusoids(far, 6))


def test_learned_positions_are_a_trained_row_for_each_position():
    positions = LearnedPositions(5, 4)
    positions.add(torch.zeros(2, 4), torch.tensor([1, 3])).sum().backward()
    assert positions.table.weight.shape == (5, 4)
    assert positions.table.weight.grad.sum(-1).tolist() == [0, 4, 0, 4, 0]


def relative(num_heads, max_distance):
    positions = RelativePositions(num_heads, max_distance)
    torch.nn.init.normal_(positions.scores)
    return positions


def test_a_relative_score_is_the_same_wherever_its_distance_occurs():
    bias = relative(2, 9).bias(6, 6)
    assert bias.shape == (2, 6, 6)
    for offset in range(-5, 6):
        diagonal = bias.diagonal(offset, dim1=1, dim2=2)
        assert torch.equal(diagonal, diagonal[:, :1].expand_as(diagonal))
    assert len(bias[0].unique()) == 11  # one number per distance


def test_relative_distances_beyond_the_limit_share_the_outermost_score():
    positions = relative(1, 2)
    bias = positions.bias(6, 6)[0]
    assert (bias[0, 2:] == positions.scores[0, 4]).all()  # two or more to the right
    assert (bias[5, :4] == positions.scores[0, 0]).all()  # two or more to the left
    assert bias[0, 1] == positions.scores[0, 3]


def test_the_last_relative_query_is_the_last_key():
    positions = relative(2, 4)
    assert torch.equal(positions.bias(2, 5), positions.bias(5, 5)[:, 3:])


def scores(positions, query, key, here, there):
    turned_query = positions.rotation(torch.tensor([here]))(query)
    turned_key = positions.rotation(torch.tensor([there]))(key)
    return (turned_query * turned_key).sum(-1)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 200))
def test_a_rotary_score_depends_on_the_distance_alone(here, there, shift):
    torch.manual_seed(0)
    positions = RotaryPositions(8)
    query, key = torch.randn(2, 1, 2, 1, 8)
    before = scores(positions, query, key, here, there)
    after = scores(positions, query, key, here + shift, there + shift)
    torch.testing.assert_close(after, before, atol=1e-3, rtol=0)


def test_a_rotary_score_does_depend_on_the_distance():
    positions = RotaryPositions(8)
    query, key = torch.randn(2, 1, 2, 1, 8)
    near, far = (scores(positions, query, key, 0, there) for there in (1, 5))
    assert not torch.allclose(near, far)


def test_rotary_turns_coordinate_k_with_k_plus_half():
    turned = RotaryPositions(4).rotation(torch.tensor([3]))(
        torch.tensor([1.0, 0, 0, 0]).view(1, 1, 1, 4)
    )
    expected = torch.tensor([math.cos(3), 0, math.sin(3), 0])
    torch.testing.assert_close(turned.flatten(), expected)


def test_rotary_leaves_the_first_position_and_every_length_alone():
    x = torch.randn(2, 3, 5, 8)
    turned = RotaryPositions(8).rotation(torch.arange(5))(x)
    torch.testing.assert_close(turned[:, :, 0], x[:, :, 0])
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


def test_rotary_positions_may_differ_from_row_to_row():
    positions, x = RotaryPositions(8), torch.randn(2, 3, 4, 8)
    both = torch.stack((torch.arange(4), torch.arange(4) + 2))
    for row in range(2):
        torch.testing.assert_close(
            positions.rotation(both)(x)[row], positions.rotation(both[row])(x)[row]
        )


def test_a_larger_rotary_base_turns_more_slowly():
    x = torch.randn(1, 1, 1, 8)
    slow, fast = (RotaryPositions(8, base).rotation(torch.tensor([9]))(x) for base in (1e6, 1e2))
    assert (slow - x).norm() < (fast - x).norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rotary_keeps_the_precision_of_what_it_turns(dtype):
    query = torch.randn(1, 2, 3, 8, dtype=dtype)
    assert RotaryPositions(8).rotation(torch.arange(3))(query).dtype == dtype
