"""Norms and feed-forward layers against their equations."""

import pytest
import torch
from torch.nn import functional as F

from glassformer.nn.layers import FeedForward, norm


def test_layer_norm_centres_and_scales_each_position():
    x = torch.randn(2, 3, 16) * 5 + 2
    expected = (x - x.mean(-1, keepdim=True)) / (
        x.var(-1, keepdim=True, correction=0) + 1e-5
    ).sqrt()
    torch.testing.assert_close(norm("layer", 16)(x), expected, atol=1e-5, rtol=1e-4)


def test_rms_norm_scales_without_centring():
    x = torch.randn(2, 3, 16) * 5 + 2
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(norm("rms", 16, eps=1e-6)(x), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_of_bfloat16_sum_in_float32_and_stay_bfloat16(kind):
    x = torch.randn(3, 16).bfloat16()  # as autocast leaves queries and keys
    scaled = norm(kind, 16)(x)
    assert scaled.dtype == torch.bfloat16
    torch.testing.assert_close(scaled, norm(kind, 16)(x.float()).bfloat16())


def test_norms_have_the_parameters_they_say():
    def names(*arguments, **options):
        return [name for name, _ in norm(*arguments, **options).named_parameters()]

    assert names("layer", 4) == ["weight", "bias"]
    assert names("layer", 4, bias=False) == ["weight"]
    assert names("rms", 4) == ["weight"]


def test_norms_use_the_eps_they_are_given():
    for kind in ("layer", "rms"):
        assert norm(kind, 4, eps=0.5).eps == 0.5


ACTIVATIONS = {
    "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "gelu_tanh": lambda x: x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
    "relu": lambda x: x.clamp(min=0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_plain_layer_is_down_of_activation_of_up(name):
    layer, x = FeedForward(4, 9, name), torch.randn(2, 3, 4)
    hidden = ACTIVATIONS[name](x @ layer.up.weight.T + layer.up.bias)
    expected = hidden @ layer.down.weight.T + layer.down.bias
    torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=1e-4)
    assert layer.gate is None


def test_swiglu_is_down_of_the_gated_up():
    layer, x = FeedForward(4, 9, "swiglu", bias=False), torch.randn(2, 3, 4)
    gate, up = x @ layer.gate.weight.T, x @ layer.up.weight.T
    expected = (gate * torch.sigmoid(gate) * up) @ layer.down.weight.T
    torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=1e-4)
    assert [name for name, _ in layer.named_parameters() if "bias" in name] == []


def test_each_position_thinks_on_its_own():
    layer, x = FeedForward(4, 9), torch.randn(1, 5, 4)
    alone = torch.cat([layer(x[:, t : t + 1]) for t in range(5)], dim=1)
    torch.testing.assert_close(layer(x), alone)


def test_dropout_inside_the_layer_happens_in_training_only():
    layer, x = FeedForward(4, 64, dropout=0.5), torch.randn(1, 5, 4)
    assert not torch.equal(layer.train()(x), layer(x))
    expected = layer.down(F.gelu(layer.up(x)))
    torch.testing.assert_close(layer.eval()(x), expected)
