"""The optimizer of a model: which weights learn by Muon, which by AdamW, and which decay."""

import pytest
import torch
from torch import nn

from glassformer.models.classifier import Classifier, ClassifierConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.training.optimizer_and_schedule import (
    EMBEDDING_FACTOR,
    clipped_together,
    make_optimizer,
)


def optimizer_of(model, weight_decay=0.1, kind="adamw"):
    return make_optimizer(
        kind, model, learning_rate=0.01, weight_decay=weight_decay, betas=(0.8, 0.9)
    )


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


def test_convolutions_learn_by_muon_like_the_matrices_that_they_are():
    """A convolution of 1×1 pixels is a linear layer, and learns exactly like one."""
    torch.manual_seed(0)
    linear, convolution = nn.Linear(5, 3, bias=False), nn.Conv2d(5, 3, 1, bias=False)
    convolution.weight.data.copy_(linear.weight[:, :, None, None])
    gradient = torch.randn(3, 5)
    for model in (linear, convolution):
        model.weight.grad = gradient.view_as(model.weight).clone()
        (group,) = (optimizer := optimizer_of(model, kind="muon")).param_groups
        assert group["muon"]
        optimizer.step()
    torch.testing.assert_close(convolution.weight.flatten(1), linear.weight)
    wide = nn.Conv2d(4, 6, 3)
    wide.weight.grad = torch.randn_like(wide.weight)
    before = wide.weight.detach().clone()
    wide.bias.grad = torch.zeros_like(wide.bias)
    optimizer_of(wide, weight_decay=0.0, kind="muon").step()
    moved = (wide.weight.detach() - before).flatten(1)  # (6, 36)
    sizes = torch.linalg.svdvals(moved) / (0.01 * 0.2 * 36**0.5)
    assert ((sizes > 0.8) & (sizes < 1.2)).all()  # all directions alike


@pytest.mark.parametrize("bias", [False, True])
def test_a_model_without_vectors_has_one_group_only(bias):
    assert len(optimizer_of(nn.Linear(3, 2, bias=bias)).param_groups) == 1 + bias


def test_gradients_can_be_clipped_in_fewer_bits():
    """Lightning refuses that for optimizers that say they unscale gradients by themselves."""
    for kind in ("adamw", "muon"):
        optimizer = optimizer_of(small_gpt(), kind=kind)
        assert not getattr(optimizer, "_step_supports_amp_scaling", False)


def test_without_muon_it_is_torchs_adamw_to_the_last_bit():
    ours, theirs = small_gpt(), small_gpt()
    theirs.load_state_dict(ours.state_dict())
    mine = optimizer_of(ours)
    groups = [{**group, "params": []} for group in mine.param_groups]
    for group, own in zip(groups, mine.param_groups, strict=True):
        named = {id(weight): name for name, weight in ours.named_parameters()}
        group["params"] = [theirs.get_parameter(named[id(weight)]) for weight in own["params"]]
        for key in ("muon", "momentum"):
            del group[key]
    reference = torch.optim.AdamW(groups, lr=0.01, fused=True)
    for optimizer, model in ((mine, ours), (reference, theirs)):
        for number in range(3):
            generator = torch.Generator().manual_seed(number)
            for weight in model.parameters():
                weight.grad = torch.randn(weight.shape, generator=generator)
            optimizer.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_settings_reach_the_optimizer():
    (group,) = optimizer_of(nn.Linear(3, 2, bias=False), weight_decay=0.3).param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.01, (0.8, 0.9), 0.3)


# --- Muon ---


def test_muon_moves_inner_matrices_and_adamw_the_rest():
    model = small_gpt(tie_weights=False)
    inner, outer, vectors = optimizer_of(model, kind="muon").param_groups
    assert inner["muon"]
    assert not outer["muon"]
    assert not vectors["muon"]
    moved = {id(weight) for weight in inner["params"]}
    linear = [m for m in model.blocks.modules() if isinstance(m, nn.Linear)]
    assert moved == {id(module.weight) for module in linear}
    assert {id(model.head.weight), id(model.embedding.weight)} <= {id(p) for p in outer["params"]}


def test_muons_other_groups_move_exactly_as_adamw_does_at_their_own_rate():
    ours, theirs = small_gpt(), small_gpt()
    theirs.load_state_dict(ours.state_dict())
    for model, kind in ((ours, "muon"), (theirs, "adamw")):
        optimizer = optimizer_of(model, kind=kind)
        for group in optimizer.param_groups:
            assert group["lr"] == pytest.approx(0.01 if kind == "adamw" or group["muon"] else 0.03)
            group["lr"] = 0.02
        for number in range(3):
            generator = torch.Generator().manual_seed(number)
            for weight in model.parameters():
                weight.grad = torch.randn(weight.shape, generator=generator)
            optimizer.step()
    assert torch.equal(ours.embedding.weight, theirs.embedding.weight)
    assert torch.equal(ours.final_norm.weight, theirs.final_norm.weight)
    assert not torch.equal(
        ours.blocks[0].feedforward.up.weight, theirs.blocks[0].feedforward.up.weight
    )


@pytest.mark.parametrize("shape", [(6, 6), (4, 10), (10, 4)])
def test_a_step_of_muon_is_as_its_equation_says(shape):
    model = nn.Linear(shape[1], shape[0], bias=False)
    before, gradient = model.weight.detach().clone(), torch.randn(shape)
    optimizer = optimizer_of(model, kind="muon")
    model.weight.grad = gradient.clone()
    optimizer.step()
    u, _, vt = torch.linalg.svd(gradient, full_matrices=False)  # all momentum points that way
    expected = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * max(shape) ** 0.5 * (u @ vt)
    torch.testing.assert_close(
        model.weight.detach(), expected, atol=0.01 * 0.2 * 3.2 * 0.12, rtol=0
    )


def test_muon_goes_on_from_its_saved_state_as_if_never_stopped():
    def steps(optimizer, model, numbers):
        for number in numbers:
            generator = torch.Generator().manual_seed(number)
            for weight in model.parameters():
                weight.grad = torch.randn(weight.shape, generator=generator)
            optimizer.step()

    whole, first = small_gpt(), small_gpt()
    first.load_state_dict(whole.state_dict())
    steps(optimizer_of(whole, kind="muon"), whole, range(6))
    optimizer = optimizer_of(first, kind="muon")
    steps(optimizer, first, range(3))
    second = small_gpt()
    second.load_state_dict(first.state_dict())
    resumed = optimizer_of(second, kind="muon")
    resumed.load_state_dict(optimizer.state_dict())
    steps(resumed, second, range(3, 6))
    for mine, theirs in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def with_a_bag():
    shape = {"vocab_size": 13, "d_model": 16, "num_heads": 2, "num_layers": 1, "labels": ("a", "b")}
    return Classifier(ClassifierConfig(**shape, bag=True))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_part_with_a_rate_of_its_own_learns_by_plain_gradient_steps(kind):
    model = with_a_bag()
    optimizer = optimizer_of(model, kind=kind)
    held = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    assert sorted(held) == sorted(id(weight) for weight in model.parameters())
    before = {name: weight.detach().clone() for name, weight in model.bag.named_parameters()}
    _, bag = model.members(torch.randint(0, 13, (3, 7)))
    bag[:, 0].sum().backward()
    optimizer.step()
    for name, weight in model.bag.named_parameters():
        rate = model.bag.gradient_rate * (EMBEDDING_FACTOR if name == "embedding.weight" else 1)
        gradient = weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
        torch.testing.assert_close(weight, before[name] - rate * gradient)
    assert model.bag.embedding.weight.grad.is_sparse


def test_a_large_gradient_of_one_part_does_not_shrink_that_of_another():
    model = with_a_bag()
    body, bag = clipped_together(model)
    assert {id(each) for each in (*body, *bag)} == {id(each) for each in model.parameters()}
    assert {id(each) for each in bag} == {id(each) for each in model.bag.parameters()}
