"""Pairs are chosen on arrays as they would be one by one."""

import numpy as np
import pytest

from glassformer.data.content import among
from glassformer.data.pair_cleaning import held_out


def one_by_one(keys: list[int], wanted: int) -> set[int]:
    """The keys that are held out, by a plain loop."""
    sizes = {key: keys.count(key) for key in sorted(keys)}
    chosen, size = set[int](), 0
    for key in sizes:
        if size + sizes[key] <= wanted and len(chosen) < len(sizes) - 1:
            chosen.add(key)
            size += sizes[key]
    return chosen or {min(sizes, key=lambda key: sizes[key])}


@pytest.mark.parametrize("seed", range(60))
def test_the_held_out_sources_are_the_first_that_fit(seed: int) -> None:
    draw = np.random.default_rng(seed)
    keys = draw.integers(0, draw.integers(2, 60), 100, dtype=np.uint64)
    keys[:2] = 0, 1  # at least two sources
    wanted = int(draw.integers(1, 120))
    found = held_out(keys, wanted)
    assert set(keys[found].tolist()) == one_by_one(keys.tolist(), wanted)
    assert not set(keys[found]) & set(keys[~found])
    assert len(keys[~found])


def test_keys_are_found_among_others() -> None:
    keys = np.array([5, 2**64 - 1, 0, 7], np.uint64)
    known = np.array([7, 0, 7, 6], np.uint64)
    assert among(keys, known).tolist() == [False, False, True, True]
