"""A sample has a limit, covers the whole data, and counts all of it."""

from itertools import pairwise

from glassformer.text.tokenizer_sample import TextSample


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
