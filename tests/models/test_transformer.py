"""The encoder-decoder equals torch's and Marian's, ignores padding, and reads in steps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import MarianConfig, MarianMTModel

from glassformer.errors import GlassformerError
from glassformer.models.presets import TRANSFORMER_PRESETS
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.nn.positions import sinusoids

SHAPE = {
    "vocab_size": 19,
    "context_length": 16,
    "num_encoder_layers": 2,
    "num_layers": 3,
    "d_model": 12,
    "num_heads": 3,
    "d_feedforward": 20,
    "dropout": 0.0,
}


def small(**more) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**(SHAPE | more)))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def sentences(rows=3, length=5, seed=1):
    torch.manual_seed(seed)
    return torch.randint(19, (rows, length))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_blocks_equal_torchs_transformer(pre_norm):
    ours = small(pre_norm=pre_norm, final_norm=True)
    theirs = nn.Transformer(12, 3, 2, 3, 20, 0.0, batch_first=True, norm_first=pre_norm).eval()
    stacks = ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder))
    for mine, stack in stacks:
        for block, layer in zip(mine, stack.layers, strict=True):
            pairs = [(block.attention, layer.self_attn, block.attention_norm, layer.norm1)]
            last = layer.norm2
            if mine is ours.decoder:
                cross = (block.cross_attention, layer.multihead_attn)
                pairs.append((*cross, block.cross_attention_norm, layer.norm2))
                last = layer.norm3
            for attention, other, norm, other_norm in pairs:
                parts = (attention.query, attention.key, attention.value)
                other.in_proj_weight.data = torch.cat([part.weight for part in parts])
                other.in_proj_bias.data = torch.cat([part.bias for part in parts])
                other.out_proj.load_state_dict(attention.output.state_dict())
                other_norm.load_state_dict(norm.state_dict())
            layer.linear1.load_state_dict(block.feedforward.up.state_dict())
            layer.linear2.load_state_dict(block.feedforward.down.state_dict())
            last.load_state_dict(block.feedforward_norm.state_dict())
    theirs.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
    theirs.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())

    source, target = sentences(length=6), sentences(length=4, seed=2)
    is_text = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 2 + [0] * 4]).bool()
    read, write = (
        ours.embedding(ids) * 12**0.5 + sinusoids(torch.arange(ids.size(1)), 12)
        for ids in (source, target)
    )
    expected = theirs(
        read,
        write,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4),
        src_key_padding_mask=~is_text,
        memory_key_padding_mask=~is_text,
        tgt_is_causal=True,
    )
    found = ours.hidden(target, ours.encode(source, is_text))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_the_whole_model_equals_marians():
    ours = small(pre_norm=False, final_norm=False, output_bias=True)
    config = MarianConfig(
        vocab_size=19,
        d_model=12,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        max_position_embeddings=16,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
    )
    theirs = MarianMTModel(config).eval()
    theirs.model.shared.weight.data = ours.embedding.weight.data
    theirs.final_logits_bias.copy_(ours.head.bias.data[None])
    for stack, other in (
        (ours.encoder, theirs.model.encoder),
        (ours.decoder, theirs.model.decoder),
    ):
        other.embed_tokens.weight.data = ours.embedding.weight.data
        other.embed_positions.weight.data = sinusoids(torch.arange(16), 12)
        for block, layer in zip(stack, other.layers, strict=True):
            attentions = [(block.attention, layer.self_attn)]
            norms = [(block.attention_norm, layer.self_attn_layer_norm)]
            if stack is ours.decoder:
                attentions.append((block.cross_attention, layer.encoder_attn))
                norms.append((block.cross_attention_norm, layer.encoder_attn_layer_norm))
            norms.append((block.feedforward_norm, layer.final_layer_norm))
            for mine, its in attentions:
                its.q_proj.load_state_dict(mine.query.state_dict())
                its.k_proj.load_state_dict(mine.key.state_dict())
                its.v_proj.load_state_dict(mine.value.state_dict())
                its.out_proj.load_state_dict(mine.output.state_dict())
            for mine, its in norms:
                its.load_state_dict(mine.state_dict())
            layer.fc1.load_state_dict(block.feedforward.up.state_dict())
            layer.fc2.load_state_dict(block.feedforward.down.state_dict())
    theirs.tie_weights()

    source, target = sentences(length=6), sentences(length=4, seed=2)
    is_text = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 2 + [0] * 4]).bool()
    expected = theirs(
        input_ids=source, attention_mask=is_text.long(), decoder_input_ids=target
    ).logits
    torch.testing.assert_close(ours(source, target, is_text), expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_padding_changes_nothing(positions, pre_norm):
    model = small(positions=positions, pre_norm=pre_norm)
    source, target = sentences(1, 4), sentences(1, 5, seed=2)
    alone = model(source, target)
    padded = torch.cat((source, torch.full((1, 3), 7)), dim=1)
    is_text = torch.tensor([[True] * 4 + [False] * 3])
    torch.testing.assert_close(model(padded, target, is_text), alone, atol=1e-5, rtol=1e-4)
    longer = torch.cat((target, sentences(1, 2, seed=3)), dim=1)
    torch.testing.assert_close(model(source, longer)[:, :5], alone, atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["sinusoidal", "learned", "rotary", "none"]),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@torch.no_grad()
def test_step_by_step_it_says_what_it_says_at_once(positions, sizes):
    model = small(positions=positions)
    source, target = sentences(2, 4), sentences(2, sum(sizes), seed=2)
    memory = model.encode(source)
    expected = model(source, target)
    state = model.start(memory, torch.zeros(2, dtype=torch.long), sum(sizes))
    done = 0
    for size in sizes:
        logits, state = model.step(target[:, done : done + size], state)
        done += size
        torch.testing.assert_close(logits, expected[:, done - 1], atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_rows_that_begin_with_fillers_are_read_from_where_they_begin():
    model = small()
    memory = model.encode(sentences(2, 4))
    target = sentences(2, 5, seed=2)
    state = model.start(memory, torch.tensor([0, 2]), 5)
    logits, _ = model.step(target, state)
    whole = model(sentences(2, 4), target)
    shorter = model(sentences(2, 4)[1:], target[1:, 2:])
    torch.testing.assert_close(logits[0], whole[0, -1], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(logits[1], shorter[0, -1], atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_reordered_rows_go_on_with_their_own_sentence():
    model = small()
    sources, target = sentences(3, 4), sentences(3, 3, seed=2)
    state = model.start(model.encode(sources), torch.zeros(3, dtype=torch.long), 6)
    _, state = model.step(target, state)
    order = torch.tensor([2, 0, 0, 1])  # uneven: two beams of one sentence, one of each other
    state = state.reorder(order)
    again = state.reorder(torch.tensor([3, 1]))
    more = torch.tensor([[5], [6]])
    logits, _ = model.step(more, again)
    for row, number in enumerate((1, 0)):
        text = torch.cat((target[number : number + 1], more[row : row + 1]), dim=1)
        expected = model(sources[number : number + 1], text)[0, -1]
        torch.testing.assert_close(logits[row], expected, atol=1e-4, rtol=1e-3)


def test_separate_vocabularies_have_tables_of_their_own():
    model = small(target_vocab_size=7)
    assert model.target_embedding.weight.shape == (7, 12)
    assert model.head.weight is model.target_embedding.weight
    assert model(sentences(), sentences() % 7).shape == (3, 5, 7)
    shared = small()
    assert shared.target_embedding is shared.embedding


def test_base_has_the_papers_shape():
    """65 million parameters with 37,000 shared tokens, as the paper's table 3 says."""
    with torch.device("meta"):
        model = Transformer(TransformerConfig(vocab_size=37_000, **TRANSFORMER_PRESETS["base"]))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == 37_000 * 512 + 6 * 3_152_384 + 6 * 4_204_032
    assert 60e6 < count < 66e6


def test_what_is_too_long_is_refused():
    model = small()
    with pytest.raises(GlassformerError, match="17 tokens"):
        model.encode(sentences(1, 17))
    with pytest.raises(GlassformerError, match="vocab_size"):
        Transformer(TransformerConfig())
