"""Labels are sorted as people would sort them."""

from glassformer.data.labels import in_order


def test_labels_are_in_order() -> None:
    assert in_order(["10", "b", "2", "-1", "a", "2", "inf"]) == ("-1", "2", "10", "a", "b", "inf")
