"""Recurrent models: reading piece by piece, in padded batches, equals reading at once and alone."""

import copy
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.presets import RNN_CLASSIFIER_PRESETS, RNN_LM_PRESETS, RNN_SIZES
from glassformer.models.rnn import (
    RNNClassifier,
    RNNClassifierConfig,
    RNNLanguageModel,
    RNNLanguageModelConfig,
)
from glassformer.nn.recurrent import Recurrence

CELLS = ["rnn", "lstm", "gru"]
SMALL = {"vocab_size": 17, "context_length": 8, "d_embedding": 10, "d_model": 10, "num_layers": 2}
LABELLED = {"vocab_size": 17, "labels": ("a", "b"), "d_embedding": 6, "d_model": 8}
chunkings = st.lists(st.integers(1, 6), min_size=1, max_size=4)
several = settings(deadline=None, max_examples=12)


@pytest.fixture(params=CELLS, scope="module")
def model(request, shaken):
    torch.manual_seed(0)
    return shaken(RNNLanguageModel(RNNLanguageModelConfig(**SMALL, cell=request.param)))


def some_ids(batch, length):
    return torch.randint(0, 17, (batch, length))


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


# --- the recurrence itself ---


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_packed_rows_equal_rows_alone(cell, bidirectional):
    layers = Recurrence(cell, 5, 7, 2, bidirectional=bidirectional)
    x, lengths = torch.randn(3, 9, 5), torch.tensor([4, 9, 1])
    output, carried = layers(x, torch.arange(9) < lengths[:, None])
    for row, length in enumerate(lengths.tolist()):
        alone, alone_carried = layers(x[row : row + 1, :length])
        close(output[row, :length], alone[0])
        assert not output[row, length:].any()
        for found, expected in zip(carried, alone_carried, strict=True):
            close(found[:, row], expected[:, 0])


@pytest.mark.parametrize(("cell", "theirs"), [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_the_cells_are_torchs(cell, theirs):
    assert type(Recurrence(cell, 5, 7, 1).cells) is theirs


# --- the classifier ---


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "idf"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_classifier_sees_both_ends_of_a_text(cell, pooling, shaken):
    options = {"cell": cell, "pooling": pooling}
    model = shaken(RNNClassifier(RNNClassifierConfig(**LABELLED, **options)))
    ids = some_ids(1, 6)
    for changed in (0, 5):
        others = ids.clone()
        others[0, changed] = (others[0, changed] + 1) % 17
        assert not torch.allclose(model(ids), model(others))


def test_what_is_last_for_each_direction_is_the_end_of_its_way(shaken):
    model = shaken(RNNClassifier(RNNClassifierConfig(**LABELLED, num_layers=2)))
    ids = some_ids(1, 6)
    output, _ = model.recurrence(model.embedding(ids))  # (1, T, 2 · 8)
    forwards, backwards = output[:, -1, :8], output[:, 0, 8:]
    close(model.represent(ids), torch.cat((forwards, backwards), dim=-1))


def test_one_layer_may_have_dropout_without_a_complaint():
    config = RNNClassifierConfig(**LABELLED, dropout=0.5, word_dropout=0.1, head_dropout=0.0)
    model, ids = RNNClassifier(config), some_ids(1, 6)
    assert not torch.equal(model.train()(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))


# --- the language model ---


@torch.inference_mode()  # as generation does
def read(model, ids, chunks, padding):
    """Logits of the token after each chunk, and the state after the last."""
    state = model.start(None, padding, ids.size(1))
    logits = []
    for start, end in pairwise([0, *accumulate(chunks)]):
        new, state = model.step(ids[:, start:end], state)
        logits.append(new)
    return logits, state


@several
@given(chunks=chunkings, batch=st.integers(1, 3))
def test_reading_in_any_chunks_equals_reading_at_once(model, chunks, batch):
    ids = some_ids(batch, sum(chunks))
    found, _ = read(model, ids, chunks, torch.zeros(batch, dtype=torch.long))
    at_once = model(ids)
    for logits, end in zip(found, accumulate(chunks), strict=True):
        close(logits, at_once[:, end - 1])


@several
@given(chunks=chunkings, data=st.data())
def test_a_left_padded_row_equals_the_same_row_alone(model, chunks, data):
    length = sum(chunks)
    padding = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=3))
    ids = some_ids(len(padding), length)
    is_filler = torch.arange(length) < torch.tensor(padding)[:, None]
    others = torch.where(is_filler, (ids + 5) % 17, ids)
    found, state = read(model, ids, chunks, torch.tensor(padding))
    again, _ = read(model, others, chunks, torch.tensor(padding))
    assert torch.equal(found[-1], again[-1])
    for row, fillers in enumerate(padding):
        close(found[-1][row], model(ids[row : row + 1, fillers:])[0, -1])
        alone = read(model, ids[row : row + 1, fillers:], [length - fillers], torch.tensor([0]))[1]
        for ours, expected in zip(state.vectors, alone.vectors, strict=True):
            close(ours[:, row], expected[:, 0])


def test_every_position_behind_the_padding_is_as_without_it(model):
    ids, padding = some_ids(2, 7), torch.tensor([3, 0])
    hidden = model.hidden(ids, model.start(None, padding, 7))
    close(hidden[0, 3:], model.hidden(ids[:1, 3:])[0])
    close(hidden[1], model.hidden(ids[1:])[0])


def test_a_state_can_be_repeated_reordered_and_dropped(model):
    ids, next_ids = some_ids(3, 6), some_ids(4, 1)
    rows, padding = torch.tensor([2, 0, 2, 1]), torch.tensor([0, 2, 1])
    _, state = model.step(ids, model.start(None, padding, 8))
    twin = state.reorder(rows)
    model.step(some_ids(3, 1), state)  # the one goes on, and the other does not notice
    found, _ = model.step(next_ids, twin)
    for row, kept in enumerate(rows.tolist()):
        whole = torch.cat((ids[kept, padding[kept] :], next_ids[row]))
        close(found[row], model(whole[None])[0, -1])


def test_a_later_token_never_changes_earlier_logits(model):
    ids = some_ids(2, 9)
    others = ids.clone()
    others[:, 5:] = (others[:, 5:] + 1) % 17
    close(model(ids)[:, :5], model(others)[:, :5])
    assert not torch.allclose(model(ids)[:, 5], model(others)[:, 5])


def decoded(model, prompts, count):
    sampling = Sampling(temperature=0)
    return [*decode(model, prompts, sampling=sampling, max_new_tokens=count, seed=0)]


def test_decoding_writes_what_is_most_probable(model):
    prompts = [[3, 1], [4, 1, 5, 9]]
    steps = decoded(model, prompts, 4)
    for row, prompt in enumerate(prompts):
        text = list(prompt)
        for step in steps:
            assert step[row] == model(torch.tensor([text]))[0, -1].argmax().item()
            text.append(step[row])


def test_decoding_goes_on_beyond_the_window_of_training(model):
    steps = decoded(model, [[3, 1], list(range(12))], 30)
    assert len(steps) == 30
    assert all(0 <= token < 17 for step in steps for token in step)


def test_a_text_longer_than_the_window_can_be_read(model):
    assert model.context_length == 8
    assert model(some_ids(1, 50)).shape == (1, 50, 17)


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_takes_part_in_the_prediction(tied):
    model = RNNLanguageModel(RNNLanguageModelConfig(**SMALL, tie_weights=tied, dropout=0.1))
    assert (model.head.weight is model.embedding.weight) == tied
    model(some_ids(2, 20)).logsumexp(-1).sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    assert copy.deepcopy(model).head.weight.shape == (17, 10)


@pytest.mark.parametrize("cell", CELLS)
def test_a_new_model_can_learn_one_batch_by_heart(cell):
    model = RNNLanguageModel(RNNLanguageModelConfig(**SMALL | {"d_model": 48}, cell=cell))
    batch = some_ids(3, 12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    for _ in range(80):
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3


def test_the_presets_fit_their_configs():
    for preset in RNN_LM_PRESETS.values():
        assert RNNLanguageModelConfig(**preset).d_model == preset["d_model"]
    for preset in RNN_CLASSIFIER_PRESETS.values():
        assert RNNClassifierConfig(**preset).d_model == preset["d_model"]
    assert {name for _, name in RNN_SIZES} == RNN_LM_PRESETS.keys() == RNN_CLASSIFIER_PRESETS.keys()


def test_an_impossible_model_is_refused_with_the_reason():
    with pytest.raises(GlassformerError, match="tie_weights needs d_embedding equal"):
        parse(RNNLanguageModelConfig, {"tie_weights": True, "d_model": 9})
    with pytest.raises(GlassformerError, match="vocab_size"):
        RNNLanguageModel(RNNLanguageModelConfig())
    with pytest.raises(GlassformerError, match=r"vocab_size.* or num_features"):
        RNNClassifier(RNNClassifierConfig(labels=("a", "b")))
