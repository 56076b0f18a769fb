"""Time series are split by label, reproducibly and without leaks."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from written_files import saved, written

from glassformer.data.documents import LabelledConfig
from glassformer.data.split import LabelledSplit
from glassformer.data.time_series import Series, read_series_split
from glassformer.errors import GlassformerError

WALKS = "id,step,x,y,label\na,1,0.5,2,walk\nb,0,5,6,run\na,0,1,1.5,walk\nb,1,7,8,run\n"


def split(path: str, seed: int = 0, **settings: object) -> LabelledSplit[Series]:
    return read_series_split(LabelledConfig.model_validate({"paths": path, **settings}), seed)


def values(found: list[Series]) -> list[list[list[float]]]:
    return [series.values.tolist() for series in found]


def many(path: Path, **sizes: int) -> str:
    labels = [label for label, size in sizes.items() for _ in range(size)]
    x = np.random.default_rng(0).normal(size=(len(labels), 4, 2))
    return saved(path, x=x, y=labels)


def test_a_tenth_of_every_label_is_held_out(tmp_path: Path) -> None:
    path = many(tmp_path / "a.npz", walk=40, run=20, odd=1)
    found = split(path)
    assert Counter(each.label for each in found.validation) == {"walk": 4, "run": 2}
    assert (len(found.training), found.training[0].num_features) == (55, 2)
    assert (found.labels, found.held_out) == (
        ("odd", "run", "walk"),
        "6 of 61 sequences, a random sample of every label",
    )
    assert found.notes == [
        "1 label has too few sequences to hold one out and is used only for training: odd"
    ]


def test_the_split_depends_on_the_seed_only(tmp_path: Path) -> None:
    path = many(tmp_path / "a.npz", walk=40, run=20)
    first, again = (split(path).validation for _ in range(2))
    assert values(first) == values(again)
    assert values(first) != values(split(path, seed=1).validation)


def test_equal_sequences_stay_on_one_side(tmp_path: Path) -> None:
    x = np.tile(np.arange(20.0), 3)[:, None]
    found = split(saved(tmp_path / "a.npz", x=x, y=np.arange(60) % 2))
    trained = {each.values.tobytes() for each in found.training}
    assert found.validation
    assert not trained & {each.values.tobytes() for each in found.validation}


def test_validation_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", WALKS)
    other = written(
        tmp_path / "b.csv", "label,y,x,step,id\nwalk,1.5,1,0,c\nwalk,2,0.5,1,c\nfly,1,1,0,d\n"
    )
    found = split(path, validation_paths=other)
    assert values(found.validation) == [[[1, 1.5], [0.5, 2]]]
    assert found.held_out == f"all of {other}"
    assert (found.text_column, found.label_column) == (("x", "y"), "label")
    assert split(path, validation_paths=other, label_column="label").label_column == "label"
    assert found.notes == [
        "left out: 1 sequence in the validation data with labels that do not occur in training: "
        "fly (1)",
        "1 sequence in the validation data also occurs in training",
    ]


def test_continuous_values_are_not_classes(tmp_path: Path) -> None:
    y = np.linspace(0, 1, 30)
    path = saved(tmp_path / "a.npz", x=np.arange(60.0).reshape(30, 2), y=y)
    with pytest.raises(
        GlassformerError, match=r"a\.npz:2: the label 0\.03\d* is one of 30 different numb"
    ):
        split(path)


def test_one_label_is_nothing_to_learn(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match='has only the label "walk"'):
        split(many(tmp_path / "a.npz", walk=9))
