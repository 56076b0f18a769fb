"""Reading piece by piece, in padded batches, equals reading at once and alone."""

import copy
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import GlassformerError
from glassformer.nn.attention import merge_projections

MODELS = {
    "learned": {"positions": "learned"},
    "sinusoidal": {"positions": "sinusoidal", "pre_norm": False},
    "relative": {"positions": "relative"},
    "rotary": {"positions": "rotary"},
    "none": {"positions": "none"},
    "grouped": {"positions": "learned", "num_kv_heads": 2},
    "grouped relative": {"positions": "relative", "num_kv_heads": 1},
    "modern": {
        "positions": "rotary",
        "norm": "rms",
        "qk_norm": True,
        "activation": "swiglu",
        "bias": False,
        "num_kv_heads": 2,
        "initialization": "zero_output",
    },
}
chunkings = st.lists(st.integers(1, 6), min_size=1, max_size=4)
several = settings(deadline=None, max_examples=12)


@pytest.fixture(params=MODELS, scope="module")
def model(request, gpt):
    return gpt(**MODELS[request.param])


def some_ids(batch, length):
    return torch.randint(0, 17, (batch, length))


def no_padding(batch):
    return torch.zeros(batch, dtype=torch.long)


@torch.inference_mode()  # as generation does
def read(model, ids, chunks, padding):
    """Logits of the token after each chunk, and the state after the last."""
    state = model.start(None, padding, ids.size(1))
    ends = [0, *accumulate(chunks)]
    logits = []
    for start, end in pairwise(ends):
        new, state = model.step(ids[:, start:end], state)
        logits.append(new)
    return logits, state


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@several
@given(chunks=chunkings, batch=st.integers(1, 3))
def test_reading_in_any_chunks_equals_reading_at_once(model, chunks, batch):
    ids = some_ids(batch, sum(chunks))
    found, state = read(model, ids, chunks, no_padding(batch))
    at_once = model(ids)
    for logits, end in zip(found, accumulate(chunks), strict=True):
        close(logits, at_once[:, end - 1])
    assert state.length == sum(chunks)


@several
@given(chunks=chunkings, data=st.data())
def test_a_left_padded_row_equals_the_same_row_alone(model, chunks, data):
    length = sum(chunks)
    shorter = st.integers(0, length - 1)
    padding = data.draw(st.lists(shorter, min_size=1, max_size=3))
    ids = some_ids(len(padding), length)
    found, _ = read(model, ids, chunks, torch.tensor(padding))
    for row, fillers in enumerate(padding):
        close(found[-1][row], model(ids[row : row + 1, fillers:])[0, -1])


@several
@given(chunks=chunkings, data=st.data())
def test_what_the_padding_holds_does_not_matter(model, chunks, data):
    length = sum(chunks)
    padding = torch.tensor([data.draw(st.integers(0, length - 1)), 0])
    ids = some_ids(2, length)
    is_filler = torch.arange(length) < padding[:, None]
    others = torch.where(is_filler, (ids + 5) % 17, ids)
    found, again = (read(model, each, chunks, padding)[0][-1] for each in (ids, others))
    assert torch.equal(found, again)
    assert found.isfinite().all()


def test_a_reordered_state_goes_on_as_the_rows_it_kept(model):
    ids, next_ids = some_ids(3, 6), some_ids(4, 1)
    rows = torch.tensor([2, 0, 2, 1])
    padding = torch.tensor([0, 2, 1])
    state = model.start(None, padding, 8)
    _, state = model.step(ids, state)
    found, _ = model.step(next_ids, state.reorder(rows))
    for row, kept in enumerate(rows.tolist()):
        whole = torch.cat((ids[kept, padding[kept] :], next_ids[row]))
        close(found[row], model(whole[None])[0, -1])


def test_two_continuations_of_one_row_do_not_disturb_each_other(model):
    ids = some_ids(1, 4)
    _, state = model.step(ids, model.start(None, no_padding(1), 6))
    tokens = torch.tensor([[3], [7]])
    _, state = model.step(tokens, state.reorder(torch.tensor([0, 0])))
    found, _ = model.step(torch.tensor([[1], [1]]), state)
    for row, token in zip(found, tokens, strict=True):
        close(row, model(torch.cat((ids[0], token, torch.tensor([1])))[None])[0, -1])


def test_a_state_at_the_end_of_the_context_refuses_another_token(gpt):
    model = gpt()
    _, state = model.step(some_ids(1, 24), model.start(None, no_padding(1), 24))
    with pytest.raises(GlassformerError, match="25 tokens do not fit in the model's context of 24"):
        model.step(some_ids(1, 1), state)


def test_a_state_without_room_refuses_another_token(gpt):
    model = gpt()
    _, state = model.step(some_ids(1, 5), model.start(None, no_padding(1), 5))
    with pytest.raises(GlassformerError, match="6 tokens do not fit in a cache with room for 5"):
        model.step(some_ids(1, 1), state)


def test_the_cache_holds_only_the_shared_heads(gpt):
    state = gpt(num_kv_heads=2).start(None, no_padding(3), 7)
    assert [each.shape for each in state.keys] == [(3, 2, 7, 4)] * 2  # (B, G, S, d) each


def test_merged_projections_change_nothing_but_rounding(gpt):
    model = copy.deepcopy(gpt(num_kv_heads=2))
    ids = torch.randint(17, (2, 9))
    with torch.no_grad():
        expected = model(ids)
        merge_projections(model)
        torch.testing.assert_close(model(ids), expected)
    model(ids).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
