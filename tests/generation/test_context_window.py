"""The rule at the end of the context, against a reference that computes everything anew."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_decoder import VOCABULARY, TableDecoder, all_tokens, window_after, written_naively

from glassformer.generation.sampling import Sampling, decode

PROMPT = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=15)


def rows_of(decoder, prompts, count, **more):
    greedy = Sampling(do_sample=False)
    steps = decode(decoder, prompts, sampling=greedy, max_new_tokens=count, seed=0, **more)
    return [list(row) for row in zip(*steps, strict=True)]


def test_a_full_window_is_read_again_from_its_newer_half():
    decoder = TableDecoder(lambda tokens: [float(token == tokens[-1] + 1) for token in range(9)], 4)
    rows_of(decoder, [[0, 1, 2]], count=6)
    seen = [rows[0] for rows in decoder.seen]
    assert seen == [[0, 1, 2], [0, 1, 2, 3], [3, 4], [3, 4, 5], [3, 4, 5, 6], [6, 7]]


def test_of_a_long_prompt_the_last_context_is_read():
    decoder = TableDecoder(all_tokens, context_length=4)
    rows_of(decoder, [[0, 1, 2, 3, 4, 5]], count=1)
    assert decoder.seen == [[[2, 3, 4, 5]]]


def test_a_row_whose_window_is_not_full_forgets_nothing_when_its_neighbour_does():
    decoder = TableDecoder(all_tokens, context_length=6)
    (_, written) = rows_of(decoder, [[0, 1, 2, 3, 4, 5], [6, 5, 4]], count=4)
    assert [rows[1] for rows in decoder.seen] == [[6, 5, 4, *written[:step]] for step in range(4)]


@settings(max_examples=100, deadline=None)
@given(st.lists(PROMPT, min_size=1, max_size=3), st.integers(1, 9), st.integers(1, 2))
def test_windows_slide_as_the_rule_says(prompts, context_length, copies):
    decoder = TableDecoder(all_tokens, context_length)
    rows = rows_of(decoder, prompts, count=24, num_return_sequences=copies)
    alone = [written_naively(all_tokens, prompt, context_length, 24) for prompt in prompts]
    assert rows == [row for row in alone for _ in range(copies)]
    assert max(len(row) for step in decoder.seen for row in step) <= context_length


@pytest.mark.parametrize("context_length", [2, 3, 8, 9])
def test_every_token_is_written_with_nearly_half_a_context_in_view(context_length):
    prompt = list(range(5)) * 3
    windows = [
        len(window_after(prompt, [0] * count, context_length)) for count in range(len(prompt))
    ]
    decoder = TableDecoder(all_tokens, context_length)
    rows_of(decoder, [prompt], count=len(prompt))
    assert [len(step[0]) for step in decoder.seen] == windows
    assert min(windows) == max(1, context_length // 2)


def test_a_decoder_without_a_limit_never_starts_again():
    decoder = TableDecoder(all_tokens, context_length=None)
    (written,) = rows_of(decoder, [[0]], count=100)
    assert len(decoder.started) == 1
    assert decoder.seen[-1] == [[0, *written[:-1]]]


def test_a_decoder_with_a_memory_stops_where_its_window_is_full():
    decoder = TableDecoder(all_tokens, context_length=4)
    (row,) = rows_of(decoder, [[0]], count=8, memory="a sentence")
    assert len(row) == 4  # the prompt and three tokens are read; the fourth is only written
    assert decoder.started == [("a sentence", 1)]
