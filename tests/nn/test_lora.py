import pytest
import torch
from torch import nn

from glassformer.errors import GlassformerError
from glassformer.nn.attention import MultiHeadAttention, merge_projections
from glassformer.nn.blocks import Block
from glassformer.nn.layers import FeedForward
from glassformer.nn.linear import Linear
from glassformer.nn.lora import LoRALinear, add_lora, merge_lora


class Model(nn.Module):
    """A body of two blocks and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(self._block() for _ in range(2)))
        self.head = Linear(16, 3)

    @staticmethod
    def _block():
        feedforward = FeedForward(16, 24, "swiglu")
        return Block(MultiHeadAttention(16, 4), feedforward, lambda: nn.LayerNorm(16))

    def forward(self, x):
        return self.head(self.body(x))


def trained(model, x):
    """The change is no longer zero."""
    optimizer = torch.optim.SGD([w for w in model.parameters() if w.requires_grad], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def test_the_layer_is_its_equation():
    layer = LoRALinear(nn.Linear(5, 7), rank=2, alpha=6)
    nn.init.normal_(layer.B)
    x = torch.randn(3, 5)
    weight = layer.base.weight + 6 / 2 * layer.B @ layer.A
    torch.testing.assert_close(layer(x), x @ weight.T + layer.base.bias)


def test_at_the_start_nothing_changes():
    model, x = Model(), torch.randn(2, 5, 16)
    before = model(x)
    add_lora(model.body, rank=4, alpha=8)
    assert torch.equal(model(x), before)


def test_only_the_change_and_the_head_learn():
    model, x = Model(), torch.randn(2, 5, 16)
    add_lora(model.body, rank=4, alpha=8)
    learning = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert {name.rsplit(".", 1)[1] for name in learning if "body" in name} == {"A", "B"}
    assert {name for name in learning if "body" not in name} == {"head.weight", "head.bias"}
    assert len(learning) == 2 + 2 * 2 * 7  # two blocks of four and three linear layers
    frozen = model.body[0].attention.query.base.weight.clone()
    before = model(x)
    trained(model, x)
    assert torch.equal(model.body[0].attention.query.base.weight, frozen)
    assert (model(x) - before).abs().max() > 1e-3


def test_a_merged_model_is_an_ordinary_one_that_says_the_same():
    model, x = Model(), torch.randn(2, 5, 16)
    names = list(model.state_dict())
    add_lora(model.body, rank=4, alpha=8)
    trained(model, x)
    before = model(x)
    merge_lora(model)
    torch.testing.assert_close(model(x), before, atol=1e-5, rtol=1e-5)
    assert list(model.state_dict()) == names
    assert not any(isinstance(module, LoRALinear) for module in model.modules())
    assert all(weight.requires_grad for weight in model.parameters())


def test_only_the_named_layers_change():
    model = Model()
    add_lora(model.body, rank=1, alpha=1, names=("query", "value"))
    changed = {name for name, m in model.named_modules() if isinstance(m, LoRALinear)}
    assert changed == {f"body.{i}.attention.{name}" for i in (0, 1) for name in ("query", "value")}


@pytest.mark.parametrize("names", [("query", "value"), ("gate", "up")])
def test_projections_that_were_merged_for_prediction_do_not_hide_the_change(names):
    model, x = Model(), torch.randn(2, 5, 16)
    merge_projections(model)
    add_lora(model.body, rank=4, alpha=8, names=names)
    trained(model, x)
    expected = model(x)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)


def test_a_model_without_such_layers_is_refused():
    model = Model()
    with pytest.raises(GlassformerError, match="no linear layer named bird"):
        add_lora(model, rank=1, alpha=1, names=("bird",))
    assert all(weight.requires_grad for weight in model.parameters())
