from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn import loss as losses
from glassformer.nn.loss import next_token_loss


def in_chunks_of(logits):
    return mock.patch.object(losses, "CHUNK", logits)


def a_problem(batch=2, length=5, width=6, vocab=7, bias=True):
    torch.manual_seed(0)
    hidden = torch.randn(batch, length, width, requires_grad=True)
    return hidden, nn.Linear(width, vocab, bias=bias), torch.randint(0, vocab, (batch, length))


def plain(hidden, head, targets):
    return F.cross_entropy(head(hidden).flatten(0, 1), targets.flatten())


def gradients(loss, hidden, head):
    return torch.autograd.grad(loss, [hidden, *head.parameters()])


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 9), st.booleans(), st.integers(1, 60))
def test_a_loss_in_chunks_equals_cross_entropy_in_value_and_gradients(
    batch, length, vocab, bias, chunk
):
    hidden, head, targets = a_problem(batch, length, 6, vocab, bias)
    expected = plain(hidden, head, targets)
    with in_chunks_of(chunk):
        found = next_token_loss(hidden, head, targets)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(
        gradients(3 * found, hidden, head), gradients(3 * expected, hidden, head)
    )


def test_a_loss_that_fits_in_one_chunk_equals_cross_entropy():
    problem = a_problem()
    torch.testing.assert_close(next_token_loss(*problem), plain(*problem))


def test_a_frozen_head_still_gives_gradients_to_the_hidden_states():
    hidden, head, targets = a_problem()
    head.requires_grad_(False)
    with in_chunks_of(14):
        (found,) = torch.autograd.grad(next_token_loss(hidden, head, targets), hidden)
    (expected,) = torch.autograd.grad(plain(hidden, head, targets), hidden)
    torch.testing.assert_close(found, expected)


def test_huge_logits_give_a_finite_loss_and_gradients():
    hidden, head, targets = a_problem()
    with in_chunks_of(14):
        loss = next_token_loss(hidden * 1e5, head, targets)
    torch.testing.assert_close(loss, plain(hidden * 1e5, head, targets))
    assert all(gradient.isfinite().all() for gradient in gradients(loss, hidden, head))


class Largest(TorchDispatchMode):
    """Notices the largest tensor that is made."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        if isinstance(result, torch.Tensor):
            self.numel = max(self.numel, result.numel())
        return result


def test_the_logits_are_never_all_there_at_once():
    hidden, head, targets = a_problem(batch=8, length=16, width=2, vocab=100)
    with in_chunks_of(1000), Largest() as largest:
        next_token_loss(hidden, head, targets).backward()
    assert largest.numel == 1000  # of 12,800


@pytest.mark.parametrize("quiet", [torch.no_grad, torch.inference_mode])
def test_evaluating_makes_no_gradients(quiet):
    hidden, head, targets = a_problem()
    expected = plain(hidden, head, targets).detach()
    with quiet(), in_chunks_of(14), FlopCounterMode(display=False) as counter:
        loss = next_token_loss(hidden, head, targets)
    torch.testing.assert_close(loss, expected)
    assert not loss.requires_grad
    assert counter.get_total_flops() == 2 * hidden.numel() * head.out_features  # forward only


@pytest.mark.parametrize("chunk", [2**22, 32])
def test_batches_accumulated_equal_one_large_batch(chunk):
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=13, d_model=16, num_heads=2, num_layers=2, context_length=8)
    model, batch = GPT(config), torch.randint(0, 13, (6, 9))

    def accumulated(parts):
        model.zero_grad()
        for part in batch.chunk(parts):
            loss = next_token_loss(model.hidden(part[:, :-1]), model.head, part[:, 1:])
            (loss / parts).backward()
        return [weight.grad.clone() for weight in model.parameters()]

    with in_chunks_of(chunk):
        torch.testing.assert_close(accumulated(3), accumulated(1), atol=1e-6, rtol=1e-4)


def test_in_chunks_a_tied_weight_learns_from_both_its_uses():
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=13, d_model=16, num_heads=2, num_layers=1, context_length=8)
    model, batch = GPT(config), torch.randint(0, 13, (2, 9))

    def gradient():
        loss = next_token_loss(model.hidden(batch[:, :-1]), model.head, batch[:, 1:])
        return torch.autograd.grad(loss, model.embedding.weight)

    whole = gradient()
    with in_chunks_of(40):
        torch.testing.assert_close(gradient(), whole, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("bias", [False, True])
def test_a_smoothed_loss_in_chunks_is_torchs(smoothing, bias):
    torch.manual_seed(0)
    head = nn.Linear(5, 11, bias=bias)
    hidden, targets = torch.randn(7, 5, requires_grad=True), torch.randint(11, (7,))
    expected = F.cross_entropy(head(hidden), targets, label_smoothing=smoothing)
    wanted = torch.autograd.grad(expected, [hidden, *head.parameters()])
    with in_chunks_of(33):  # three rows at a time
        found = next_token_loss(hidden, head, targets, smoothing)
    torch.testing.assert_close(found, expected)
    for mine, its in zip(
        torch.autograd.grad(found, [hidden, *head.parameters()]), wanted, strict=True
    ):
        torch.testing.assert_close(mine, its)
