import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import a_problem, same
from torch.nn import functional as F

from glassformer.tasks.labels.scores import (
    expected_calibration_error,
    fit_temperature,
    fit_weights,
    judge,
)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_fitted_temperature_is_the_best_on_a_fine_grid(multi_label):
    logits, targets, _ = a_problem(200, 4, multi_label=multi_label)
    logits = logits + 2 * (targets if multi_label else F.one_hot(targets, 4))  # some are right
    temperature = fit_temperature(logits, targets, multi_label)
    assert temperature == fit_temperature(logits, targets, multi_label)
    doubt = 1 / 202
    truth = targets.double() if multi_label else F.one_hot(targets, 4).double()
    goal = truth * (1 - doubt) + (1 - truth) * (doubt if multi_label else doubt / 3)
    of = F.binary_cross_entropy_with_logits if multi_label else F.cross_entropy

    def loss(t):
        return of(logits.double() / t, goal).item()

    assert 0.5 < temperature < 5
    grid = [math.exp(n / 50) for n in range(-500, 251)]
    assert loss(temperature) <= min(map(loss, grid)) + 1e-12


def test_a_fitted_temperature_recovers_what_the_logits_were_multiplied_by():
    torch.manual_seed(0)
    true = torch.randn(20000, 5)
    targets = torch.distributions.Categorical(logits=true).sample()
    assert fit_temperature(true, targets) == pytest.approx(1, rel=0.05)
    assert fit_temperature(true * 4, targets) == pytest.approx(4, rel=0.05)
    assert fit_temperature(true / 4, targets) == pytest.approx(0.25, rel=0.05)
    found = judge(true * 4, targets, list("abcde"), temperature=fit_temperature(true * 4, targets))
    assert found.expected_calibration_error < 0.02


def test_a_temperature_stays_within_its_limits():
    _, targets, _ = a_problem(40, 3)
    right = 5 * F.one_hot(targets, 3).float()
    assert fit_temperature(-right, targets) == pytest.approx(math.exp(5), rel=1e-5)


@pytest.mark.parametrize("size", [0.02, 1.0, 50.0])
def test_if_all_is_right_the_confidence_is_what_the_number_of_examples_allows(size):
    _, targets, labels = a_problem(40, 3)
    right = F.one_hot(targets, 3).float()
    temperature = fit_temperature(size * right, targets)
    found = judge(size * right, targets, labels, temperature=temperature)
    same(found.expected_calibration_error, 1 / 42)
    several = size * (2 * right - 1)
    temperature = fit_temperature(several, right, multi_label=True)
    found = judge(several, right, labels, temperature=temperature, multi_label=True)
    same(found.expected_calibration_error, 1 / 42)


def test_right_answers_with_far_too_little_confidence_are_calibrated():
    torch.manual_seed(0)
    targets = torch.arange(60) % 2
    logits = F.one_hot(targets, 2) * (0.01 + 0.04 * torch.rand(60, 1))  # right, at 0.50 to 0.51
    before = judge(logits, targets, ["a", "b"])
    assert before.accuracy == 1.0
    assert before.expected_calibration_error > 0.48
    after = judge(logits, targets, ["a", "b"], temperature=fit_temperature(logits, targets))
    assert after.expected_calibration_error < 0.05
    assert after.loss < before.loss / 10


def test_few_examples_or_equal_logits_give_a_temperature_of_1():
    assert fit_temperature(*a_problem(19, 3)[:2]) == 1.0
    assert fit_temperature(torch.zeros(100, 3), torch.zeros(100)) == 1.0


def test_a_calibration_error_counted_by_hand():
    confidence = torch.tensor([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    is_right = torch.tensor([True, True, True, False, True, False])
    # upper bin: accuracy 0.75 against 0.95; lower bin: 0.50 against 0.55
    same(expected_calibration_error(confidence, is_right, bins=10), (4 * 0.20 + 2 * 0.05) / 6)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 80), st.integers(1, 20), st.integers(0, 10**6))
def test_a_calibration_error_is_that_of_the_formula_bin_by_bin(size, bins, seed):
    generator = torch.Generator().manual_seed(seed)
    confidence = torch.rand(size, generator=generator)
    is_right = torch.rand(size, generator=generator) < 0.7
    expected = 0.0
    for n in range(bins):
        inside = (confidence.double() * bins).floor() == n
        if inside.any():
            gap = is_right[inside].double().mean() - confidence[inside].double().mean()
            expected += inside.double().mean().item() * abs(gap.item())
    same(expected_calibration_error(confidence, is_right, bins), expected)


def test_confident_answers_are_calibrated_only_if_they_are_right():
    sure = torch.ones(4)
    assert expected_calibration_error(sure, sure.bool()) == 0.0
    assert expected_calibration_error(sure, ~sure.bool()) == 1.0


def two_parts(multi_label=False, number=400):
    """Logits of a part that knows something, and of one that guesses."""
    guess, targets, _ = a_problem(number, 4, multi_label=multi_label)
    torch.manual_seed(1)
    truth = targets if multi_label else F.one_hot(targets, 4)
    return torch.randn(number, 4) + 2 * truth, 9 * guess, targets


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_part_that_only_guesses_counts_for_nothing(multi_label):
    knows, guesses, targets = two_parts(multi_label)
    a, b = fit_weights(guesses, knows, targets, multi_label)
    assert a == 0 < b
    a, b = fit_weights(knows, guesses, targets, multi_label)
    assert a > 20 * b >= 0


@pytest.mark.parametrize("multi_label", [False, True])
def test_two_parts_that_know_different_things_are_better_together(multi_label):
    first, _, targets = two_parts(multi_label)
    truth = targets if multi_label else F.one_hot(targets, 4)
    second = 5 * (torch.randn(first.shape) + 2 * truth)
    a, b = fit_weights(first, second, targets, multi_label)
    assert 2 < a / b < 12  # their scales do not matter

    def loss(logits):
        heat = fit_temperature(logits, targets, multi_label)
        labels = [str(n) for n in range(4)]
        return judge(logits, targets, labels, temperature=heat, multi_label=multi_label).loss

    assert loss(a * first + b * second) < min(loss(first), loss(second)) - 0.03


def test_a_few_examples_prove_a_large_difference_between_two_parts_but_no_small_one():
    knows, guesses, targets = two_parts(number=10)
    a, b = fit_weights(knows, guesses, targets)
    assert a > 20 * b >= 0
    a, b = fit_weights(9 * knows + 0.1 * guesses, knows, targets)  # sure of itself, hardly better
    assert a == 0 < b
