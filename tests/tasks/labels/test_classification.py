import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import a_problem, same
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from torch.nn import functional as F

from glassformer.errors import GlassformerError
from glassformer.inspect.chapters import macro_f1_interval
from glassformer.tasks.labels.scores import Classification, judge, measure_of

NAMES = "abc"

sizes = (st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6))


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


def test_scores_are_written_as_json_and_as_a_table():
    logits, targets = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1])
    found = judge(logits, targets, ["good", "not so good"])
    written = json.loads(json.dumps(found.as_json()))
    assert list(written) == [
        "accuracy",
        "accuracy_interval",
        "macro_f1",
        "macro_f1_interval",
        "loss",
        "expected_calibration_error",
        "num_examples",
        "classes",
        "confusion_matrix",
        "never_found",
        "unknown_labels",
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


# --- uneven classes ---


def always_the_first(*counts: int, num_right: int = 0) -> Classification:
    """So many examples of each class; always answering the first, except for some of the last."""
    targets = torch.tensor([number for number, count in enumerate(counts) for _ in range(count)])
    guesses = torch.zeros_like(targets)
    if num_right:
        guesses[-num_right:] = targets[-num_right:]
    return judge(F.one_hot(guesses, len(counts)) * 5.0, targets, NAMES[: len(counts)])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((99, 1), True), ((80, 20), True), ((79, 21), False), ((5, 5, 1), True), ((9, 0), False)],
)
def test_classes_are_uneven_if_one_occurs_four_times_as_often_as_another(
    counts: tuple[int, ...], expected: bool
) -> None:
    assert always_the_first(*counts).is_uneven == expected
    targets = np.repeat(np.arange(len(counts)), counts)
    assert measure_of(targets) == ("macro_f1" if expected else "accuracy")


def test_uneven_classes_are_judged_by_macro_f1_and_what_is_never_found_is_named() -> None:
    found = always_the_first(990, 10)
    assert found.accuracy == 0.99
    assert next(iter(found.scores())) == "macro_f1"
    same(found.macro_f1, 2 * 990 / 1990 / 2)
    assert found.interval is not None
    low, high = found.interval
    assert low <= found.macro_f1 <= high < 0.7
    first, second, third, *_ = found.parts()
    assert first.startswith("macro F1 0.4975 (95% interval ")
    assert (second, third[:15]) == ("never finds b", "accuracy 0.9900")
    written = json.loads(json.dumps(found.as_json()))
    assert next(iter(written)) == "macro_f1"
    assert written["macro_f1_interval"] == [low, high]
    assert written["never_found"] == ["b"]


def test_a_note_names_the_option_that_helps_unless_it_was_used() -> None:
    found = always_the_first(990, 8, 2)
    (note,) = found.with_advice(can_weigh=True).notes
    assert note.startswith(
        "2 of 3 labels are never found: b (0 of 8 examples), c (0 of 2 examples)"
    )
    assert "--set objective.class_weights=true" in note
    (note,) = found.with_advice(can_weigh=False).notes
    assert "class_weights" not in note


@pytest.mark.parametrize("found", [always_the_first(990, 10, num_right=1), always_the_first(5, 4)])
def test_there_is_no_note_if_rare_classes_are_found_or_none_is_rare(found: Classification) -> None:
    assert found.with_advice(can_weigh=True).notes == ()
    assert "never finds" not in found.headline()


def test_the_interval_of_macro_f1_narrows_with_more_examples() -> None:
    few, many = (always_the_first(90 * n, 10 * n, num_right=5 * n) for n in (1, 25))
    same(few.macro_f1, many.macro_f1)
    assert few.interval is not None
    assert many.interval is not None
    width = few.interval[1] - few.interval[0]
    assert many.interval[1] - many.interval[0] == pytest.approx(width / 5, rel=0.15)
    assert few.interval == always_the_first(90, 10, num_right=5).interval


@pytest.mark.parametrize(
    ("logits", "temperature", "message"),
    [
        (torch.zeros(0, 2), 1.0, "no examples"),
        (torch.full((1, 2), math.nan), 1.0, "predicts NaN"),
        (torch.zeros(1, 2), 0.0, "temperature must be above 0"),
        (torch.zeros(1, 2), math.nan, "temperature must be above 0"),
    ],
)
def test_logits_that_cannot_be_judged_are_refused(logits, temperature, message):
    targets = torch.zeros(len(logits), dtype=torch.long)
    with pytest.raises(GlassformerError, match=message):
        judge(logits, targets, ["a", "b"], temperature=temperature)


def test_shapes_that_do_not_fit_are_refused_instead_of_broadcast():
    with pytest.raises(ValueError, match="do not fit"):
        judge(torch.zeros(3, 2), torch.zeros(1, dtype=torch.long), ["a", "b"])
    with pytest.raises(ValueError, match="do not fit"):
        judge(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), ["a", "b", "c"])


def test_the_interval_of_macro_f1_is_wide_where_a_class_is_rare() -> None:
    low, high = macro_f1_interval({"usual": {"usual": 498}, "rare": {"rare": 2}})
    assert low < 0.85
    assert high == 1.0
    low, high = macro_f1_interval({"usual": {"usual": 498}, "rare": {"usual": 2}})
    assert low == pytest.approx(0.499, abs=1e-3)
    assert 0.6 < high < 0.95


def test_the_interval_of_macro_f1_covers_the_truth_nineteen_times_of_twenty() -> None:
    """Of a classifier that recognises 90 % of one class and 60 % of a rarer one."""
    draw, inside = np.random.default_rng(0), 0
    truth = macro_f1_of(900, 600)
    for _ in range(200):
        a, b = draw.binomial(150, 0.9), draw.binomial(50, 0.6)
        rows = {"a": {"a": int(a), "b": 150 - int(a)}, "b": {"b": int(b), "a": 50 - int(b)}}
        low, high = macro_f1_interval(rows)
        inside += low <= truth <= high
    assert 183 <= inside <= 199


def macro_f1_of(right_a: int, right_b: int) -> float:
    """With 1,000 examples of a for each 333⅓ of b."""
    share, a, b = 1 / 3, right_a / 1000, right_b / 1000
    f_a = 2 * a / (1 + a + share * (1 - b))
    f_b = 2 * share * b / (share + share * b + (1 - a))
    return (f_a + f_b) / 2
