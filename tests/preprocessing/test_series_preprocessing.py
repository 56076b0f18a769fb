"""Time series are scaled as in training, feature by feature."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing import SETTINGS, load_preprocessing
from glassformer.preprocessing.series import SeriesPreprocessing

STEPS = np.array([[1, 10], [2, 30], [3, 20], [6, 60]], dtype=np.float32)


@pytest.fixture
def scaled() -> SeriesPreprocessing:
    return SeriesPreprocessing.of(STEPS, ("x", "y"), "move")


def test_a_series_is_scaled_by_the_mean_and_deviation_of_the_training_data(
    scaled: SeriesPreprocessing,
) -> None:
    assert scaled.mean == (3.0, 30.0)
    assert scaled.deviation == pytest.approx(STEPS.astype(float).std(axis=0).tolist())
    (all_steps,) = scaled.encode([STEPS])
    assert all_steps.dtype == np.dtype(scaled.dtype)
    assert all_steps.mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert all_steps.std(axis=0) == pytest.approx([1, 1], abs=1e-6)
    other = np.array([[3, 30], [0, 0]], dtype=np.float64)  # not by its own scale
    (found,) = scaled.encode([other])
    expected = (other - [3, 30]) / np.array(scaled.deviation)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e-30, 1e30])
def test_a_constant_feature_does_not_divide_by_zero(value: float) -> None:
    steps = np.full((1000, 2), value, dtype=np.float32)
    steps[:, 1] = np.arange(1000)
    found = SeriesPreprocessing.of(steps, (), None)
    assert found.deviation[0] == 1
    (scaled,) = found.encode([steps])
    assert (scaled[:, 0] == 0).all()
    assert np.isfinite(found.encode([np.zeros((3, 2), np.float32)])[0]).all()


def test_a_deviation_too_small_for_32_bits_counts_as_none() -> None:
    steps = np.array([[0], [1e-42]], dtype=np.float32)
    found = SeriesPreprocessing.of(steps, (), None)
    assert found.deviation == (1.0,)
    assert np.isfinite(found.encode([steps])[0]).all()


def test_the_last_steps_of_a_long_series_are_read(scaled: SeriesPreprocessing) -> None:
    encoded = scaled.encode([STEPS, STEPS[:2]])
    rows, is_shortened = scaled.rows(encoded, 3)
    assert is_shortened == [True, False]
    assert np.array_equal(rows[0], encoded[0][1:])
    assert np.array_equal(rows[1], encoded[1])
    assert scaled.rows(encoded, None) == (encoded, [False, False])


@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (4,), (1, 4, 2)])
def test_a_series_of_other_features_is_refused(
    scaled: SeriesPreprocessing, shape: tuple[int, ...]
) -> None:
    with pytest.raises(GlassformerError, match=r"has the shape .* the model reads \(steps, 2\)"):
        scaled.encode([np.zeros(shape)])


def test_a_text_is_no_series(scaled: SeriesPreprocessing) -> None:
    with pytest.raises(UsageError, match="Pass a file of them with --data"):
        scaled.from_line("1 2 3")


def test_files_are_read_by_the_columns_of_the_training_data(
    tmp_path: Path, scaled: SeriesPreprocessing
) -> None:
    path = tmp_path / "test.csv"
    path.write_text("id,step,y,x,move\na,1,30,3,run\na,2,60,6,run\nb,1,10,1,walk\n")
    found, _ = scaled.read_labelled([str(path)], (), None, "utf-8")
    assert [each.labels for each in found] == [("run",), ("walk",)]
    assert found[0].input.tolist() == [[3, 30], [6, 60]]
    inputs = [values.tolist() for values, _ in scaled.read_inputs([str(path)], (), "utf-8")]
    assert inputs == [[[3, 30], [6, 60]], [[1, 10]]]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mean": [0.0]}, "mean has 1 values and deviation 2, but both need one per feature"),
        ({"deviation": [1.0] * 3}, "mean has 2 values and deviation 3, but both need one"),
        ({"mean": [], "deviation": []}, "mean"),
        ({"mean": [float("nan"), 0]}, "mean in .* is nan: it must be a finite number"),
        ({"mean": [0, float("-inf")]}, "mean in .* is -inf: it must be a finite number"),
        ({"deviation": [1, float("inf")]}, "deviation in .* is inf: it must be a finite number"),
        ({"deviation": [float("nan"), 1]}, "deviation in .* is nan: it must be a finite number"),
        ({"deviation": [0, 1]}, "deviation in .* is 0: it must be"),
        ({"deviation": [1, -2.5]}, "deviation in .* is -2.5: it must be"),
        ({"deviation": [1, 1e-300]}, "deviation in .* is 1e-300: it must be"),
        ({"mean": [1e300, 0]}, r"mean in .* is 1e\+300: it must be"),
        ({"mean": "0, 0"}, "mean in .* is '0, 0': it must be a list"),
        ({"mean": None}, "mean in .* is None: it must be a list"),
        ({"mean": [[0], 0]}, r"mean in .* is \[0\]: it must be a number"),
    ],
)
def test_a_scale_that_cannot_be_is_one_sentence(
    tmp_path: Path, scaled: SeriesPreprocessing, changes: dict[str, Any], error: str
) -> None:
    scaled.save(tmp_path)
    settings = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps(settings | changes))
    with pytest.raises(GlassformerError, match=error) as raised:
        load_preprocessing(tmp_path)
    assert str(tmp_path / SETTINGS) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_scale_is_named(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text('{"kind": "series", "mean": [1.0]}')
    with pytest.raises(GlassformerError, match="deviation is missing in"):
        load_preprocessing(tmp_path)


def test_a_series_without_steps_has_nothing_to_show() -> None:
    values = SeriesPreprocessing.of(np.ones((3, 2), dtype=np.float32), (), None)
    assert values.shown(np.zeros((0, 2), dtype=np.float32)) == ""
    assert values.shown(np.zeros((4, 2), dtype=np.float32)) == "4 steps"
