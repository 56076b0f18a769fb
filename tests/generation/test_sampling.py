"""Decoding on tables of probabilities: what is written, by whom, and when it ends."""

from itertools import islice, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_decoder import VOCABULARY, TableDecoder, all_tokens, last_token, written_naively

from glassformer.errors import GlassformerError
from glassformer.generation.sampling import Sampling, decode

GREEDY = Sampling(do_sample=False)
CYCLE = [[0.1, 0.8, 0.1], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]  # 0 → 1 → 2 → 0 are the likeliest
ONE_THING_AFTER_ANOTHER = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
PROMPT = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12)


def rows_of(decoder, prompts, count=10, sampling=GREEDY, seed=0, **more):
    """What each row wrote, without the steps after its end."""
    steps = decode(decoder, prompts, sampling=sampling, max_new_tokens=count, seed=seed, **more)
    return [[token for token in row if token is not None] for row in zip(*steps, strict=True)]


def table(predict=all_tokens, context_length=None):
    return TableDecoder(predict, context_length)


# Choosing


def test_greedy_decoding_takes_the_likeliest_token_every_time():
    assert rows_of(table(last_token(CYCLE)), [[0]], count=5) == [[1, 2, 0, 1, 2]]


@pytest.mark.parametrize(
    "sampling",
    [
        *({"temperature": 0}, {"temperature": 1e-4}, {"temperature": 1e-45}, {"top_k": 1}),
        *({"top_p": 0}, {"top_p": 1e-9}, {"min_p": 1}),
    ],
    ids=str,
)
def test_sampling_from_the_likeliest_token_alone_is_greedy(sampling):
    prompts = [[0], [1, 2], [3, 3, 3]]
    greedy = rows_of(table(), prompts, count=30)
    assert rows_of(table(), prompts, count=30, sampling=Sampling(**sampling), seed=5) == greedy


@pytest.mark.parametrize("along", ["rows", "steps"])
@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        ({}, [0.05, 0.1, 0.2, 0.25, 0.4]),
        ({"temperature": 0.5}, [0.0025, 0.01, 0.04, 0.0625, 0.16]),
        ({"top_k": 3}, [0, 0, 0.2, 0.25, 0.4]),
        ({"top_p": 0.8, "temperature": 2}, [0, 0.1**0.5, 0.2**0.5, 0.25**0.5, 0.4**0.5]),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_they_are_likely(along, sampling, expected):
    rows, steps = (2000, 1) if along == "rows" else (1, 2000)
    decoder = table(last_token([[0.05, 0.1, 0.2, 0.25, 0.4]] * 5))
    written = rows_of(decoder, [[0]], steps, Sampling(**sampling), num_return_sequences=rows)
    counts = torch.tensor(written).flatten().bincount(minlength=5)
    expected = torch.tensor(expected) / sum(expected) * 2000
    possible = expected > 0
    chi_squared = ((counts - expected).square() / expected)[possible].sum()
    assert chi_squared < 18.47  # exceeded once in a thousand, with four degrees of freedom
    assert counts[~possible].sum() == 0


@pytest.mark.parametrize("drawn", [0.0, 1 - 2**-53])
def test_not_even_the_ends_of_chance_draw_an_impossible_token(monkeypatch, drawn):
    number = torch.tensor([drawn], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *size, **more: number)
    decoder = table(last_token([[0, 0.5, 0.5, 0]] * 4))
    assert rows_of(decoder, [[0]], 1, Sampling()) == [[1 if drawn == 0 else 2]]


def test_the_same_seed_writes_the_same_and_another_seed_does_not():
    def written(seed):
        return rows_of(table(), [[0], [1]], count=20, sampling=Sampling(), seed=seed)

    assert written(3) == written(3)
    assert written(3) != written(4)


def test_equal_prompts_in_one_batch_go_different_ways():
    first, second = rows_of(table(), [[0], [0]], count=20, sampling=Sampling())
    assert first != second


def test_a_shorter_text_is_the_beginning_of_a_longer_one():
    short, long = (rows_of(table(), [[0]], count, Sampling())[0] for count in (5, 20))
    assert long[:5] == short


def test_no_pair_of_tokens_is_written_twice_while_there_is_another():
    sampling = Sampling(no_repeat_ngram_size=2)
    written = rows_of(table(), [[0], [1, 2, 3]], count=20, sampling=sampling)
    for prompt, row in zip([[0], [1, 2, 3]], written, strict=True):
        pairs = list(pairwise(prompt + row))
        assert len(set(pairs)) == len(pairs)


def test_tokens_that_the_model_has_forgotten_still_count_as_repeated():
    sampling = Sampling(do_sample=False, no_repeat_ngram_size=1)
    (written,) = rows_of(table(context_length=2), [[0]], VOCABULARY - 1, sampling)
    assert sorted(written) == [1, 2, 3, 4, 5, 6]


# Rows


@settings(max_examples=50, deadline=None)
@given(st.lists(PROMPT, min_size=1, max_size=4))
def test_prompts_of_any_lengths_are_continued_together_as_each_alone(prompts):
    alone = [written_naively(all_tokens, prompt, None, 8) for prompt in prompts]
    assert rows_of(table(), prompts, count=8) == alone


@settings(max_examples=50, deadline=None)
@given(PROMPT, PROMPT, PROMPT, st.sampled_from([None, 1, 2, 5, 8]))
def test_a_row_writes_the_same_whoever_is_beside_it(prompt, neighbour, other, context_length):
    def second_row(first):
        decoder = table(context_length=context_length)
        return rows_of(decoder, [first, prompt], count=20, sampling=Sampling())[1]

    assert second_row(neighbour) == second_row(other)


def test_a_finished_row_gives_none_while_the_others_go_on():
    decoder = table(last_token(ONE_THING_AFTER_ANOTHER))
    steps = decode(
        *(decoder, [[0], [1]]),
        sampling=GREEDY,
        max_new_tokens=4,
        seed=0,
        is_finished=lambda row, token: row == 0 and token == 2,
    )
    assert list(steps) == [[1, 2], [2, 0], [None, 1], [None, 2]]


def test_decoding_ends_when_every_row_is_finished():
    decoder = table(last_token(ONE_THING_AFTER_ANOTHER))
    rows = rows_of(decoder, [[0], [1]], is_finished=lambda row, token: token == 2)
    assert rows == [[1, 2], [2]]
    assert len(decoder.seen) == 2  # nothing is computed for a third step


def test_several_sequences_of_a_prompt_are_rows_side_by_side_and_read_it_once():
    decoder = table(last_token(ONE_THING_AFTER_ANOTHER))
    rows = rows_of(decoder, [[0], [1]], count=2, num_return_sequences=3)
    assert rows == [[1, 2]] * 3 + [[2, 0]] * 3
    assert decoder.started == [(None, 2)]


def test_several_sequences_of_prompts_of_different_lengths_continue_their_own():
    prompts = [[0, 1, 2], [3], [4, 5]]
    rows = rows_of(table(), prompts, count=8, num_return_sequences=2)
    alone = [written_naively(all_tokens, prompt, None, 8) for prompt in prompts]
    assert rows == [row for row in alone for _ in range(2)]


def test_without_prompts_nothing_is_written():
    assert rows_of(table(), []) == []


# Limits


def test_no_more_is_prepared_than_is_asked_for():
    steps = decode(table(), [[0]], sampling=Sampling(), max_new_tokens=10**14, seed=0)
    assert len(list(islice(steps, 3))) == 3


def test_a_model_that_predicts_nan_is_reported():
    with pytest.raises(GlassformerError, match="NaN"):
        rows_of(table(lambda tokens: [0.0, float("nan")]), [[0]], sampling=Sampling())
