"""The recurrent translator: its attention by hand, its steps, its padding, its own words."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from glassformer.models.rnn_seq2seq import RNNTranslator, RNNTranslatorConfig
from glassformer.nn.attention import PlaceAttention
from glassformer.nn.observe import listening

SHAPE = {"vocab_size": 13, "context_length": 20, "d_embedding": 6, "d_model": 8, "dropout": 0.0}
KINDS = [
    ("gru", True, "additive"),
    ("lstm", True, "general"),
    ("rnn", False, "dot"),
    ("gru", True, "none"),
]


def small(cell="gru", bidirectional=True, attention="additive", **more) -> RNNTranslator:
    torch.manual_seed(0)
    kind = {"cell": cell, "bidirectional": bidirectional, "attention": attention}
    model = RNNTranslator(RNNTranslatorConfig(**(SHAPE | {"num_layers": 2} | kind | more)))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def sentences(rows=3, length=5, seed=1):
    torch.manual_seed(seed)
    return torch.randint(13, (rows, length))


@torch.no_grad()
def test_additive_attention_by_hand():
    """score(s, h) = v · tanh(W_enc h + W_dec s + b), as the paper has it and the lecture meant."""
    torch.manual_seed(0)
    attention = PlaceAttention("additive", d_query=3, d_states=4)
    states, query = torch.randn(1, 2, 4), torch.randn(1, 3)
    w_enc, w_dec, bias = attention.encoder.weight, attention.decoder.weight, attention.decoder.bias
    v = attention.score.weight[0]
    scores = []
    for place in range(2):
        total = 0.0
        for unit in range(3):
            inner = sum(float(w_enc[unit, i] * states[0, place, i]) for i in range(4))
            inner += sum(float(w_dec[unit, i] * query[0, i]) for i in range(3))
            total += float(v[unit]) * math.tanh(inner + float(bias[unit]))
        scores.append(math.exp(total))
    weights = [score / sum(scores) for score in scores]
    with listening([attention.tap]) as (heard,):
        context = attention(query, attention.project_memory(states))
    torch.testing.assert_close(heard[0][0, 0], torch.tensor(weights))
    expected = sum(weight * states[0, place] for place, weight in enumerate(weights))
    torch.testing.assert_close(context[0], expected)


@pytest.mark.parametrize("kind", ["dot", "general"])
def test_multiplicative_attention_by_hand(kind):
    torch.manual_seed(0)
    attention = PlaceAttention(kind, d_query=4, d_states=4)
    states, query = torch.randn(1, 3, 4), torch.randn(1, 4)
    keys = states[0] if kind == "dot" else states[0] @ attention.encoder.weight.T
    weights = (keys @ query[0]).softmax(0)
    found = attention(query, attention.project_memory(states))
    torch.testing.assert_close(found[0], weights @ states[0])


def test_nobody_looks_at_padding():
    attention = PlaceAttention("additive", 3, 4)
    is_text = torch.tensor([[True, True, False]])
    with listening([attention.tap]) as (heard,):
        attention(torch.randn(2, 3), attention.project_memory(torch.randn(1, 3, 4), is_text))
    assert heard[0].shape == (1, 2, 3)
    assert heard[0][..., 2].eq(0).all()


@pytest.mark.parametrize(("cell", "bidirectional", "attention"), KINDS)
@torch.no_grad()
def test_padding_changes_nothing(cell, bidirectional, attention):
    model = small(cell, bidirectional, attention)
    source, target = sentences(1, 4), sentences(1, 5, seed=2)
    alone = model(source, target)
    both = torch.cat((torch.cat((source, torch.full((1, 3), 7)), dim=1), sentences(1, 7)))
    is_text = torch.tensor([[True] * 4 + [False] * 3, [True] * 7])
    found = model(both, target.expand(2, -1), is_text)[:1]
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("cell", "bidirectional", "attention"), KINDS)
@torch.no_grad()
def test_step_by_step_it_says_what_it_says_at_once(cell, bidirectional, attention):
    model = small(cell, bidirectional, attention)
    source, target = sentences(2, 4), sentences(2, 6, seed=2)
    expected = model(source, target)
    state = model.start(model.encode(source), torch.tensor([0, 1]), 6)
    logits, state = model.step(target[:, :3], state)
    torch.testing.assert_close(logits[0], expected[0, 2], atol=1e-5, rtol=1e-4)
    shorter = model(source[1:], target[1:, 1:])  # the second row began with a filler
    torch.testing.assert_close(logits[1], shorter[0, 1], atol=1e-5, rtol=1e-4)
    swapped = state.reorder(torch.tensor([1, 0]))
    logits, _ = model.step(target[:, 3:].flip(0), swapped)
    torch.testing.assert_close(logits[1], expected[0, -1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits[0], shorter[0, -1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_with_its_own_words_it_reads_what_it_would_have_written():
    model = small()
    source, target = sentences(2, 4), sentences(2, 5, seed=2)
    memory = model.encode(source)
    own = model.hidden(target, memory, own_share=1.0)
    written = target[:, :1]
    for _ in range(4):
        token = model(source, written)[:, -1].argmax(-1, keepdim=True)
        written = torch.cat((written, token), dim=1)
    torch.testing.assert_close(own, model.hidden(written, memory), atol=1e-5, rtol=1e-4)
    assert not torch.equal(written, target)


def test_without_attention_there_is_no_place_to_look_at():
    assert small(attention="none").taps == []
    assert len(small().taps) == 1


def test_dot_attention_needs_equal_widths():
    with pytest.raises(ValidationError, match="one-direction"):
        RNNTranslatorConfig(attention="dot")
