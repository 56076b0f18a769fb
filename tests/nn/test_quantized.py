"""Linear layers with 8-bit weights compute what those weights say, whoever computes."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.nn import int8 as quantized
from glassformer.nn.attention import merge_projections
from glassformer.nn.int8 import QuantizedLinear, is_quantized, quantize
from glassformer.nn.int8_kernels import KERNELS, largest_error

SIZES = {"vocab_size": 200, "num_layers": 2, "d_model": 64, "num_heads": 4, "context_length": 32}
SHAPES = [(1,), (7,), (2, 3), (1, 1), (150,)]


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kernel that computes the right thing on this machine."""
    engines = torch.backends.quantized.supported_engines
    if request.param not in (*engines, "float32") or largest_error(KERNELS[request.param]) > 1e-5:
        pytest.skip("not for this processor")
    monkeypatch.setattr(quantized, "int8_kernel", lambda: request.param)
    return request.param


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_a_product_is_that_of_the_rounded_weights_as_exactly_as_in_float32(kernel, shape, bias):
    layer, x = nn.Linear(72, 40, bias=bias), torch.randn(*shape, 72)
    rounded = QuantizedLinear.of(layer)
    exact = F.linear(x, rounded.weight * rounded.scale[:, None], layer.bias)
    found = rounded(x)
    assert found.shape == exact.shape
    torch.testing.assert_close(found, exact, atol=3e-6, rtol=1e-5)
    assert (found - layer(x)).norm() < 0.01 * layer(x).norm()


@torch.inference_mode()
def test_one_large_value_leaves_its_row_as_exact_as_float32_does(kernel):
    layer, x = QuantizedLinear.of(nn.Linear(64, 32)), torch.randn(3, 64)
    x[:, 5] *= 10_000
    exact = F.linear(
        x.double(), (layer.weight * layer.scale[:, None]).double(), layer.bias.double()
    )
    assert ((layer(x) - exact).abs().amax(1) < 1e-6 * exact.abs().amax(1)).all()


@torch.inference_mode()
def test_a_row_does_not_depend_on_how_large_the_others_are(kernel):
    layer, x = QuantizedLinear.of(nn.Linear(64, 32)), torch.randn(100, 64)
    alone = torch.cat([layer(row) for row in x.split(1)])
    some = layer(x[:3])
    x[3:] *= 10_000
    torch.testing.assert_close(layer(x)[:3], some, atol=0 if kernel != "float32" else 1e-6, rtol=0)
    torch.testing.assert_close(some, alone[:3], atol=1e-6, rtol=0)


@torch.inference_mode()
def test_what_is_no_number_is_not_hidden(kernel):
    layer, x = QuantizedLinear.of(nn.Linear(16, 8)), torch.randn(4, 16)
    x[0, 3], x[1, 3] = math.nan, math.inf
    assert layer(x).isfinite().all(-1).tolist() == [False, False, True, True]
    assert not any(layer(row).isfinite().all() for row in x[:2].split(1))


@torch.inference_mode()
def test_zeros_stay_zeros(kernel):
    layer = nn.Linear(16, 8)
    layer.weight[3] = 0
    rounded = QuantizedLinear.of(layer)
    for rows in (1, 5):
        found = rounded(torch.zeros(rows, 16))
        torch.testing.assert_close(found, layer.bias.expand(rows, 8))


def test_gradients_of_inputs_pass_through():
    layer, x = QuantizedLinear.of(nn.Linear(16, 8)), torch.randn(2, 16, requires_grad=True)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, (layer.weight * layer.scale[:, None]).sum(0).expand(2, 16))


def gpt(**changes: object) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig.model_validate(SIZES | {"initialization": "torch"} | changes)
    return GPT(config).eval()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "rotary", "norm": "rms", "num_kv_heads": 2, "activation": "swiglu"},
        {"positions": "relative", "bias": False, "tie_weights": False},
    ],
)
@torch.inference_mode()
def test_a_quantised_gpt_predicts_nearly_the_same(changes):
    model, ids = gpt(**changes), torch.randint(200, (3, 20))
    exact = model(ids).log_softmax(-1)
    quantize(model)
    merge_projections(model)
    found = model(ids).log_softmax(-1)
    divergence = F.kl_div(found, exact, log_target=True, reduction="none").sum(-1)
    assert divergence.mean() < 1e-3


@torch.inference_mode()
def test_merged_projections_and_the_cache_give_what_separate_layers_give():
    model, ids = gpt(), torch.randint(200, (2, 12))
    quantize(model)
    exact = model(ids)
    merge_projections(model)
    torch.testing.assert_close(model(ids), exact, atol=1e-4, rtol=1e-3)
    prompts, sampling = ids.tolist(), Sampling(do_sample=False)
    texts = [*decode(model, prompts, sampling=sampling, max_new_tokens=40, seed=0)]
    assert len(texts) == 40  # the window of 32 tokens moves on


def test_an_embedding_that_the_output_layer_shared_stays_as_it_was():
    model = gpt()
    before = model.embedding.weight.clone()
    quantize(model)
    assert isinstance(model.head, QuantizedLinear)
    assert torch.equal(model.embedding.weight, before)
    assert {layer for layer, *_ in model.named_modules() if layer.endswith(("query", "up"))}
    assert not any(type(module) is nn.Linear for module in model.modules())


def test_a_model_without_blocks_cannot_be_quantised():
    model = RNNLanguageModel(RNNLanguageModelConfig(vocab_size=50))
    with pytest.raises(GlassformerError, match=r"no Transformer blocks\. Leave out --quantize"):
        quantize(model)
    assert not is_quantized(model)
