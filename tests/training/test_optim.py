import pytest
import torch
from torch import nn

from glassformer.models.gpt import GPT, GPTConfig
from glassformer.training.optim import adamw


def optimizer_of(model, weight_decay=0.1):
    return adamw(model, learning_rate=0.01, weight_decay=weight_decay, betas=(0.8, 0.9))


def small_gpt(**options):
    sizes = {"vocab_size": 13, "d_model": 16, "num_heads": 2, "num_layers": 2}
    return GPT(GPTConfig(**sizes | options))


def test_matrices_decay_and_vectors_do_not():
    decayed, kept = optimizer_of(small_gpt()).param_groups
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
    assert {weight.dim() for weight in decayed["params"]} == {2}
    assert {weight.dim() for weight in kept["params"]} == {1}


def test_every_weight_is_in_one_group_once_and_a_tied_one_too():
    model = small_gpt()
    groups = optimizer_of(model).param_groups
    held = [id(weight) for group in groups for weight in group["params"]]
    assert sorted(held) == sorted(id(weight) for weight in model.parameters())
    assert held.count(id(model.head.weight)) == 1


def test_decay_shrinks_matrices_and_leaves_vectors_alone():
    model = nn.Linear(3, 2)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer_of(model).step()
    torch.testing.assert_close(model.weight, before["weight"] * (1 - 0.01 * 0.1))
    assert torch.equal(model.bias, before["bias"])


def test_frozen_weights_are_left_out():
    model = small_gpt()
    model.blocks[0].requires_grad_(False)
    held = {id(weight) for group in optimizer_of(model).param_groups for weight in group["params"]}
    assert held.isdisjoint(id(weight) for weight in model.blocks[0].parameters())
    assert id(model.embedding.weight) in held


@pytest.mark.parametrize("bias", [False, True])
def test_a_model_without_vectors_has_one_group_only(bias):
    assert len(optimizer_of(nn.Linear(3, 2, bias=bias)).param_groups) == 1 + bias


def test_the_settings_reach_the_optimizer():
    (group,) = optimizer_of(nn.Linear(3, 2, bias=False), weight_decay=0.3).param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.01, (0.8, 0.9), 0.3)
