import random

import numpy as np

from glassformer.data.pair_batches import PairBuckets, PairedRows


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
