import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from glassformer.models.bag import Bag, BagConfig
from glassformer.training.learner import are_finite, clip
from glassformer.training.optimizer_and_schedule import make_optimizer

RATES = {"learning_rate": 0.1, "weight_decay": 0.0, "betas": (0.9, 0.99)}


def bag(is_sparse: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Bag(BagConfig(vocab_size=9, d_model=4, labels=("a", "b"), num_buckets=20))
    optimizer = make_optimizer("sgd", model, **RATES)
    model.embedding.sparse = is_sparse
    return model, optimizer


def gradients(model: nn.Module, most: float) -> list[Tensor]:
    model(torch.tensor([[1, 2, 2], [3, 3, 1]])).square().sum().backward()
    clip(model.parameters(), most)
    return [p.grad.to_dense() for p in model.parameters()]


@pytest.mark.parametrize("most", [1e-3, 1e9])
def test_sparse_gradients_are_clipped_like_dense_ones_and_like_torchs(most):
    sparse, dense = (gradients(bag(is_sparse)[0], most) for is_sparse in (True, False))
    model = bag(is_sparse=False)[0]
    model(torch.tensor([[1, 2, 2], [3, 3, 1]])).square().sum().backward()
    clip_grad_norm_(model.parameters(), most)
    torchs = [p.grad for p in model.parameters()]
    torch.testing.assert_close(sparse, dense)
    torch.testing.assert_close(dense, torchs)


def test_a_step_with_sparse_gradients_is_the_same_and_leaves_other_rows_alone():
    moved = []
    for is_sparse in (True, False):
        model, optimizer = bag(is_sparse)
        before = model.embedding.weight.detach().clone()
        gradients(model, 1e9)
        optimizer.step()
        moved.append(model.embedding.weight.detach())
    torch.testing.assert_close(*moved)
    assert torch.equal(moved[0][4:9], before[4:9])  # words that do not occur


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_noticed(value):
    model, _ = bag(is_sparse=True)
    gradients(model, 1e9)
    assert are_finite(model.parameters())
    model.embedding.weight.grad = model.embedding.weight.grad * value
    assert not are_finite(model.parameters())
