import json
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.training.scores import expected_calibration_error, fit_temperature, judge, wilson

sizes = (st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6))


def a_problem(examples, classes, seed=0, multi_label=False):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(examples, classes, generator=generator)
    shape = (examples, classes) if multi_label else (examples,)
    targets = torch.randint(0, 2 if multi_label else classes, shape, generator=generator)
    return logits, targets, [f"class {n}" for n in range(classes)]


def same(found, expected):
    assert found == pytest.approx(expected, abs=1e-6)


def columns(found):
    scores = [(score.precision, score.recall, score.f1, score.support) for score in found.classes]
    return [list(column) for column in zip(*scores, strict=True)]


@settings(deadline=None, max_examples=60)
@given(*sizes)
def test_scores_are_those_of_scikit_learn(examples, classes, seed):
    logits, targets, labels = a_problem(examples, classes, seed)
    found, guess = judge(logits, targets, labels), logits.argmax(-1)
    same(found.accuracy, accuracy_score(targets, guess))
    same(found.macro_f1, f1_score(targets, guess, average="macro", zero_division=0))
    expected = precision_recall_fscore_support(
        targets, guess, labels=range(classes), zero_division=0
    )
    for mine, theirs in zip(columns(found), expected, strict=True):
        same(mine, list(theirs))
    same(found.loss, F.cross_entropy(logits, targets).item())


@settings(deadline=None, max_examples=60)
@given(*sizes)
def test_scores_of_several_labels_are_those_of_scikit_learn(examples, classes, seed):
    logits, targets, labels = a_problem(examples, classes, seed, multi_label=True)
    found = judge(logits, targets, labels, multi_label=True)
    guess = (logits > 0).long()
    # scikit-learn takes a single column for one yes-or-no question and not for a set of labels
    same(found.accuracy, (guess == targets).all(-1).double().mean().item())
    expected = (
        precision_recall_fscore_support(
            targets, guess, labels=range(classes), average=None, zero_division=0
        )
        if classes > 1
        else precision_recall_fscore_support(
            targets[:, 0], guess[:, 0], labels=[1], zero_division=0
        )
    )
    for mine, theirs in zip(columns(found), expected, strict=True):
        same(mine, list(theirs))
    same(found.loss, F.binary_cross_entropy_with_logits(logits, targets.float()).item())


def test_macro_f1_leaves_out_a_class_that_is_neither_true_nor_predicted():
    logits = torch.tensor([[2.0, 0.0, -9.0], [0.0, 2.0, -9.0], [2.0, 0.0, -9.0]])
    found = judge(logits, torch.tensor([0, 1, 1]), ["a", "b", "never"])
    same(found.macro_f1, 2 / 3)
    assert [score.support for score in found.classes] == [1, 2, 0]


def test_a_class_that_is_predicted_and_never_true_counts_against_macro_f1():
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    same(judge(logits, torch.tensor([0, 0]), ["a", "b", "c"]).macro_f1, (2 / 3) / 2)


def test_several_labels_are_right_only_as_a_whole_set():
    logits = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    found = judge(logits, torch.tensor([[1, 1], [1, 1]]), ["a", "b"], multi_label=True)
    same(found.accuracy, 0.5)


def test_texts_without_any_label_that_get_none_are_right():
    found = judge(-torch.ones(3, 2), torch.zeros(3, 2), ["a", "b"], multi_label=True)
    assert (found.accuracy, found.macro_f1) == (1.0, 0.0)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_temperature_changes_loss_and_calibration_but_no_prediction(multi_label):
    logits, targets, labels = a_problem(50, 4, multi_label=multi_label)
    plain = judge(logits, targets, labels, multi_label=multi_label)
    cool = judge(logits, targets, labels, temperature=0.1, multi_label=multi_label)
    assert cool.classes == plain.classes
    assert cool.accuracy == plain.accuracy
    assert cool.loss > plain.loss
    assert cool.expected_calibration_error > plain.expected_calibration_error
    scaled = judge(logits * 10, targets, labels, multi_label=multi_label)
    same(cool.loss, scaled.loss)


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
def test_where_all_is_right_scores_become_as_sure_as_so_many_examples_allow(size):
    _, targets, labels = a_problem(40, 3)
    right = F.one_hot(targets, 3).float()
    temperature = fit_temperature(size * right, targets)
    found = judge(size * right, targets, labels, temperature=temperature)
    same(found.expected_calibration_error, 1 / 42)
    several = size * (2 * right - 1)
    temperature = fit_temperature(several, right, multi_label=True)
    found = judge(several, right, labels, temperature=temperature, multi_label=True)
    same(found.expected_calibration_error, 1 / 42)


def test_scores_that_are_right_and_far_too_unsure_are_mended():
    torch.manual_seed(0)
    targets = torch.arange(60) % 2
    logits = F.one_hot(targets, 2) * (0.01 + 0.04 * torch.rand(60, 1))  # right, at 0.50 to 0.51
    before = judge(logits, targets, ["a", "b"])
    assert before.accuracy == 1.0
    assert before.expected_calibration_error > 0.48
    after = judge(logits, targets, ["a", "b"], temperature=fit_temperature(logits, targets))
    assert after.expected_calibration_error < 0.05
    assert after.loss < before.loss / 10


def test_there_is_no_temperature_to_fit_to_few_examples_or_to_logits_that_say_nothing():
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


def test_the_sure_and_right_are_calibrated_and_the_sure_and_wrong_are_not():
    sure = torch.ones(4)
    assert expected_calibration_error(sure, sure.bool()) == 0.0
    assert expected_calibration_error(sure, ~sure.bool()) == 1.0


def test_wilson_intervals_are_those_of_the_tables():
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Newcombe 1998, by formula
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**6), st.data())
def test_a_wilson_interval_holds_the_share_within_0_and_1(total, data):
    successes = data.draw(st.integers(0, total))
    low, high = wilson(successes, total)
    assert 0 <= low <= successes / total <= high <= 1
    mirrored = wilson(total - successes, total)
    assert (1 - high, 1 - low) == pytest.approx(mirrored)


def test_scores_are_written_as_json_and_as_a_table():
    logits, targets = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1])
    found = judge(logits, targets, ["good", "not so good"])
    written = json.loads(json.dumps(found.as_json()))
    assert list(written) == [
        "accuracy",
        "accuracy_interval",
        "macro_f1",
        "loss",
        "expected_calibration_error",
        "num_examples",
        "classes",
    ]
    assert written["classes"]["good"] == {
        "precision": 0.5,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
        "support": 1,
    }
    totals, *table = found.text().splitlines()
    assert "accuracy 0.5000" in totals
    assert totals.endswith("2 examples")
    assert len({len(line) for line in table}) == 1
    assert table[1].split() == ["good", "0.5000", "1.0000", "0.6667", "1"]


@pytest.mark.parametrize(
    ("logits", "temperature", "said"),
    [
        (torch.zeros(0, 2), 1.0, "no examples"),
        (torch.full((1, 2), math.nan), 1.0, "not numbers"),
        (torch.zeros(1, 2), 0.0, "temperature must be above 0"),
        (torch.zeros(1, 2), math.nan, "temperature must be above 0"),
    ],
)
def test_what_cannot_be_judged_is_said(logits, temperature, said):
    targets = torch.zeros(len(logits), dtype=torch.long)
    with pytest.raises(GlassformerError, match=said):
        judge(logits, targets, ["a", "b"], temperature=temperature)


def test_shapes_that_do_not_fit_are_refused_instead_of_broadcast():
    with pytest.raises(ValueError, match="do not fit"):
        judge(torch.zeros(3, 2), torch.zeros(1, dtype=torch.long), ["a", "b"])
    with pytest.raises(ValueError, match="do not fit"):
        judge(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), ["a", "b", "c"])


def test_to_score_imports_neither_lightning_nor_scikit_learn():
    program = (
        "import sys, glassformer.training.baseline, glassformer.training.entities;"
        "print({'lightning', 'torchmetrics', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "set()\n", found.stderr
