"""Labels have one name each, and are sorted as people would sort them."""

import pytest

from glassformer.data.labels import in_order, label_name, one_name, spelled_as


def test_labels_are_in_order() -> None:
    assert in_order(["10", "b", "2", "-1", "a", "2", "inf"]) == ("-1", "2", "10", "a", "b", "inf")


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        ((1, 1.0, "1", "1.0", " 1.0 "), "1"),
        ((0, 0.0, -0.0, "0.0", "-0.0"), "0"),
        ((-3, "-3.0"), "-3"),
        ((True, "true", "True", "TRUE"), "true"),
        ((False, "false", "False", "FALSE"), "false"),
    ],
)
def test_a_number_and_a_truth_value_have_one_name(spellings: tuple[object, ...], name: str) -> None:
    assert {label_name(each, "a:1", "column") for each in spellings} == {name}


@pytest.mark.parametrize(
    "label",
    ["01", "1.10", "1.1", "1.00", "01.0", "1e0", "+1", "1.0.0", "v1.0", "tRUE", "yes", "１.0"],
)
def test_ids_and_versions_are_kept_as_they_are(label: str) -> None:
    assert one_name(label) == label


def test_the_labels_of_a_model_are_found_by_the_name_in_the_data() -> None:
    assert spelled_as(["1.0", "True", "b"]) == {
        "1": "1.0",
        "1.0": "1.0",
        "true": "True",
        "True": "True",
        "b": "b",
    }
    assert spelled_as(["1", "1.0"])["1"] == "1"
