"""Each warp keeps the right set of tokens; after any of them something can still be chosen."""

import math
from functools import partial, reduce

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers.generation import logits_process as hf

from glassformer.generation.sampling import (
    NO_TOKEN,
    Sampling,
    min_p,
    no_repeat_ngram,
    repetition_penalty,
    temperature,
    top_k,
    top_p,
    warps,
)

PROBABILITIES = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2]])
NOTHING = torch.full((1, 1), NO_TOKEN)
ROW_OF_LOGITS = st.lists(st.floats(-50, 50) | st.just(-math.inf), min_size=5, max_size=5)
TOKENS = st.lists(st.integers(0, 4), min_size=1, max_size=12)
SAMPLING = st.builds(
    Sampling,
    temperature=st.floats(0, 5),
    top_k=st.none() | st.integers(1, 9),
    top_p=st.none() | st.floats(0, 1),
    min_p=st.none() | st.floats(0, 1),
    repetition_penalty=st.floats(0.1, 10),
    no_repeat_ngram_size=st.none() | st.integers(1, 4),
)


def kept(warp, ids=NOTHING):
    """The tokens that keep a probability, and their share of it."""
    shares = warp(ids, PROBABILITIES.log()).softmax(-1)[0]
    return {token: round(share, 4) for token, share in enumerate(shares.tolist()) if share > 0}


# The set that is left


def test_top_k_keeps_the_k_likeliest_and_their_proportions():
    assert kept(partial(top_k, 2)) == {1: round(0.4 / 0.65, 4), 3: round(0.25 / 0.65, 4)}


def test_top_k_above_the_vocabulary_keeps_everything():
    assert len(kept(partial(top_k, 100))) == 5


def test_top_p_keeps_the_fewest_tokens_that_reach_p():
    assert set(kept(partial(top_p, 0.60))) == {1, 3}
    assert set(kept(partial(top_p, 0.70))) == {1, 3, 4}
    assert sum(kept(partial(top_p, 0.70)).values()) == pytest.approx(1, abs=1e-3)


def test_top_p_of_zero_keeps_the_likeliest():
    assert kept(partial(top_p, 0.0)) == {1: 1.0}


def test_min_p_keeps_tokens_that_are_not_too_far_behind_the_likeliest():
    assert set(kept(partial(min_p, 0.45))) == {1, 3, 4}
    assert len(kept(partial(min_p, 0.0))) == 5


def test_a_temperature_of_one_half_squares_the_probabilities():
    squares = PROBABILITIES[0].square()
    expected = (squares / squares.sum()).tolist()
    assert list(kept(partial(temperature, 0.5)).values()) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("tiny", [1e-9, 1e-38, 1e-45, 5e-324])
def test_no_temperature_is_too_small(tiny):
    assert kept(partial(temperature, tiny)) == {1: 1.0}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (partial(temperature, 0.7), hf.TemperatureLogitsWarper(0.7)),
        (partial(top_k, 5), hf.TopKLogitsWarper(5)),
        (partial(top_p, 0.8), hf.TopPLogitsWarper(0.8)),
        (partial(min_p, 0.1), hf.MinPLogitsWarper(0.1)),
        (partial(repetition_penalty, 1.3), hf.RepetitionPenaltyLogitsProcessor(1.3)),
        (partial(no_repeat_ngram, 2), hf.NoRepeatNGramLogitsProcessor(2)),
    ],
    ids=lambda warp: "" if isinstance(warp, partial) else type(warp).__name__,
)
def test_a_warp_equals_that_of_transformers(ours, theirs):
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 6, (8, 30), generator=random)
    logits = torch.randn(8, 20, generator=random) * 3
    assert_close(ours(ids, logits).softmax(-1), theirs(ids, logits).softmax(-1))


@settings(deadline=None)
@given(ROW_OF_LOGITS.filter(lambda row: max(row) > -math.inf), TOKENS, SAMPLING)
def test_whatever_is_asked_for_the_probabilities_that_are_left_add_up_to_one(row, ids, sampling):
    logits = torch.tensor([row])
    shaped = reduce(lambda now, warp: warp(torch.tensor([ids]), now), warps(sampling), logits)
    assert shaped.softmax(-1).sum() == pytest.approx(1)
    assert not (shaped > -math.inf)[logits == -math.inf].any()


# Repetition


def test_tokens_seen_before_become_less_likely_whatever_their_sign():
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    ids = torch.tensor([[NO_TOKEN, 0, 1, 1]])
    assert repetition_penalty(2.0, ids, logits).tolist() == [[1.0, -4.0, 2.0, -2.0]]


def test_a_token_that_would_repeat_a_pair_is_forbidden():
    ids = torch.tensor([[1, 2, 1, 3, 1]])
    assert set(kept(partial(no_repeat_ngram, 2), ids)) == {0, 1, 4}


def test_each_row_is_only_forbidden_its_own_repeats():
    ids = torch.tensor([[0, 1, 0], [2, 3, 2]])
    forbidden = no_repeat_ngram(2, ids, torch.zeros(2, 4)) == -math.inf
    assert forbidden.nonzero().tolist() == [[0, 1], [1, 3]]


def test_padding_is_never_part_of_a_run():
    ids = torch.tensor([[NO_TOKEN, NO_TOKEN, 3, NO_TOKEN, NO_TOKEN]])
    assert len(kept(partial(no_repeat_ngram, 2), ids)) == 5


def test_when_every_token_would_repeat_all_stay_allowed():
    assert len(kept(partial(no_repeat_ngram, 1), torch.arange(5)[None])) == 5


def test_when_only_impossible_tokens_would_not_repeat_the_others_stay_allowed():
    logits = torch.tensor([[0.0, 0.0, -math.inf]])
    assert no_repeat_ngram(1, torch.tensor([[0, 1]]), logits).equal(logits)


@settings(deadline=None)
@given(TOKENS, st.integers(1, 4), st.integers(0, 5))
def test_forbidden_are_the_ends_of_earlier_runs_however_long_the_padding(text, size, padding):
    begin = text[len(text) - size + 1 :]
    runs = [text[place : place + size] for place in range(len(text) - size + 1)]
    ends = {run[-1] for run in runs if run[:-1] == begin}
    expected = set(range(6)) - ends  # token 5 is in no text: something is always left
    ids = torch.tensor([[NO_TOKEN] * padding + text])
    left = no_repeat_ngram(size, ids, torch.zeros(1, 6)) > -math.inf
    assert set(left[0].nonzero().flatten().tolist()) == expected


@settings(deadline=None)
@given(TOKENS, st.integers(0, 5), SAMPLING)
def test_padding_changes_nothing(text, padding, sampling):
    logits = torch.linspace(-2, 2, 5)[None]
    padded = torch.tensor([[NO_TOKEN] * padding + text])
    for warp in warps(sampling):
        assert warp(padded, logits).equal(warp(torch.tensor([text]), logits))


# Which warps are used


def test_plain_sampling_shapes_nothing():
    assert warps(Sampling()) == []


def test_greedy_decoding_still_avoids_repetition():
    sampling = Sampling(
        do_sample=False, temperature=0.5, top_k=3, repetition_penalty=2, no_repeat_ngram_size=3
    )
    assert [warp.func for warp in warps(sampling)] == [repetition_penalty, no_repeat_ngram]


def test_warps_come_in_the_order_of_transformers():
    sampling = Sampling(
        temperature=0.5, top_k=3, top_p=0.9, min_p=0.1, repetition_penalty=2, no_repeat_ngram_size=3
    )
    expected = [repetition_penalty, no_repeat_ngram, temperature, top_k, top_p, min_p]
    assert [warp.func for warp in warps(sampling)] == expected
