"""Linear layers with 8-bit weights stay within the bounds that rounding implies."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.generation.logits import Sampling
from glassformer.generation.sample import decode
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.nn.attention import merge_projections
from glassformer.nn.int8 import int8_kernel
from glassformer.nn.int8_kernels import KERNELS
from glassformer.nn.quantized import QuantizedLinear, is_quantized, quantize

SIZES = {"vocab_size": 200, "num_layers": 2, "d_model": 64, "num_heads": 4, "context_length": 32}
SHAPES = [(1,), (7,), (2, 3), (1, 1), (33,)]


@pytest.fixture(params=["chosen", "fbgemm_7_bits", "float32"])
def kernel(request: pytest.FixtureRequest) -> str:
    if "fbgemm" in request.param and "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch has no fbgemm here")
    return int8_kernel() if request.param == "chosen" else request.param


def most_that_rounding_changes(x: Tensor, layer: nn.Linear) -> Tensor:
    """Half a step of each weight, half a step of each input (7 bits), and both: (…, out)."""
    weight = layer.weight.abs()
    step = 2 * x.abs().amax(-1, keepdim=True) / 127  # (…, 1)
    half = weight.amax(1) / 127 / 2  # (out,)
    of_weights = x.abs().sum(-1, keepdim=True) * half
    of_inputs = weight.sum(1) * step  # its zero point is rounded, too
    return 1.01 * (of_weights + of_inputs + x.size(-1) * half * step) + 1e-4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_a_product_differs_by_no_more_than_rounding_explains(kernel, shape, bias):
    torch.manual_seed(0)
    layer, x = nn.Linear(72, 40, bias=bias), torch.randn(*shape, 72)
    rounded = QuantizedLinear.of(layer)
    found = KERNELS[kernel].multiply(x, KERNELS[kernel].pack(rounded.weight, rounded.scale))
    if bias:
        found = found + layer.bias
    exact = layer(x)
    assert found.shape == exact.shape
    assert ((found - exact).abs() <= most_that_rounding_changes(x, layer)).all()
    assert (found - exact).norm() < 0.03 * exact.norm()


@torch.inference_mode()
def test_a_row_does_not_depend_on_how_large_the_others_are(kernel):
    torch.manual_seed(0)
    layer, x = QuantizedLinear.of(nn.Linear(64, 32)), torch.randn(3, 64)
    apart = KERNELS[kernel].pack(layer.weight, layer.scale)
    alone = KERNELS[kernel].multiply(x[:1], apart)
    x[1:] *= 10_000
    together = KERNELS[kernel].multiply(x, apart)
    assert (together[:1] - alone).norm() < 0.02 * alone.norm()


@torch.inference_mode()
def test_zeros_stay_zeros():
    layer = nn.Linear(16, 8)
    layer.weight[3] = 0
    found = QuantizedLinear.of(layer)(torch.zeros(5, 16))
    torch.testing.assert_close(found, layer.bias.expand(5, 8))


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
