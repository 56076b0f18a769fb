"""Models side by side: one score decides, and the interval beside it is that of this score."""

import torch

from glassformer.comparison import Comparison, Line, _measure
from glassformer.tasks.labels.scores import Classification, judge


def answers(right: int, wrong: int, labels: tuple[str, ...]) -> Classification:
    """Always the first label."""
    logits = torch.tensor([[1.0, *([0.0] * (len(labels) - 1))]]).repeat(right + wrong, 1)
    targets = torch.tensor([0] * right + [len(labels) - 1] * wrong)
    return judge(logits, targets, labels)


def test_models_that_see_other_classes_are_compared_by_accuracy() -> None:
    uneven = answers(95, 5, ("usual", "rare"))
    narrow = answers(95, 0, ("usual",)).with_wrong(5)  # it does not know the rare label
    assert next(iter(uneven.scores())) == "macro_f1"
    assert next(iter(narrow.scores())) == "accuracy"
    lines = [Line("uneven", 1, uneven), Line("narrow", 1, narrow)]
    found = Comparison(lines, [], _measure([line.result.scores() for line in lines]))
    head, first, second = found.text().splitlines()[:3]
    assert head.split()[:3] == ["model", "parameters", "accuracy"]
    low, high = uneven.accuracy_interval
    for row in (first, second):
        assert f"0.9500  {low:.4f} to {high:.4f}" in row
    assert found.as_json()[0]["interval"] == [low, high]


def test_uneven_classes_are_compared_by_macro_f1() -> None:
    uneven = answers(95, 5, ("usual", "rare"))
    found = Comparison([Line("uneven", 1, uneven)], [], _measure([uneven.scores()]))
    assert found.text().split()[2:4] == ["macro", "F1"]
    assert found.as_json()[0]["interval"] == list(uneven.macro_f1_interval or ())
