"""Pairs are chosen on arrays as they would be one by one."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.pair_files import Pair
from glassformer.data.sentence_pairs import SHORT, UNEVEN, PairFacts, _num_words, hold_out_pairs
from glassformer.data.split import among


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
    found = hold_out_pairs(keys, wanted)
    assert set(keys[found].tolist()) == one_by_one(keys.tolist(), wanted)
    assert not set(keys[found]) & set(keys[~found])
    assert len(keys[~found])


def test_keys_are_found_among_others() -> None:
    keys = np.array([5, 2**64 - 1, 0, 7], np.uint64)
    known = np.array([7, 0, 7, 6], np.uint64)
    assert among(keys, known).tolist() == [False, False, True, True]


WORDS = st.sampled_from(
    ["a", "ab", "Löwe", "привет", "漢字", "かa漢", "ภาษาไทย", "កa", "𠀀", "ﷺ", "🙂"]
)
LINES = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)


def num_words(line: str) -> int:
    """Words between blanks, Han characters and kana, and every four letters of some scripts."""
    signs, letters = (
        "ぁ-ヿ㐀-鿿豈-\ufaff\U00020000-\U0003ffff",
        "\u0e00-\u0eff\u1000-\u109fក-\u17ff",
    )
    words = rf"[{signs}]|[{letters}]{{1,4}}|[^\s{signs}{letters}]+"
    return len(re.findall(words, line))


@given(LINES, LINES)
def test_the_words_of_sides_are_counted_in_any_script(source: str, target: str) -> None:
    fewer, more = sorted((num_words(source), num_words(target)))
    assert sorted((_num_words(source), _num_words(target))) == [fewer, more]
    facts = PairFacts(0, 4.0)
    facts.add(Pair(source, target, "a.tsv:1"))
    assert facts.has(UNEVEN).tolist() == [more > SHORT and more / fewer > 4.0]
