"""The equation of attention, and its fused twin."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.nn import masks
from glassformer.nn.attention import explicit, fused, weights_of

several = settings(deadline=None, max_examples=40)
sizes = st.integers(1, 7)


@st.composite
def problems(draw):
    """query (B, H, T, d), key and value (B, G, S, d), a mask or none, a bias or none."""
    batch, groups, shared, queries, keys, width = (draw(sizes) for _ in range(6))
    torch.manual_seed(draw(st.integers(0, 99)))
    query = torch.randn(batch, groups * shared, queries, width)
    key, value = torch.randn(2, batch, groups, keys, width)
    mask = (torch.rand(batch, 1, queries, keys) < 0.5) if draw(st.booleans()) else None
    if mask is not None:
        mask |= torch.arange(keys) == torch.arange(queries)[:, None] % keys  # no row is empty
    bias = torch.randn(groups * shared, queries, keys) if draw(st.booleans()) else None
    return query, key, value, mask, bias


@several
@given(problems())
def test_fused_equals_the_equation_for_any_shape_mask_and_bias(problem):
    torch.testing.assert_close(fused(*problem), explicit(*problem), atol=1e-5, rtol=1e-4)


@several
@given(sizes, sizes, sizes, sizes, st.booleans())
def test_causal_stands_for_the_causal_mask(batch, groups, shared, length, with_bias):
    query = torch.randn(batch, groups * shared, length, 4)
    key, value = torch.randn(2, batch, groups, length, 4)
    bias = torch.randn(groups * shared, length, length) if with_bias else None
    mask = masks.causal(length, length)
    expected = explicit(query, key, value, mask, bias)
    built = fused(query, key, value, mask, bias)
    torch.testing.assert_close(built, expected, atol=1e-5, rtol=1e-4)
    if not with_bias:
        unbuilt = fused(query, key, value, causal=True)
        torch.testing.assert_close(unbuilt, expected, atol=1e-5, rtol=1e-4)


@several
@given(problems())
def test_the_weights_of_every_query_sum_to_one(problem):
    query, key, _, mask, bias = problem
    weights = weights_of(query, key, mask, bias)
    assert weights.shape == (*query.shape[:3], key.size(2))
    torch.testing.assert_close(weights.sum(-1), torch.ones(query.shape[:3]))


@several
@given(problems())
def test_masked_weights_are_exactly_zero_and_the_others_are_not(problem):
    query, key, _, mask, bias = problem
    weights = weights_of(query, key, mask, bias)
    allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    assert torch.equal(weights > 0, allowed.expand_as(weights))


@several
@given(problems())
def test_the_output_is_a_weighted_sum_of_the_rows_of_the_values(problem):
    query, key, value, mask, bias = problem
    weights = weights_of(query, key, mask, bias)
    value = value.repeat_interleave(query.size(1) // key.size(1), dim=1)
    by_hand = sum(weights[..., s, None] * value[:, :, s, None] for s in range(key.size(2)))
    torch.testing.assert_close(fused(*problem), by_hand, atol=1e-5, rtol=1e-4)


def test_scores_are_divided_by_the_root_of_the_head_width():
    query = torch.full((1, 1, 1, 16), 0.5)
    key = torch.stack((torch.ones(16), torch.zeros(16))).view(1, 1, 2, 16)
    weights = weights_of(query, key).flatten()
    torch.testing.assert_close(weights, torch.tensor([8.0 / 4.0, 0.0]).softmax(0))


def test_a_bias_of_one_key_moves_attention_to_it():
    query, key = torch.randn(2, 1, 2, 3, 4)
    bias = torch.zeros(2, 3, 3)
    bias[1, :, 0] = 50.0
    weights = weights_of(query, key, bias=bias)
    assert (weights[:, 1, :, 0] > 0.999).all()
    assert (weights[:, 0, :, 0] < 0.999).all()


def test_query_heads_of_one_group_share_its_keys_and_values():
    query = torch.randn(1, 1, 3, 4).repeat(1, 4, 1, 1)  # four equal heads
    key, value = torch.randn(2, 1, 2, 3, 4)  # two groups
    heads = fused(query, key, value)[0]
    torch.testing.assert_close(heads[0], heads[1])
    torch.testing.assert_close(heads[2], heads[3])
    assert not torch.allclose(heads[1], heads[2])


@pytest.mark.parametrize("attend", [explicit, fused])
def test_gradients_flow_through_the_scores_to_query_and_key(attend):
    query, key, value = (torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3))
    (attend(query, key, value) ** 2).sum().backward()
    assert all(tensor.grad.abs().sum() > 0 for tensor in (query, key, value))


def test_fused_and_explicit_have_the_same_gradients():
    mask = masks.causal(5, 5)
    gradients = []
    for attend in (explicit, fused):
        torch.manual_seed(1)
        inputs = [torch.randn(2, heads, 5, 4, requires_grad=True) for heads in (4, 2, 2)]
        attend(*inputs, mask).pow(2).sum().backward()
        gradients.append([tensor.grad for tensor in inputs])
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)
