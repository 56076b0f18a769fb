import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from glassformer.nn import attention, masks
from glassformer.nn.attention import AttentionRules, MultiHeadAttention
from glassformer.nn.cache import KVCache, LayerCache
from glassformer.nn.observe import listening
from glassformer.nn.positions import RelativePositions, RotaryPositions

CAUSAL = AttentionRules(causal=True)


def twins(d_model, num_heads):
    """torch's multi-head attention, and ours with the same weights."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(d_model, num_heads, batch_first=True).eval()
    nn.init.normal_(theirs.in_proj_bias)
    ours = MultiHeadAttention(d_model, num_heads).eval()
    projections = (ours.query, ours.key, ours.value)
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    with torch.no_grad():
        for projection, weight, bias in zip(projections, weights, biases, strict=True):
            projection.weight.copy_(weight)
            projection.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())
    return theirs, ours


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_equals_torchs(causal):
    theirs, ours = twins(12, 3)
    x = torch.randn(2, 5, 12)
    hidden = ~masks.causal(5, 5) if causal else None  # torch's masks say what is hidden
    expected, _ = theirs(x, x, x, attn_mask=hidden)
    torch.testing.assert_close(
        ours(x, AttentionRules(causal=causal)), expected, atol=1e-5, rtol=1e-4
    )


def test_cross_attention_equals_torchs():
    theirs, ours = twins(12, 3)
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    expected, _ = theirs(x, memory, memory)
    found = ours.cross_attend(x, ours.project_memory(memory))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found, ours.cross_attend(x, ours.project_memory(memory.flip(0))))


def test_rows_that_share_a_memory_see_what_each_would_see_alone():
    _, ours = twins(12, 3)
    x, memory = torch.randn(6, 4, 12), torch.randn(2, 5, 12)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    shared = ours.cross_attend(x, ours.project_memory(memory, mask))
    copied = (each.repeat_interleave(3, dim=0) for each in (memory, mask))
    alone = ours.cross_attend(x, ours.project_memory(*copied))
    torch.testing.assert_close(shared, alone)


def test_padding_equals_torchs_key_padding_mask_on_the_text():
    theirs, ours = twins(12, 3)
    x = torch.randn(2, 5, 12)
    is_text = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected, _ = theirs(x, x, x, key_padding_mask=~is_text)
    found = ours(x, AttentionRules(masks.padding_keys(is_text)))
    torch.testing.assert_close(found[is_text], expected[is_text], atol=1e-5, rtol=1e-4)


def test_what_a_tap_hears_equals_torchs_weights():
    theirs, ours = twins(12, 3)
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    _, expected = theirs(x, memory, memory, average_attn_weights=False)
    with listening([ours.tap]) as (heard,):
        ours.cross_attend(x, ours.project_memory(memory))
    torch.testing.assert_close(heard[0], expected, atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_listening_never_changes_a_bit_of_the_output(length, causal, masked, biased, seed):
    torch.manual_seed(seed)
    layer = MultiHeadAttention(16, 4, num_kv_heads=2, dropout=0.5).train(seed % 2 == 0)
    mask = masks.left_padded(torch.tensor([0, 2]), length, length) if masked else None
    bias = RelativePositions(4, 3).bias(length, length) if biased else None
    rules, x = AttentionRules(mask, causal, bias), torch.randn(2, length, 16)
    torch.manual_seed(seed)
    alone = layer(x, rules)
    torch.manual_seed(seed)
    with listening([layer.tap]):
        observed = layer(x, rules)
    assert torch.equal(alone, observed)


@pytest.fixture
def kernel(monkeypatch):
    """(mask, causal) of every call of the fused kernel."""
    calls, original = [], attention.fused

    def spy(query, key, value, mask, bias, causal, dropout):
        calls.append((mask, causal))
        return original(query, key, value, mask, bias, causal, dropout)

    monkeypatch.setattr(attention, "fused", spy)
    return calls


def test_a_tap_hears_the_causal_mask_without_the_layer_building_it(kernel):
    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 4, 8)
    with listening([layer.tap]) as (heard,):
        layer(x, CAUSAL)
    assert kernel == [(None, True)]
    assert torch.equal(heard[0] > 0, masks.causal(4, 4).expand(1, 2, 4, 4))


def test_a_single_new_token_needs_no_mask(kernel):
    layer, cache = MultiHeadAttention(8, 2), KVCache(1, torch.tensor([0]), 2, 4, 4)
    layer(torch.randn(1, 3, 8), CAUSAL, LayerCache(cache, 0))
    cache.length += 3
    layer(torch.randn(1, 1, 8), CAUSAL, LayerCache(cache, 0))
    assert kernel == [(None, True), (None, False)]


def test_a_mask_and_causality_are_obeyed_together():
    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 4, 8)
    mask = masks.padding_keys(torch.tensor([[True, False, True, True]]))
    with listening([layer.tap]) as (heard,):
        layer(x, AttentionRules(mask, causal=True))
    assert torch.equal(heard[0] > 0, (mask & masks.causal(4, 4)).expand(1, 2, 4, 4))


def test_nobody_pays_for_weights_that_nobody_hears(monkeypatch):
    def never(*_):
        raise AssertionError("the weights were computed")

    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 4, 8)
    with listening([layer.tap]) as (heard,):
        layer(x)
    monkeypatch.setattr(attention, "weights_of", never)
    layer(x)
    assert len(heard) == 1


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(6)))
def test_attention_without_positions_and_mask_is_permutation_equivariant(order):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 6, 8)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], atol=1e-6, rtol=1e-4)


def test_a_mask_or_positions_break_the_permutation_equivariance():
    torch.manual_seed(0)
    layer, x, order = MultiHeadAttention(8, 2), torch.randn(1, 6, 8), [3, 1, 5, 0, 2, 4]
    rotate = RotaryPositions(4).rotation(torch.arange(6))
    for rules in (CAUSAL, AttentionRules(rotate=rotate)):
        found, expected = layer(x[:, order], rules), layer(x, rules)[:, order]
        assert not torch.allclose(found, expected, atol=1e-3)


def test_heads_may_be_as_wide_as_they_like():
    layer = MultiHeadAttention(48, 3, head_dim=48)  # lecture 2: W^O is hd × d
    assert layer.output.weight.shape == (48, 3 * 48)
    with listening([layer.tap]) as (heard,):
        assert layer(torch.randn(2, 5, 48)).shape == (2, 5, 48)
    assert heard[0].shape == (2, 3, 5, 5)


def test_shared_keys_equal_separate_keys_with_the_same_weights():
    shared = MultiHeadAttention(8, 4, num_kv_heads=2)
    separate = MultiHeadAttention(8, 4)
    weights = shared.state_dict()
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        per_group = weights[name].unflatten(0, (2, 2))  # two groups, two wide
        weights[name] = per_group.repeat_interleave(2, dim=0).flatten(0, 1)
    separate.load_state_dict(weights)
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(shared(x, CAUSAL), separate(x, CAUSAL))


@pytest.mark.parametrize("which", ["query_norm", "key_norm"])
def test_a_norm_on_queries_or_keys_is_applied_even_alone(which):
    layer, x = MultiHeadAttention(8, 2, **{which: nn.RMSNorm(4)}), torch.randn(1, 5, 8)
    normed = layer(x)
    setattr(layer, which, nn.Identity())
    assert not torch.allclose(layer(x), normed)


def test_dropout_of_the_weights_happens_in_training_only():
    layer, x = MultiHeadAttention(8, 2, dropout=0.5), torch.randn(1, 5, 8)
    assert not torch.equal(layer.train()(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_reading_in_two_parts_with_a_cache_equals_reading_at_once():
    layer, x = MultiHeadAttention(8, 4, num_kv_heads=2), torch.randn(2, 7, 8)
    cache = KVCache(1, torch.tensor([0, 0]), 2, 7, 2)
    first = layer(x[:, :4], CAUSAL, LayerCache(cache, 0))
    cache.length += 4
    second = layer(x[:, 4:], CAUSAL, LayerCache(cache, 0))
    found = torch.cat((first, second), dim=1)
    torch.testing.assert_close(found, layer(x, CAUSAL), atol=1e-6, rtol=1e-4)
