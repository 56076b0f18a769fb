"""Rows of different lengths: in batches, by likeness of length, and on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.batches import IGNORED, Buckets, LabelledRows, sorted_batches
from glassformer.errors import GlassformerError

ROWS = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14]]


def wide_lengths(count: int = 8000) -> np.ndarray:
    """From 1 to some hundreds, as those of reviews are."""
    drawn = np.random.default_rng(0).lognormal(3.5, 0.9, count)
    return np.clip(drawn, 1, 512).astype(np.int64)


# --- batches ---


def test_rows_are_padded_on_the_right_and_are_otherwise_as_they_were():
    batch = LabelledRows.of(ROWS, [0, 1, 0, 1], "<u2").batch([2, 0, 1])
    assert batch.ids.tolist() == [[9, 10, 11, 12], [5, 6, 7, 0], [8, 0, 0, 0]]
    assert batch.is_text.sum(1).tolist() == [4, 3, 1]
    for ids, is_text, row in zip(batch.ids, batch.is_text, (2, 0, 1), strict=True):
        assert ids[is_text].tolist() == ROWS[row]
    assert batch.ids.dtype == torch.int64


def test_a_batch_is_no_wider_than_its_longest_row():
    rows = LabelledRows.of(ROWS, [0, 1, 0, 1], "<u2")
    assert rows.batch([1]).ids.shape == (1, 1)
    assert rows.batch([1, 3]).ids.shape == (2, 2)


def test_a_target_for_each_row_follows_its_row():
    assert LabelledRows.of(ROWS, [4, 5, 6, 7], "<u2").batch([3, 0]).targets.tolist() == [7, 4]


def test_targets_of_several_labels_are_rows_of_their_own():
    targets = [[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]
    assert LabelledRows.of(ROWS, targets, "<u2").batch([3, 1]).targets.tolist() == [
        [1, 1, 1],
        [1, 0, 0],
    ]


def test_a_target_for_each_item_is_padded_with_what_no_loss_counts():
    rows = LabelledRows.of(ROWS, np.arange(10), "<u2")
    assert rows.batch([1, 2]).targets.tolist() == [[3, *[IGNORED] * 3], [4, 5, 6, 7]]


def test_rows_of_one_item_can_have_a_target_for_each_item(tmp_path: Path):
    rows = LabelledRows.of([[5], [6]], [0, 1], "<u2", is_per_item=True)
    rows.save(tmp_path / "rows.safetensors")
    for each in (rows, LabelledRows.load(tmp_path / "rows.safetensors")):
        assert each.batch([1, 0]).targets.tolist() == [[1], [0]]
    assert LabelledRows.of([[5], [6]], [0, 1], "<u2").batch([1, 0]).targets.tolist() == [1, 0]


def test_numbers_are_padded_with_zeros():
    rows = LabelledRows.of([np.ones((2, 3)), np.full((1, 3), 2.0)], [0, 1], "<f4")
    batch = rows.batch([0, 1])
    assert batch.ids.shape == (2, 2, 3)
    assert batch.ids.dtype == torch.float32
    assert batch.ids[1].tolist() == [[2, 2, 2], [0, 0, 0]]


def test_parts_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="do not match"):
        LabelledRows.of(ROWS, [0, 1, 2], "<u2")


# --- buckets ---


def test_every_row_comes_exactly_once_an_epoch():
    buckets = Buckets(wide_lengths(1003), 16, seed=3)
    assert buckets.per_epoch == 63
    for epoch in range(3):
        numbers = range(epoch * 63, (epoch + 1) * 63)
        rows = np.concatenate([buckets[number] for number in numbers])
        assert sorted(rows) == list(range(1003))
        assert sorted(len(buckets[number]) for number in numbers) == [11, *[16] * 62]


def test_a_batch_depends_on_the_seed_and_its_number_alone():
    lengths = wide_lengths(500)
    straight, jumping = Buckets(lengths, 8, seed=1), Buckets(lengths, 8, seed=1)
    expected = [straight[number] for number in range(200)]
    for number in (150, 3, 70, 199, 3):
        assert np.array_equal(jumping[number], expected[number])
    other = Buckets(lengths, 8, seed=2)
    assert any(not np.array_equal(other[number], expected[number]) for number in range(5))


def test_every_epoch_has_another_order_and_other_batches():
    buckets = Buckets(wide_lengths(1280), 8, seed=0)
    epochs = [[frozenset(buckets[160 * e + n].tolist()) for n in range(160)] for e in range(2)]
    assert len({*epochs[0]} & {*epochs[1]}) < 16


def test_little_of_the_batches_is_padding():
    lengths = wide_lengths()
    buckets = Buckets(lengths, 32, seed=0)
    order = np.random.default_rng(0).permutation(len(lengths))
    unsorted = [lengths[order[start : start + 32]] for start in range(0, len(order), 32)]
    width = sum(int(part.max()) * len(part) for part in unsorted)
    wasted = 1 - lengths.sum() / width
    assert buckets.padding() <= 0.1
    assert wasted > 5 * buckets.padding()


def test_the_share_of_padding_is_counted_right():
    # Two batches of two, sorted: [1, 1] and [3, 4], of which one item in ten is padding.
    assert Buckets(np.array([3, 1, 4, 1]), 2, seed=0).padding() == pytest.approx(1 / 10)


def test_long_and_short_batches_are_mixed():
    lengths = wide_lengths(1280)
    buckets = Buckets(lengths, 8, seed=0)
    widths = [int(lengths[buckets[number]].max()) for number in range(32)]
    assert widths != sorted(widths)


# --- for reading ---


def test_sorted_batches_hold_every_row_once_within_the_limit():
    lengths = wide_lengths(700)
    batches = sorted_batches(lengths, 1024)
    assert sorted(np.concatenate(batches)) == list(range(700))
    assert all(lengths[rows].max() * len(rows) <= 1024 for rows in batches)
    assert len(batches) < 1.5 * lengths.sum() / 1024 + 2


def test_sorted_batches_have_at_most_so_many_rows():
    batches = sorted_batches(np.array([2, 1, 9, 3, 4]), 100, 2)
    assert [rows.tolist() for rows in batches] == [[1, 0], [3, 4], [2]]


def test_a_row_beyond_the_limit_is_a_batch_of_its_own():
    batches = sorted_batches(np.array([3, 50, 2, 60]), 10)
    assert [rows.tolist() for rows in batches] == [[2, 0], [1], [3]]


# --- on disk ---


@pytest.mark.parametrize("targets", [[0, 1, 2, 3], [[0, 1]] * 4, list(range(10))])
def test_what_is_saved_is_loaded_as_it_was(tmp_path: Path, targets: list):
    rows = LabelledRows.of(ROWS, targets, "<u2")
    rows.save(tmp_path / "rows.safetensors")
    again = LabelledRows.load(tmp_path / "rows.safetensors")
    assert len(again) == 4
    assert again.num_items == 10
    assert again.items.dtype == rows.items.dtype
    for one, other in zip(rows.batch(range(4)), again.batch(range(4)), strict=True):
        assert torch.equal(one, other)


def test_equal_rows_give_equal_bytes(tmp_path: Path):
    for name in ("one", "other"):
        LabelledRows.of(ROWS, [0, 1, 2, 3], "<u2").save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_damaged_or_missing_file_is_an_error_that_names_it(tmp_path: Path):
    path = tmp_path / "rows.safetensors"
    with pytest.raises(GlassformerError, match=r"rows\.safetensors cannot be read as examples"):
        LabelledRows.load(path)
    LabelledRows.of(ROWS, [0, 1, 2, 3], "<u2").save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-4], whole[:20], b"", b"not at all" * 9):
        path.write_bytes(damaged)
        with pytest.raises(GlassformerError, match="cannot be read as examples"):
            LabelledRows.load(path)


def test_a_file_whose_lengths_do_not_add_up_is_an_error(tmp_path: Path):
    rows = LabelledRows.of(ROWS, [0, 1, 2, 3], "<u2")
    rows.lengths = rows.lengths + 1
    rows.save(tmp_path / "rows")
    with pytest.raises(GlassformerError, match="do not match"):
        LabelledRows.load(tmp_path / "rows")
