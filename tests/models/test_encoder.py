import copy

import pytest
import torch

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.nn.layers import WordDropout

SMALL = {"vocab_size": 17, "context_length": 12, "num_layers": 2, "d_model": 16, "num_heads": 4}
KINDS = {
    "learned": {"num_segments": 2},
    "sinusoidal": {"positions": "sinusoidal"},
    "rotary": {"positions": "rotary", "pre_norm": True, "final_norm": True},
    "none": {"positions": "none"},
    "modern": {
        "positions": "rotary",
        "norm": "rms",
        "pre_norm": True,
        "embedding_norm": False,
        "final_norm": True,
        "qk_norm": True,
        "activation": "swiglu",
        "bias": False,
        "initialization": "zero_output",
    },
}


@pytest.fixture(params=KINDS)
def encoder(request, shaken):
    return shaken(Encoder(EncoderConfig(**SMALL | KINDS[request.param])))


def padded(lengths):
    """Random ids, and which of them are text: row b has `lengths[b]` tokens."""
    ids = torch.randint(0, 17, (len(lengths), max(lengths)))
    return ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def test_a_row_does_not_depend_on_its_padding_nor_on_who_is_beside_it(encoder):
    ids, is_text = padded([9, 1, 4])
    together = encoder(ids, is_text)
    others = torch.where(is_text, ids, (ids + 5) % 17)
    for row, length in enumerate([9, 1, 4]):
        alone = encoder(ids[row : row + 1, :length])[0]
        torch.testing.assert_close(together[row, :length], alone, atol=1e-5, rtol=1e-4)
    again = encoder(others, is_text)
    torch.testing.assert_close(again[is_text], together[is_text])
    assert together.isfinite().all()


def test_every_position_sees_before_and_behind(encoder):
    ids = torch.randint(0, 17, (1, 6))
    for changed in (0, 5):
        others = ids.clone()
        others[0, changed] = (others[0, changed] + 1) % 17
        differs = (encoder(ids) - encoder(others)).abs().amax(-1)[0]
        assert (differs > 1e-6).all()


def test_text_without_padding_may_or_may_not_be_marked_as_such(encoder):
    ids, is_text = padded([5, 5])
    assert torch.equal(encoder(ids, is_text), encoder(ids))


def test_only_an_encoder_without_positions_sees_a_set(shaken):
    ids = torch.tensor([[3, 1, 4, 5, 9]])
    order = torch.tensor([4, 2, 0, 1, 3])
    for positions in ("learned", "sinusoidal", "rotary", "none"):
        encoder = shaken(Encoder(EncoderConfig(**SMALL, positions=positions)))
        moved = torch.allclose(encoder(ids)[:, order], encoder(ids[:, order]), atol=1e-5)
        assert moved == (positions == "none")


def test_segments_tell_two_parts_apart_and_are_the_first_unless_said(shaken):
    encoder = shaken(Encoder(EncoderConfig(**SMALL, num_segments=2)))
    ids = torch.randint(0, 17, (2, 6))
    first = torch.zeros_like(ids)
    assert torch.equal(encoder(ids), encoder(ids, segments=first))
    second = torch.tensor([0, 0, 0, 1, 1, 1]).expand(2, 6)
    assert not torch.allclose(encoder(ids), encoder(ids, segments=second))


def test_numbers_take_the_place_of_tokens(shaken):
    config = EncoderConfig(**SMALL | {"vocab_size": None}, num_features=3)
    encoder = shaken(Encoder(config))
    series = torch.randn(2, 7, 3)
    is_text = torch.arange(7) < torch.tensor([[7], [4]])
    found = encoder(series, is_text)
    assert found.shape == (2, 7, 16)
    alone = encoder(series[1:, :4])[0]
    torch.testing.assert_close(found[1, :4], alone, atol=1e-5, rtol=1e-4)


def test_every_weight_takes_part(encoder):
    encoder = copy.deepcopy(encoder)
    ids = torch.randint(0, 17, (2, 12))
    encoder(ids).square().mean(0).logsumexp(-1).sum().backward()
    assert [name for name, weight in encoder.named_parameters() if weight.grad is None] == []


def test_zero_output_makes_every_new_block_the_identity():
    encoder = Encoder(EncoderConfig(**SMALL | KINDS["modern"]))
    x = torch.randn(1, 4, 16)
    assert all(torch.equal(block(x), x) for block in encoder.blocks)


def test_bert_initialization_is_the_same_everywhere():
    encoder = Encoder(EncoderConfig(**SMALL | {"d_model": 128}))
    for linear in (encoder.blocks[0].attention.output, encoder.blocks[1].feedforward.down):
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not linear.bias.any()


def test_word_dropout_silences_whole_tokens_in_training_only():
    drop, x = WordDropout(0.25), torch.ones(40, 50, 8)
    dropped = drop.train()(x)
    silent = (dropped == 0).all(-1)
    assert torch.equal(silent, (dropped == 0).any(-1))
    assert silent.float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.05)  # the same on average
    assert torch.equal(drop.eval()(x), x)


def test_dropout_and_word_dropout_happen_in_training_only():
    for option in ("dropout", "word_dropout", "attention_dropout", "feedforward_dropout"):
        encoder = Encoder(EncoderConfig(**SMALL, **{option: 0.5}))
        ids = torch.randint(0, 17, (1, 6))
        assert not torch.equal(encoder.train()(ids), encoder(ids))
        assert torch.equal(encoder.eval()(ids), encoder(ids))


def test_a_text_longer_than_the_context_is_refused(encoder):
    with pytest.raises(GlassformerError, match="13 tokens do not fit in the model's context of 12"):
        encoder(torch.zeros(1, 13, dtype=torch.long))


def test_an_encoder_needs_to_know_what_it_reads():
    with pytest.raises(GlassformerError, match=r"vocab_size.* or num_features"):
        Encoder(EncoderConfig())


WRONG = {
    "d_model 10 is not a multiple of num_heads 4": {"d_model": 10},
    "even width, not 3": {"d_model": 12, "positions": "rotary"},
    "positions .* is 'relative'": {"positions": "relative"},
    "Did you mean word_dropout": {"word_dropuot": 0.1},
}


@pytest.mark.parametrize("message", WRONG)
def test_an_impossible_shape_is_refused_with_the_reason(message):
    with pytest.raises(GlassformerError, match=message):
        parse(EncoderConfig, WRONG[message], where="the recipe")
