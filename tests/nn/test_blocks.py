import pytest
import torch
from torch import nn

from glassformer.nn import masks
from glassformer.nn.attention import AttentionRules, MultiHeadAttention
from glassformer.nn.blocks import Block
from glassformer.nn.cache import KVCache, LayerCache
from glassformer.nn.layers import FeedForward, norm


def block_like(theirs):
    """Our block with the weights of a torch.nn.TransformerEncoderLayer."""
    d_model, d_hidden = theirs.linear1.in_features, theirs.linear1.out_features
    ours = Block(
        MultiHeadAttention(d_model, theirs.self_attn.num_heads),
        FeedForward(d_model, d_hidden, "relu"),
        lambda: norm("layer", d_model),
        pre_norm=theirs.norm_first,
    )
    given = theirs.state_dict()
    weights = {}
    for kind in ("weight", "bias"):
        names = [f"attention.{part}.{kind}" for part in ("query", "key", "value")]
        weights |= zip(names, given[f"self_attn.in_proj_{kind}"].chunk(3), strict=True)
        weights[f"attention.output.{kind}"] = given[f"self_attn.out_proj.{kind}"]
        weights[f"feedforward.up.{kind}"] = given[f"linear1.{kind}"]
        weights[f"feedforward.down.{kind}"] = given[f"linear2.{kind}"]
        weights[f"attention_norm.{kind}"] = given[f"norm1.{kind}"]
        weights[f"feedforward_norm.{kind}"] = given[f"norm2.{kind}"]
    ours.load_state_dict(weights)
    return ours.eval()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_a_block_equals_torchs_encoder_layer(norm_first, causal):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, norm_first=norm_first).eval()
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.3)
    x = torch.randn(2, 5, 12)
    expected = theirs(x, src_mask=~masks.causal(5, 5) if causal else None)
    torch.testing.assert_close(
        block_like(theirs)(x, AttentionRules(causal=causal)), expected, atol=1e-5, rtol=1e-4
    )


def small_block(**options):
    make_norm = lambda: norm("layer", 8)  # noqa: E731
    return Block(MultiHeadAttention(8, 2), FeedForward(8, 16), make_norm, **options)


def test_a_pre_norm_block_whose_layers_say_nothing_is_the_identity():
    block, x = small_block(pre_norm=True), torch.randn(1, 4, 8)
    for layer in (block.attention.output, block.feedforward.down):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    assert torch.equal(block(x), x)


def test_a_post_norm_block_gives_normed_positions():
    out = small_block(pre_norm=False)(torch.randn(1, 4, 8) * 10)
    torch.testing.assert_close(out.mean(-1), torch.zeros(1, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.std(-1, correction=0), torch.ones(1, 4), atol=1e-3, rtol=0)


def test_dropout_is_on_what_is_added_never_on_what_was_there():
    block, x = small_block(dropout=0.999).train(), torch.randn(1, 4, 8)
    torch.manual_seed(0)
    unchanged = block(x) == x
    assert unchanged.float().mean() > 0.9


def test_a_block_passes_its_cache_on():
    block, x = small_block(), torch.randn(1, 5, 8)
    cache = KVCache(1, torch.tensor([0]), 2, 5, 4)
    steps, causal = [], AttentionRules(causal=True)
    for t in range(5):
        steps.append(block(x[:, t : t + 1], causal, LayerCache(cache, 0)))
        cache.length += 1
    torch.testing.assert_close(torch.cat(steps, dim=1), block(x, causal), atol=1e-5, rtol=1e-4)


def test_a_block_with_cross_attention_needs_a_memory():
    torch.manual_seed(0)
    block, x = small_block(cross_attention=MultiHeadAttention(8, 2)), torch.randn(1, 4, 8)
    memories = [block.cross_attention.project_memory(torch.randn(1, 3, 8)) for _ in range(2)]
    assert not torch.allclose(block(x, memory=memories[0]), block(x, memory=memories[1]))
    with pytest.raises(TypeError, match="needs a memory"):
        block(x)
