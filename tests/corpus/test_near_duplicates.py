"""Near-duplicates: found at the threshold, and nothing else is dropped."""

import random

import numpy as np
import pytest
from small_warcs import WORDS, prose

from glassformer.corpus.near_duplicates import (
    KEPT_TEXT,
    NEAR,
    VERDICT_ROW,
    Array,
    digest,
    drop_similar,
    shingles,
    signature,
    similarity,
)


def edited(text: str, num_edits: int, seed: int) -> str:
    """A copy in which words were replaced, at random places."""
    draw, words = random.Random(seed), text.split()
    for place in draw.sample(range(len(words)), num_edits):
        words[place] = draw.choice(WORDS) + draw.choice("abcdefgh")
    return " ".join(words)


def bands(texts: list[str]) -> list[Array]:
    """The texts that agree in a band of their signature."""
    found: dict[tuple[int, ...], list[int]] = {}
    for number, text in enumerate(texts):
        for band, minima in enumerate(signature(shingles(text))):
            found.setdefault((band, *minima), []).append(number)
    return [np.asarray(group) for group in found.values() if len(group) > 1]


def dropped(texts: list[str], threshold: float = 0.8) -> Array:
    verdicts = np.zeros(len(texts), dtype=VERDICT_ROW)
    drop_similar(verdicts, bands(texts), [shingles(text) for text in texts], threshold)
    return verdicts


def test_pairs_above_the_threshold_are_found_and_no_others() -> None:
    originals = [prose(seed, 30) for seed in range(80)]
    copies = [edited(text, 1 + seed % 16, seed) for seed, text in enumerate(originals)]
    truth = [
        similarity(shingles(one), shingles(other)) >= 0.8
        for one, other in zip(originals, copies, strict=True)
    ]
    assert 20 < sum(truth) < 60
    found = dropped(originals + copies)["verdict"][80:] == NEAR
    recall = sum(found & np.asarray(truth)) / sum(truth)
    assert recall >= 0.95
    assert not any(found & ~np.asarray(truth))


def test_a_chain_of_small_changes_drops_only_what_resembles_a_text_that_is_kept() -> None:
    chain = [prose(1, 40)]
    for seed in range(12):
        chain.append(edited(chain[-1], 4, seed))
    found = dropped(chain)
    kept = [at for at, row in enumerate(found) if row["verdict"] == KEPT_TEXT]
    assert len(kept) > 1
    for number, row in enumerate(found):
        if row["verdict"] == NEAR:
            assert int(row["of"]) in kept
            exact = similarity(shingles(chain[int(row["of"])]), shingles(chain[number]))
            assert row["similarity"] == exact >= 0.8


def test_case_punctuation_and_numbers_make_no_difference_to_shingles() -> None:
    one, other = "The river, in 1999, was OLD and wide.", "the river in 2024 was old and wide"
    assert shingles(one).tolist() == shingles(other).tolist()
    assert digest(one) != digest(other)
    assert digest("a  b\n c") == digest("a b c")


@pytest.mark.parametrize("text", ["", "one", "two words", "…", "中文文本没有空格"])
def test_every_text_has_shingles(text: str) -> None:
    assert len(shingles(text)) >= 1
    assert len(signature(shingles(text))) == 20
