import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS
from glassformer.nn.attention import AttentionRules
from glassformer.nn.observe import listening

POSITIONS = ["learned", "sinusoidal", "relative", "rotary", "none"]
MODERN = {"positions": "rotary", "norm": "rms", "qk_norm": True, "activation": "swiglu"}


def some_ids(batch, length):
    return torch.randint(0, 17, (batch, length))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("num_kv_heads", [None, 2])
@settings(deadline=None, max_examples=10)
@given(length=st.integers(2, 12), data=st.data())
def test_changing_a_later_token_never_changes_earlier_logits(
    gpt, positions, num_kv_heads, length, data
):
    model = gpt(positions=positions, num_kv_heads=num_kv_heads)
    changed = data.draw(st.integers(1, length - 1))
    ids = some_ids(2, length)
    others = ids.clone()
    others[:, changed:] = (others[:, changed:] + 1) % 17
    before, after = model(ids), model(others)
    torch.testing.assert_close(before[:, :changed], after[:, :changed], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(before[:, changed], after[:, changed])


def test_every_earlier_token_counts(gpt):
    model, ids = gpt(), some_ids(1, 8)
    for position in range(8):
        others = ids.clone()
        others[0, position] = (others[0, position] + 1) % 17
        assert not torch.allclose(model(ids)[0, -1], model(others)[0, -1])


@pytest.mark.parametrize("positions", POSITIONS)
def test_only_a_model_without_positions_sees_the_past_as_a_set(gpt, positions):
    model = gpt(positions=positions, num_layers=1)
    ids = torch.tensor([[3, 1, 4, 5, 9]])
    mixed = torch.tensor([[5, 4, 1, 3, 9]])
    same = torch.allclose(model(ids)[0, -1], model(mixed)[0, -1], atol=1e-5)
    assert same == (positions == "none")


def test_a_row_does_not_depend_on_who_is_beside_it(gpt):
    model, ids = gpt(**MODERN), some_ids(5, 9)
    together = model(ids)
    for row in range(5):
        alone = model(ids[row : row + 1])[0]
        torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=1e-4)


def test_logits_are_the_head_on_the_hidden_states(gpt):
    model, ids = gpt(output_bias=True), some_ids(2, 5)
    hidden = model.hidden(ids)
    assert hidden.shape == (2, 5, 16)
    expected = hidden @ model.embedding.weight.T + model.head.bias
    torch.testing.assert_close(model(ids), expected)


def test_a_tied_head_stays_one_tensor_with_the_embedding():
    model = GPT(GPTConfig(vocab_size=17, d_model=12, num_layers=1))
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    for tied in (model, copy.deepcopy(model), model.to(torch.float64)):
        assert tied.head.weight is tied.embedding.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(some_ids(1, 3)).logsumexp(-1).sum().backward()
    optimizer.step()
    assert model.head.weight is model.embedding.weight
    assert sum(weight is model.head.weight for weight in model.parameters()) == 1


def test_an_untied_head_is_a_tensor_of_its_own():
    model = GPT(GPTConfig(vocab_size=17, d_model=12, num_layers=1, tie_weights=False))
    assert model.head.weight is not model.embedding.weight
    assert model.head.weight.shape == model.embedding.weight.shape


def test_a_narrow_embedding_is_widened(gpt):
    model = gpt(d_embedding=6, tie_weights=False)
    assert model.embedding.weight.shape == (17, 6)
    assert model.widen.weight.shape == (16, 6)
    assert model(some_ids(2, 5)).shape == (2, 5, 17)


@pytest.mark.parametrize("preset", ["nano", "modern-xs"])
def test_every_new_model_can_learn_one_batch_by_heart(preset):
    sizes = {"vocab_size": 11, "num_layers": 2, "d_feedforward": 64, "context_length": 12}
    model = GPT(GPTConfig(**GPT_PRESETS[preset] | sizes))
    batch = torch.randint(0, 11, (3, 12))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # What the first token of a row cannot know is which row it is in; the rest is certain.
    assert loss < 0.3


def test_every_weight_takes_part_in_the_prediction(gpt):
    for options in ({}, MODERN, {"positions": "relative"}):
        model = copy.deepcopy(gpt(**options))
        model(some_ids(2, 20)).logsumexp(-1).sum().backward()
        without = [name for name, weight in model.named_parameters() if weight.grad is None]
        assert without == []


def test_zero_output_makes_every_new_block_the_identity():
    config = GPTConfig(vocab_size=17, d_model=12, num_layers=3, initialization="zero_output")
    model = GPT(config)
    x = torch.randn(1, 4, 12)
    for block in model.blocks:
        assert torch.equal(block(x, AttentionRules(causal=True)), x)


def test_gpt2_initialization_makes_residual_outputs_smaller_with_depth():
    model = GPT(GPTConfig(vocab_size=500, d_model=96, num_layers=8))
    block = model.blocks[0]
    assert block.attention.query.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert block.attention.output.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert block.feedforward.down.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert not block.attention.query.bias.any()


def test_torch_initialization_leaves_torchs_defaults():
    model = GPT(GPTConfig(vocab_size=500, d_model=96, num_layers=1, initialization="torch"))
    assert model.embedding.weight.std().item() == pytest.approx(1.0, rel=0.05)


def test_dropout_happens_in_training_only():
    model = GPT(GPTConfig(vocab_size=17, d_model=12, num_layers=1, dropout=0.5))
    ids = some_ids(1, 6)
    assert not torch.equal(model.train()(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))


def test_listening_to_a_layer_changes_no_logit(gpt):
    model, ids = gpt(**MODERN, num_kv_heads=2), some_ids(2, 7)
    alone = model(ids)
    with listening([model.blocks[1].attention.tap]) as (heard,):
        observed = model(ids)
    assert torch.equal(alone, observed)
    assert [tuple(weights.shape) for weights in heard] == [(2, 4, 7, 7)]


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_model_in_half_precision_stays_in_it(positions):
    with torch.device("meta"):  # shapes and types without the arithmetic
        config = GPTConfig(vocab_size=17, d_model=24, num_layers=2, positions=positions)
        model = GPT(config).to(torch.bfloat16)
        assert model(torch.zeros(2, 5, dtype=torch.long)).dtype == torch.bfloat16


def test_a_text_longer_than_the_context_is_refused(gpt):
    with pytest.raises(GlassformerError, match="25 tokens do not fit in the model's context of 24"):
        gpt()(some_ids(1, 25))


def test_a_gpt_needs_to_know_its_vocabulary():
    with pytest.raises(GlassformerError, match="vocab_size"):
        GPT(GPTConfig())


WRONG = {
    "d_model 10 is not a multiple of num_heads 4": {"d_model": 10, "num_heads": 4},
    "num_heads 4 is not a multiple of num_kv_heads 3": {
        "num_heads": 4,
        "num_kv_heads": 3,
        "d_model": 8,
    },
    "even width, not 3": {"d_model": 12, "num_heads": 4, "positions": "rotary"},
    "tie_weights needs d_embedding equal": {"d_embedding": 8},
    "num_layers .* is 0": {"num_layers": 0},
    "dropout .* is 1.0": {"dropout": 1.0},
    "Did you mean num_heads": {"num_head": 3},
    "positions .* is 'absolute'": {"positions": "absolute"},
}


@pytest.mark.parametrize("message", WRONG)
def test_an_impossible_shape_is_refused_with_the_reason(message):
    with pytest.raises(GlassformerError, match=message):
        parse(GPTConfig, WRONG[message], where="the recipe")


def test_the_width_of_a_head_is_the_models_share_unless_it_is_said():
    assert GPTConfig(d_model=12, num_heads=4).width_of_head == 3
    assert GPTConfig(d_model=10, num_heads=4, head_dim=6).width_of_head == 6
