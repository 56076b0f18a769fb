"""A sample has a limit, covers the whole data, and counts all of it."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.tokenizer_training import TextSample, num_bytes


def test_a_little_text_is_kept_whole() -> None:
    sample = TextSample(limit=100)
    texts = ["ab", "é", "c"]
    for text in texts:
        sample.add(text)
    assert list(sample) == texts
    assert (sample.num_bytes, sample.is_partial) == (5, False)


def test_much_text_is_sampled_evenly() -> None:
    sample = TextSample(limit=1000)
    for number in range(5000):
        sample.add(f"{number:09} ")
    kept = [int(text) for text in sample]
    assert 50 <= len(kept) <= 100
    assert (sample.num_bytes, sample.is_partial) == (50_000, True)
    assert len({later - earlier for earlier, later in pairwise(kept)}) == 1
    assert kept[-1] > 4900


def test_a_rare_character_is_known_even_if_its_text_is_not_kept() -> None:
    sample = TextSample(limit=10, needs_alphabet=True)
    for text in ("aaaa", "bbbb", "cccc", "dddd"):
        sample.add(text)
    assert sample.alphabet == set("abcd")


def test_a_single_long_text_is_kept() -> None:
    sample = TextSample(limit=10)
    sample.add("x" * 50)
    assert list(sample) == ["x" * 50]


@given(st.lists(st.text(alphabet="aé漢", min_size=1, max_size=9), min_size=1), st.integers(1, 50))
def test_a_sample_of_known_sizes_is_the_same(texts: list[str], limit: int) -> None:
    one_by_one = TextSample(limit)
    for text in texts:
        one_by_one.add(text)
    sizes = np.array([num_bytes(text) for text in texts])
    sample = TextSample.of_sizes(sizes, lambda every: texts[::every], limit)
    assert list(sample) == list(one_by_one)
    for name in ("num_bytes", "num_kept_bytes", "is_partial"):
        assert getattr(sample, name) == getattr(one_by_one, name)
