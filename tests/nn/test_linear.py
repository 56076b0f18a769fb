import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.nn import linear
from glassformer.nn.linear import MANY_PRODUCTS, Linear, Merged

SHAPES = [(1, 1), (1, 4096), (4097,), (2, 3), (1,), (), (0,), (2, 0)]


@pytest.fixture(autouse=True, scope="module")
def small_products_count_as_large():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "MANY_PRODUCTS", 1)
        yield


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("quiet", [torch.no_grad, torch.inference_mode])
def test_few_rows_or_many_give_what_torchs_linear_gives(shape, bias, quiet):
    layer, x = Linear(24, 40, bias=bias), torch.randn(*shape, 24)
    with quiet():
        found = layer(x)
    torch.testing.assert_close(found, F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 8192))
def test_any_widths_give_what_torchs_linear_gives(width_in, width_out, rows):
    layer, x = Linear(width_in, width_out), torch.randn(rows, width_in)
    with torch.no_grad():
        found = layer(x)
    torch.testing.assert_close(found, F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=1e-4)


def test_rows_that_are_not_side_by_side_in_memory_are_read_right():
    layer = Linear(24, 8)
    hidden = torch.randn(3, 5, 24)
    turned = torch.randn(24, 6).T
    with torch.no_grad():
        for x in (hidden[:, -1], hidden.transpose(0, 1)[:2], turned):
            expected = F.linear(x, layer.weight, layer.bias)
            torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-4)


def test_weights_changed_after_use_count_at_once():
    layer, x = Linear(24, 8), torch.randn(1, 24)
    with torch.no_grad():
        layer(x)
        layer.weight.mul_(2)
        expected = F.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-4)


def test_small_products_are_torchs_own_when_they_have_gradients():
    layer, x = Linear(24, 8), torch.randn(1, 24, requires_grad=True)
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


@pytest.fixture
def learns_by_onednn(monkeypatch):
    if not linear.has_onednn():
        pytest.skip("needs oneDNN")
    monkeypatch.setattr(linear, "learns_by_onednn", lambda: True)
    monkeypatch.setattr(linear, "MANY_TO_LEARN", 1)


@pytest.mark.usefixtures("learns_by_onednn")
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (2, 1, 7)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [(), ("x",), ("weight", "bias"), ("bias",)])
def test_gradients_are_those_of_torch(shape, bias, frozen):
    layer, x = Linear(24, 8, bias=bias), torch.randn(*shape, 24)
    tensors = {"x": x, **dict(layer.named_parameters())}
    for name, tensor in tensors.items():
        tensor.requires_grad_(name not in frozen)
    learned = [tensor for tensor in tensors.values() if tensor.requires_grad]
    with Operations() as operations:
        found = layer(x)
    assert "mkldnn::_linear_pointwise" in operations.names
    expected = F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for loss in (torch.sum, lambda y: y.square().sum(), lambda y: y.transpose(0, -1)[0].sum()):
        gradients = [
            torch.autograd.grad(loss(y), learned, retain_graph=True) for y in (found, expected)
        ]
        torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("learns_by_onednn")
def test_a_product_without_anything_to_learn_has_no_gradient():
    layer = Linear(24, 8).requires_grad_(False)
    assert not layer(torch.randn(3, 24)).requires_grad


def test_other_precisions_are_left_to_torch():
    layer, x = Linear(24, 8).double(), torch.randn(1, 24, dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


class Operations(TorchDispatchMode):
    """Notes the name of everything that is computed."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **kwargs or {})


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
@pytest.mark.parametrize(
    ("rows", "width", "is_fast"),
    [
        (1, MANY_PRODUCTS // 16, True),
        (1, MANY_PRODUCTS // 16 - 1, False),
        (MANY_PRODUCTS // 256, 16, True),
        (MANY_PRODUCTS // 256 - 1, 16, False),
    ],
)
def test_large_products_take_the_fast_kernel_and_small_ones_do_not(
    monkeypatch, rows, width, is_fast
):
    monkeypatch.setattr(linear, "MANY_PRODUCTS", MANY_PRODUCTS)
    layer, x = Linear(16, width), torch.randn(rows, 16)
    with torch.no_grad(), Operations() as operations:
        found = layer(x)
        torch.testing.assert_close(found, F.linear(x, layer.weight, layer.bias))
    assert ("mkldnn::_linear_pointwise" in operations.names) == is_fast


def test_it_is_torchs_linear_to_everyone_else():
    torch.manual_seed(1)
    ours = Linear(5, 3)
    torch.manual_seed(1)
    theirs = nn.Linear(5, 3)
    assert isinstance(ours, nn.Linear)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("bias", [True, False])
def test_merged_layers_give_what_each_gives_alone(bias):
    parts = [Linear(24, width, bias=bias) for width in (8, 4, 4)]
    x = torch.randn(2, 3, 24)
    with torch.no_grad():
        alone = [part(x) for part in parts]
        together = Merged(*parts)(x)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other)


def test_merged_layers_keep_their_weights_and_follow_them():
    parts = [Linear(24, 8), Linear(24, 8)]
    before = [part.weight.clone() for part in parts]
    merged, x = Merged(*parts), torch.randn(1, 24)
    assert all(torch.equal(part.weight, was) for part, was in zip(parts, before, strict=True))
    with torch.no_grad():
        parts[1].weight.mul_(2)
        torch.testing.assert_close(merged(x)[1], parts[1](x))


def test_merged_layers_step_aside_for_gradients_and_for_other_weights():
    parts = [Linear(24, 8), Linear(24, 8)]
    merged = Merged(*parts)
    assert not merged.is_usable  # gradients are wanted here
    with torch.no_grad():
        assert merged.is_usable
        parts[0].weight.data = torch.randn(8, 24)
        assert not merged.is_usable


@pytest.mark.parametrize("shape", [(2, 1), (5,), (3, 4), (1, 7)])
@torch.no_grad()
def test_packed_weights_give_the_same_and_follow_a_change(shape):
    model, x = nn.ModuleList([Linear(24, 40)]), torch.randn(*shape, 24)
    linear.pack_weights(model)
    (layer,) = model
    for _ in range(2):
        expected = F.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-4)
        layer.weight.mul_(2)


def test_layers_that_are_rows_of_one_matrix_are_merged_without_a_copy():
    whole, parts = torch.randn(12, 6), [Linear(6, 4, bias=False) for _ in range(3)]
    for part, rows in zip(parts, whole.chunk(3), strict=True):
        part.weight.data = rows
    merged, x = Merged(*parts), torch.randn(5, 6)
    assert merged._product.keywords["weight"].data_ptr() == whole.data_ptr()
    with torch.no_grad():
        torch.testing.assert_close(torch.cat(merged(x), -1), x @ whole.T)
