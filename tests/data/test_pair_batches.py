import random
from pathlib import Path

import numpy as np
import pytest

from glassformer.data import batches as pair_batches
from glassformer.data.batches import PairBuckets, PairedRows, finish_pairs, write_pairs


def rows(seed: int = 0, count: int = 200) -> PairedRows:
    draw = random.Random(seed)
    sides = [[[1] * draw.randint(1, 30) for _ in range(count)] for _ in range(2)]
    return PairedRows.of(*sides, "<u2")


def test_every_pair_comes_once_an_epoch_in_batches_of_bounded_size():
    found = PairBuckets(rows(), most_items=300, seed=3)
    for epoch in range(3):
        numbers = range(epoch * found.per_epoch, (epoch + 1) * found.per_epoch)
        batches = [found[number] for number in numbers]
        assert sorted(np.concatenate(batches)) == list(range(200))
        widths = [found.lengths[:, batch].max(axis=1).sum() * len(batch) for batch in batches]
        assert max(widths) <= 300
    assert found.padding() < 0.3


def test_the_pairs_of_a_batch_depend_only_on_the_seed_and_its_number():
    first, again, other = (PairBuckets(rows(), 300, seed) for seed in (3, 3, 4))
    straight = [first[number].tolist() for number in range(2 * first.per_epoch)]
    assert [again[number].tolist() for number in reversed(range(len(straight)))] == straight[::-1]
    assert straight[: first.per_epoch] != straight[first.per_epoch :]
    assert [other[number].tolist() for number in range(len(straight))] != straight


def places_one_by_one(lengths: np.ndarray, most_items: int) -> list[int]:
    """Where batches are cut, by a plain loop over the pairs."""
    sizes = lengths[:, np.lexsort(lengths[::-1])].T.tolist()
    edges, first, widest = [], 0, (0, 0)
    for place, (target, source) in enumerate(sizes):
        widest = (max(widest[0], target), max(widest[1], source))
        if place > first and (place + 1 - first) * sum(widest) > most_items:
            edges.append(place)
            first, widest = place, (target, source)
    return edges


@pytest.mark.parametrize("seed", range(40))
def test_batches_are_cut_as_by_a_loop_over_the_pairs(seed: int):
    draw = np.random.default_rng(seed)
    count, longest = int(draw.integers(1, 3000)), int(draw.integers(1, 80))
    lengths = draw.integers(1, longest + 1, (2, count), dtype=np.int32)
    lengths[1, : seed % 3] = 5000  # longer than a batch
    pairs = PairedRows.of([[0]] * count, [[0]] * count, "<u2")
    pairs.target.lengths, pairs.source.lengths = lengths
    for most_items in (1, 50, 300, 4000):
        found = PairBuckets(pairs, most_items, seed=0)
        assert found._edges == places_one_by_one(lengths, most_items)


@pytest.mark.parametrize("keep", ["all", "some", "none but the last"])
def test_pairs_are_written_in_batches_and_some_are_left_out_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
):
    monkeypatch.setattr(pair_batches, "_ROWS_AT_ONCE", 3)
    draw = random.Random(0)
    sides = [[[draw.randint(0, 99)] * draw.randint(1, 9) for _ in range(20)] for _ in range(2)]
    stored = [[np.array(row, "<u2").tobytes() for row in side] for side in sides]
    batches = [(stored[0][at : at + 7], stored[1][at : at + 7]) for at in range(0, 20, 7)]
    path = tmp_path / "train.safetensors"
    lengths = write_pairs(path, batches, "<u2")
    is_kept = np.array(
        [keep == "all" or n == 19 or (keep == "some" and n % 3 > 0) for n in range(20)]
    )
    kept = finish_pairs(path, lengths, is_kept, "<u2")
    found = PairedRows.load(path)
    for number, index in enumerate(is_kept.nonzero()[0].tolist()):
        assert found.source.row(number).tolist() == sides[0][index]
        assert found.target.row(number).tolist() == sides[1][index]
    assert len(found) == len(kept.source) == is_kept.sum()
