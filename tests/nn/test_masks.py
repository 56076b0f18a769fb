import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.nn import masks
from glassformer.nn.attention import explicit, fused, weights_of


def rows(*lines):
    return torch.tensor([[mark == "x" for mark in line] for line in lines])


def test_a_causal_mask_shows_each_query_itself_and_the_past():
    assert torch.equal(masks.causal(3, 3), rows("x..", "xx.", "xxx"))


def test_the_last_query_of_a_causal_mask_is_the_last_key():
    assert torch.equal(masks.causal(2, 4), rows("xxx.", "xxxx"))


def test_left_padding_is_seen_by_nobody_but_itself():
    mask = masks.left_padded(torch.tensor([0, 2]), 4, 4)
    assert mask.shape == (2, 1, 4, 4)
    assert torch.equal(mask[0, 0], masks.causal(4, 4))
    assert torch.equal(mask[1, 0], rows("x...", ".x..", "..x.", "..xx"))


def test_padding_keys_are_seen_by_nobody_but_themselves():
    mask = masks.padding_keys(torch.tensor([[True, True, False, False]]))
    assert torch.equal(mask[0, 0], rows("xx..", "xx..", "xxx.", "xx.x"))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 3))
def test_left_padding_never_leaves_a_query_with_nothing_to_see(padding, num_queries, past):
    num_keys = num_queries + past
    mask = masks.left_padded(torch.tensor(padding), num_queries, num_keys)
    assert mask.any(-1).all()
    _check_no_nan(mask)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4))
def test_a_row_of_nothing_but_padding_gives_no_nan(is_text):
    mask = masks.padding_keys(torch.tensor(is_text))
    assert mask.any(-1).all()
    _check_no_nan(mask)


def test_masks_combine_with_and():
    is_text = torch.tensor([[True, True, False]])
    both = masks.padding_keys(is_text) & masks.causal(3, 3)
    assert torch.equal(both[0, 0], rows("x..", "xx.", "xxx"))
    _check_no_nan(both)


def _check_no_nan(mask):
    """No NaN in weights, outputs (of either path) or gradients."""
    batch, _, num_queries, num_keys = mask.shape
    query = torch.randn(batch, 2, num_queries, 4, requires_grad=True)
    key, value = (torch.randn(batch, 2, num_keys, 4, requires_grad=True) for _ in range(2))
    total = explicit(query, key, value, mask) + fused(query, key, value, mask)
    total.sum().backward()
    found = [weights_of(query, key, mask), total, query.grad, key.grad, value.grad]
    assert all(tensor.isfinite().all() for tensor in found)
