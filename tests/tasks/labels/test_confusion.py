"""Confusions: counts without zeros, neighbours that are confused, and never too many classes."""

import numpy as np

from glassformer.tasks.labels.scores import (
    MOST_CLASSES,
    OTHERS,
    by_confusion,
    confusion,
    confusion_chapter,
)


def test_counts_are_by_true_and_predicted_label_without_zeros() -> None:
    pairs = [("b", "a"), ("b", "b"), ("b", "a"), ("a", "a")]
    assert confusion(pairs, ["a", "b", "c"]) == {"a": {"a": 1}, "b": {"a": 2, "b": 1}}
    assert list(confusion([("new", "a"), ("a", "a")], ["a"])) == ["a", "new"]


def test_classes_that_are_confused_are_neighbours() -> None:
    matrix = 9 * np.eye(6, dtype=int)
    for a, b in ((0, 5), (1, 3), (2, 4)):
        matrix[a, b] = matrix[b, a] = 4
    order = by_confusion(matrix)
    assert sorted(order) == [*range(6)]
    for a, b in ((0, 5), (1, 3), (2, 4)):
        assert abs(order.index(a) - order.index(b)) == 1


def test_of_very_many_classes_those_with_errors_are_shown_and_nothing_is_lost() -> None:
    names = [f"{number:03}" for number in range(100)]
    pairs = [(name, name) for name in names] + [("099", "098")] * 3
    (chapter,) = confusion_chapter(confusion(pairs, names), "example", "All.")
    assert len(chapter.data["labels"]) == MOST_CLASSES
    assert {"099", "098", OTHERS} <= set(chapter.data["labels"])
    assert np.sum(chapter.data["counts"]) == len(pairs)
    assert "59 classes" in chapter.note


def test_a_single_class_is_no_picture() -> None:
    assert confusion_chapter({"a": {"a": 3}}, "example", "") == []
