"""What is captured equals the equations, and capturing changes nothing."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.inspect.capture import capturing, stacks_of
from glassformer.inspect.heads import head_effects, heads_of, lens
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.nn.observe import without_heads

SHAPE = {"vocab_size": 30, "num_layers": 3, "d_model": 16, "num_heads": 4, "context_length": 12}
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


def gpt(**more: object) -> GPT:
    torch.manual_seed(1)
    return GPT(GPTConfig(**SHAPE | {"initialization": "torch"} | more)).eval()


@pytest.mark.parametrize(
    "more", [{}, {"positions": "rotary", "num_kv_heads": 2, "qk_norm": True}, {"pre_norm": False}]
)
def test_weights_are_the_softmax_of_the_captured_queries_and_keys(more: dict[str, object]) -> None:
    model = gpt(**more)
    with torch.inference_mode(), capturing(model.blocks) as seen:
        model(IDS)
    keys = np.repeat(seen.keys, 4 // seen.keys.shape[1], axis=1)  # (L, H, S, d)
    scores = seen.queries @ keys.swapaxes(-1, -2) / math.sqrt(seen.queries.shape[-1])
    past = np.tril(np.ones((7, 7), bool))
    exp = np.exp(np.where(past, scores, -np.inf))
    assert seen.attention.shape == (3, 4, 7, 7)
    assert np.abs(seen.attention - exp / exp.sum(-1, keepdims=True)).max() < 1e-6


def test_the_states_are_those_between_the_blocks_and_the_lens_of_the_last_is_the_prediction() -> (
    None
):
    model = gpt()
    with torch.inference_mode(), capturing(model.blocks) as seen:
        logits = model(IDS)
    assert seen.hidden.shape == (4, 7, 16)
    ids, p, _ = lens(seen.hidden, model.read_out, 5, model.device)
    best = logits[0].softmax(-1).topk(5)
    assert (ids[-1] == best.indices.numpy()).all()
    assert np.abs(p[-1] - best.values.numpy()).max() < 1e-6
    assert ids.shape == (4, 7, 5)
    assert not np.allclose(p[0], p[-1])


def test_only_the_layers_and_heads_asked_for_are_kept_and_no_output_changes() -> None:
    model = gpt()
    with torch.inference_mode():
        plain = model(IDS)
        with capturing(model.blocks) as whole:
            model(IDS)
        with capturing(model.blocks, layers=[2], heads=[3, 1]) as part:
            observed = model(IDS)
    assert torch.equal(plain, observed)
    assert np.array_equal(part.attention, whole.attention[[2]][:, [3, 1]])
    assert np.array_equal(part.queries, whole.queries[[2]][:, [3, 1]])
    (held,) = part.weights[0]
    assert held.untyped_storage().nbytes() == 2 * 7 * 7 * 4  # no other head is kept alive


@pytest.mark.parametrize(("layers", "heads"), [([3], None), (None, [4]), ([-1], None)])
def test_an_unknown_layer_or_head_is_named_with_the_last_one(
    layers: list[int] | None, heads: list[int] | None
) -> None:
    what = r"there is no (layer 3: the last one is 2|head 4: the last one is 3|layer -1.*)\."
    with pytest.raises(UsageError, match=what), capturing(gpt().blocks, layers, heads):
        pass


def test_a_decoder_has_attention_to_itself_and_to_its_memory() -> None:
    torch.manual_seed(2)
    model = Transformer(TransformerConfig(**SHAPE, num_encoder_layers=2)).eval()
    assert list(stacks_of(model)) == ["encoder", "decoder"]
    source, target = IDS, IDS[:, :4]
    with (
        torch.inference_mode(),
        capturing(model.encoder) as read,
        capturing(model.decoder) as written,
    ):
        logits = model(source, target)
        states = torch.from_numpy(written.hidden[-1]) if written.states else None
    assert read.attention.shape == (2, 4, 7, 7)
    assert read.cross_attention is None
    assert written.attention.shape == (3, 4, 4, 4)
    assert written.cross_attention is not None
    assert written.cross_attention.shape == (3, 4, 4, 7)
    assert np.abs(written.cross_attention.sum(-1) - 1).max() < 1e-6
    assert states is None  # known when the block has ended
    last = torch.from_numpy(written.hidden[-1])
    assert torch.allclose(model.read_out(last), logits[0], atol=1e-5)


def test_the_lens_of_a_bert_reads_through_its_transform() -> None:
    torch.manual_seed(3)
    model = Bert(BertConfig(**SHAPE)).eval()
    with torch.inference_mode(), capturing(stacks_of(model)["encoder.blocks"]) as seen:
        logits = model(IDS)
    assert torch.allclose(model.read_out(torch.from_numpy(seen.hidden[-1])), logits[0], atol=1e-5)


# --- switching heads off ---


def test_a_head_that_is_switched_off_contributes_nothing() -> None:
    model = gpt()
    layer = model.blocks[1].attention
    with torch.inference_mode(), without_heads({layer.tap: [2]}):
        without = model(IDS)
    columns = slice(2 * layer.head_dim, 3 * layer.head_dim)  # of head 2 in the output projection
    with torch.no_grad():
        layer.output.weight[:, columns] = 0
        expected = model(IDS)
    assert torch.allclose(without, expected, atol=1e-6)
    assert not torch.allclose(without, gpt()(IDS), atol=1e-4)


def test_a_head_without_effect_scores_zero_and_the_others_do_not() -> None:
    model = gpt()
    layer = model.blocks[2].attention
    with torch.no_grad():
        layer.output.weight[:, : layer.head_dim] = 0

    def last() -> Tensor:
        return model(IDS)[0, -1]

    with torch.inference_mode():
        plain = last().double().log_softmax(-1)
        effects = head_effects(heads_of(model.blocks.attentions), last)
        with without_heads({model.blocks[0].attention.tap: [1]}):
            other = last().double().log_softmax(-1)
    assert effects.divergence.shape == (3, 4)
    assert effects.divergence[2, 0] == 0
    assert (np.delete(effects.divergence.ravel(), 8) > 0).all()
    expected = (plain.exp() * (plain - other)).sum()
    assert effects.divergence[0, 1] == pytest.approx(float(expected), rel=1e-4)
    best = plain.argmax()
    assert effects.change[0, 1] == pytest.approx(float(other[best] - plain[best]), rel=1e-4)
