"""The captioner: its decoder is torch's, its steps are its whole, its beams share an image."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.generation.beam import Beams, beam_search
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.captioner import Captioner, CaptionerConfig
from glassformer.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from glassformer.nn.observe import listening

IMAGES = {"image_size": (16, 24), "num_channels": 3, "patch_size": 4, "vocab_size": 13}
SHAPE = IMAGES | {"context_length": 12, "num_layers": 2, "d_model": 16, "num_heads": 4}
SHAPE |= {"dropout": 0.0, "d_feedforward": 32}
RECURRENT = IMAGES | {"context_length": 12, "d_model": 16, "d_embedding": 8, "dropout": 0.0}


def captioner(**more: Any) -> Captioner:
    torch.manual_seed(0)
    return Captioner(CaptionerConfig(**SHAPE | more))


def show_attend_tell(**more: Any) -> ShowAttendTell:
    torch.manual_seed(0)
    return ShowAttendTell(ShowAttendTellConfig(**RECURRENT | more))


@pytest.fixture(params=["captioner", "rotary", "convolution", "lstm", "gru", "patches", "ungated"])
def model(request: pytest.FixtureRequest, shaken: Any) -> Any:
    make = {
        "captioner": lambda: captioner(),
        "rotary": lambda: captioner(positions="rotary", num_encoder_layers=1),
        "convolution": lambda: captioner(embedding="convolution"),
        "lstm": lambda: show_attend_tell(),
        "gru": lambda: show_attend_tell(cell="gru"),
        "patches": lambda: show_attend_tell(embedding="patches"),
        "ungated": lambda: show_attend_tell(gated=False),
    }
    return shaken(make[request.param]())


def images(count: int = 2, seed: int = 1) -> Tensor:
    return torch.randn(count, 3, 16, 24, generator=torch.Generator().manual_seed(seed))


def words(rows: int = 2, length: int = 6, seed: int = 2) -> Tensor:
    return torch.randint(13, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_the_decoder_is_torchs(shaken: Any) -> None:
    """One block against nn.TransformerDecoderLayer, with the same weights and patch states."""
    ours = shaken(captioner(num_layers=1, activation="gelu", final_norm=False))
    theirs = nn.TransformerDecoderLayer(
        16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).eval()
    (block,) = ours.decoder
    for attention, torchs in (
        (block.attention, theirs.self_attn),
        (block.cross_attention, theirs.multihead_attn),
    ):
        parts = (attention.query, attention.key, attention.value)
        torchs.in_proj_weight.copy_(torch.cat([each.weight for each in parts]))
        torchs.in_proj_bias.copy_(torch.cat([each.bias for each in parts]))
        torchs.out_proj.load_state_dict(attention.output.state_dict())
    theirs.linear1.load_state_dict(block.feedforward.up.state_dict())
    theirs.linear2.load_state_dict(block.feedforward.down.state_dict())
    norms = (block.attention_norm, block.cross_attention_norm, block.feedforward_norm)
    for norm, torchs_norm in zip(norms, (theirs.norm1, theirs.norm2, theirs.norm3), strict=True):
        torchs_norm.load_state_dict(norm.state_dict())
    target, pixels = words(), images()
    x = ours.embedding(target) + ours.positions.table.weight[: target.size(1)]
    mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
    expected = theirs(x, ours.encoder(pixels), tgt_mask=mask, tgt_is_causal=True)
    found = ours.hidden(target, ours.encode(pixels))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_step_by_step_it_says_what_it_says_at_once(model: Any) -> None:
    pixels, target = images(), words()
    expected = model(pixels, target)
    state = model.start(model.encode(pixels), torch.tensor([0, 1]), 12)
    logits, state = model.step(target[:, :3], state)
    torch.testing.assert_close(logits[0], expected[0, 2], atol=1e-5, rtol=1e-4)
    shorter = model(pixels[1:], target[1:, 1:])  # the second row began with a filler
    torch.testing.assert_close(logits[1], shorter[0, 1], atol=1e-5, rtol=1e-4)
    swapped = state.reorder(torch.tensor([1, 0]))
    logits, _ = model.step(target[:, 3:].flip(0), swapped)
    torch.testing.assert_close(logits[1], expected[0, -1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits[0], shorter[0, -1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_later_word_never_changes_an_earlier_prediction(model: Any) -> None:
    pixels, target = images(), words()
    other = target.clone()
    other[:, 4] = (other[:, 4] + 1) % 13
    before, after = model(pixels, target), model(pixels, other)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])


@torch.no_grad()
def test_an_image_is_read_alike_alone_and_among_others(model: Any) -> None:
    pixels, target = images(3), words(3)
    torch.testing.assert_close(
        model(pixels[1:2], target[1:2]), model(pixels, target)[1:2], atol=1e-5, rtol=1e-4
    )
    assert not torch.allclose(model(pixels[:1], target[:1]), model(pixels[1:2], target[:1]))


@torch.no_grad()
def test_one_beam_is_greedy_decoding_and_four_are_no_worse(model: Any) -> None:
    memory, prompts = model.encode(images(3)), [[1]] * 3
    settings: dict[str, Any] = {"max_new_tokens": 8, "memory": memory}
    greedy = beam_search(model, prompts, Beams(num_beams=1), ends=(), **settings)
    steps = [*decode(model, prompts, sampling=Sampling(do_sample=False), seed=0, **settings)]
    assert [list(each[0].ids) for each in greedy] == [list(row) for row in zip(*steps, strict=True)]
    wide = beam_search(model, prompts, Beams(num_beams=4), ends=(), **settings)
    # The likelihood that the search reports is the model's own.
    for number, (best, *_) in enumerate(wide):
        ids = torch.tensor([[1, *best.ids]])
        logits = model(images(3)[number : number + 1], ids[:, :-1])
        chances = logits.log_softmax(-1).gather(2, ids[:, 1:, None]).sum()
        assert best.logprob == pytest.approx(chances.item(), abs=1e-4)


@torch.no_grad()
def test_the_weights_of_every_word_sum_to_one_over_the_grid(model: Any) -> None:
    assert model.grid == (4, 6)
    memory = model.encode(images())
    with listening(model.taps) as heard:
        model.hidden(words(), memory)
    for layer in heard:
        for weights in layer:
            assert weights.size(-1) == 4 * 6
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@torch.no_grad()
def test_observing_changes_nothing(model: Any) -> None:
    pixels, target = images(), words()
    alone = model(pixels, target)
    with listening(model.taps):
        assert torch.equal(model(pixels, target), alone)


def test_a_caption_longer_than_the_context_is_an_error(model: Any) -> None:
    with pytest.raises(GlassformerError, match="13 tokens do not fit"):
        model(images(1), words(1, 13))


def test_an_image_with_other_channels_is_an_error(model: Any) -> None:
    with pytest.raises(GlassformerError, match="3, height, width"):
        model(torch.randn(1, 1, 16, 24), words(1))


def test_a_model_without_a_vocabulary_is_an_error() -> None:
    with pytest.raises(GlassformerError, match="vocab_size"):
        captioner(vocab_size=None)


def test_the_encoder_has_its_own_number_of_layers() -> None:
    model = captioner(num_encoder_layers=3)
    assert (len(model.encoder.blocks), len(model.decoder)) == (3, 2)
