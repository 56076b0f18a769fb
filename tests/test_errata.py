"""One test for each entry of docs/errata.md: what is right, and what was printed instead."""

import math
import re
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.models.bag import Bag, BagConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS
from glassformer.nn import masks
from glassformer.nn.attention import MultiHeadAttention, PlaceAttention, explicit, weights_of
from glassformer.nn.loss import next_token_loss
from glassformer.nn.observe import listening
from glassformer.nn.positions import sinusoids

ERRATA = Path(__file__).parent.parent / "docs" / "errata.md"


@pytest.fixture(autouse=True)
def _the_same_numbers_every_time():
    torch.manual_seed(0)


def one_head(words=5, width=4):
    """Queries, keys and values of one head: three tensors (1, 1, words, width)."""
    return torch.randn(3, 1, 1, words, width)


def small_gpt(vocab_size, **options):
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 2, "initialization": "torch"}
    return GPT(GPTConfig(vocab_size=vocab_size, **sizes | options)).eval()


# Lecture 0


def test_the_fourth_word_takes_v_w2_with_the_weight_of_the_second():
    query, key, value = one_head(words=4)
    s = weights_of(query, key, masks.causal(4, 4))[0, 0, 3]  # s[i]: what word 4 takes of word i
    v = value[0, 0]
    right = s[0] * v[0] + s[1] * v[1] + s[2] * v[2] + s[3] * v[3]
    printed = s[0] * v[0] + s[1] * v[3] + s[2] * v[2] + s[3] * v[3]
    found = explicit(query, key, value, masks.causal(4, 4))[0, 0, 3]
    torch.testing.assert_close(found, right)
    assert not torch.allclose(found, printed)


def test_masked_weights_are_normalised_over_the_words_looked_at():
    query, key, _ = one_head()
    mask = masks.causal(5, 5)
    a = mask.T * torch.exp(key[0, 0] @ query[0, 0].T / 2)  # A_ij, i the key and j the query; √4 = 2
    s = a / a.sum(dim=0)  # one index j on both sides; the sum runs over i
    torch.testing.assert_close(weights_of(query, key, mask)[0, 0].T, s)


def test_a_prediction_never_sees_the_token_it_predicts():
    model, ids = small_gpt(9), torch.tensor([[4, 2, 7, 1]])
    others = ids.clone()
    others[0, 2] = 5  # another x_k, for k = 2
    before, after = model(ids)[0].log_softmax(-1), model(others)[0].log_softmax(-1)
    torch.testing.assert_close(before[1], after[1])  # p(x_k | x_<k) stands at k - 1
    assert not torch.allclose(before[2], after[2])  # p(x_{k+1} | x_≤k) may look at x_k


def test_the_gpt2_shapes_have_more_parameters_than_the_table_says():
    counts = []
    with torch.device("meta"):
        for preset in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"):
            model = GPT(GPTConfig(**GPT_PRESETS[preset]))
            counts.append(sum(weight.numel() for weight in model.parameters()))
    assert counts == [124_439_808, 354_823_168, 774_030_080, 1_557_611_200]
    assert [count // 10**6 for count in counts] != [117, 345, 762, 1542]


def test_padding_has_no_share_in_the_mean():
    model = Bag(
        BagConfig(vocab_size=9, d_model=4, labels=("a", "b"), weighting="mean", ngrams=1)
    ).eval()
    ids, is_text = torch.tensor([[4, 2, 0, 0]]), torch.tensor([[True, True, False, False]])
    found = model.represent(ids, is_text)
    torch.testing.assert_close(found, model.embedding(ids[:, :2]).mean(dim=1))
    assert not torch.allclose(found, torch.mean(model.embedding(ids), dim=1))


# Lecture 1


def test_softmax_compares_every_key_with_one_query():
    query, key, _ = one_head()
    q, k = query[0, 0], key[0, 0]
    weights = weights_of(query, key)[0, 0]
    for n in range(5):
        scores = torch.stack([k[m] @ q[n] for m in range(5)]) / math.sqrt(4)
        torch.testing.assert_close(weights[n], scores.softmax(0))  # over m, for one n
        printed = torch.stack([k[n] @ q[n]] * 5).softmax(0)  # k_n: the same number for all m
        torch.testing.assert_close(printed, torch.full((5,), 1 / 5))
        assert not torch.allclose(weights[n], printed)


def test_the_product_over_a_text_starts_at_the_second_token():
    model = small_gpt(5)
    total = 0.0
    for second, third in product(range(5), repeat=2):
        text = torch.tensor([[3, second, third]])
        loss = next_token_loss(model.hidden(text[:, :-1]), model.head, text[:, 1:])
        total += math.exp(-2 * loss.item())  # p(t2 | t1) · p(t3 | t1, t2): two factors, not three
    assert total == pytest.approx(1.0, abs=1e-5)  # so p(t1) times it is a distribution over texts


def test_a_heads_matrix_is_64_by_1024_for_column_vectors():
    bert_large = MultiHeadAttention(1024, 16)
    omega = bert_large.query.weight.unflatten(0, (16, 64))[0]  # of the first head
    assert omega.shape == (64, 1024)
    assert (omega @ torch.randn(1024, 1)).shape == (64, 1)


# Lecture 2


def test_the_weights_are_the_softmax_of_the_scaled_scores():
    query, key, value = one_head()
    scores = (query @ key.mT / math.sqrt(4)).masked_fill(~masks.causal(5, 5), -math.inf)
    found = explicit(query, key, value, masks.causal(5, 5))
    torch.testing.assert_close(found, scores.softmax(-1) @ value)
    printed = scores.masked_fill(~masks.causal(5, 5), 0) @ value
    assert not torch.allclose(found, printed)


# Lecture 3


def test_the_exponent_of_a_cosine_is_j_minus_1_divided_by_r():
    r, i = 8, 3
    waves = sinusoids(torch.tensor(i), r)
    for j in range(1, r, 2):
        assert waves[j].item() == pytest.approx(math.cos(i / 10000 ** ((j - 1) / r)), abs=1e-6)
        printed = math.cos(i / 10000 ** (j - 1 / r))
        assert waves[j].item() != pytest.approx(printed, abs=1e-6)


def test_the_sine_and_cosine_of_a_pair_share_their_frequency():
    r, position = 8, torch.arange(50).unsqueeze(1)
    frequency = torch.exp(torch.arange(1, r, 2) * (-math.log(10000.0) / r))
    printed = torch.cos(position * frequency)  # figure 17: the exponents of odd j
    waves = sinusoids(position[:, 0], r)
    ones = torch.ones(50, r // 2)
    torch.testing.assert_close(waves[:, 0::2] ** 2 + waves[:, 1::2] ** 2, ones)
    assert not torch.allclose(waves[:, 0::2] ** 2 + printed**2, ones, atol=0.1)


@torch.no_grad()
def test_additive_attention_looks_at_the_encoder_and_at_the_decoder():
    attention = PlaceAttention("additive", d_query=3, d_states=4)
    enc_att, dec_att, v = attention.encoder, attention.decoder, attention.score
    enc_out, dec_hid = torch.randn(1, 5, 4), torch.randn(1, 3)
    assert v.weight.shape == (1, 3)  # as long as the sum, which has the decoder's size
    right = v(torch.tanh(enc_att(enc_out) + dec_att(dec_hid)[:, None])).softmax(1)  # (1, 5, 1)
    printed = v(torch.tanh(dec_att(dec_hid) + dec_att(dec_hid))[:, None].expand(1, 5, 3)).softmax(1)
    found = attention(dec_hid, attention.project_memory(enc_out))
    torch.testing.assert_close(found, (right * enc_out).sum(1))
    torch.testing.assert_close(printed, torch.full((1, 5, 1), 1 / 5))  # every place alike
    assert not torch.allclose(found, (printed * enc_out).sum(1))
    assert (right.unsqueeze(2) * enc_out).shape == (1, 5, 5, 4)  # figure 7 weighs each with all


def test_the_loss_is_taken_on_the_targets_one_further_on():
    from glassformer.tasks.language.task import NextToken

    model, sequence = small_gpt(9), torch.randint(0, 9, (1, 12))
    inputs, targets = sequence[:, :-1], sequence[:, 1:]
    output = model(inputs).log_softmax(-1).flatten(0, 1)
    found = NextToken.loss(None, model, sequence)
    torch.testing.assert_close(found, nn.NLLLoss()(output, targets.reshape(-1)))
    assert not torch.allclose(found, nn.NLLLoss()(output, inputs.reshape(-1)))


def test_positions_change_every_vector_even_the_first():
    model, ids = GPT(GPTConfig(**GPT_PRESETS["lecture"])).eval(), torch.tensor([[55, 349, 344]])
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda block, inputs: seen.append(inputs[0]))
    model(ids)
    gained = (seen[0] - model.widen(model.embedding(ids)))[0]
    torch.testing.assert_close(gained[0], torch.tensor([0.0, 1.0] * 72), atol=1e-6, rtol=0)
    assert (gained.abs().sum(-1) > 0).all()


def test_gradients_flow_through_the_scaled_dot_product():
    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    layer(x).square().sum().backward()
    for projection in (layer.query, layer.key, layer.value):
        assert projection.weight.grad.abs().max() > 0


def test_the_dot_product_is_the_cosine_only_of_unit_vectors():
    query, key = 3 * torch.randn(2, 6)
    cosine = F.cosine_similarity(query, key, dim=0)
    assert not torch.allclose(query @ key, cosine)
    torch.testing.assert_close(F.normalize(query, dim=0) @ F.normalize(key, dim=0), cosine)


def test_attention_uses_the_dot_product_not_the_cosine():
    query, key, _ = one_head()
    found = weights_of(query, 10 * key)  # a cosine would not notice the length
    torch.testing.assert_close(found, (10 * query @ key.mT / math.sqrt(4)).softmax(-1))
    assert not torch.allclose(found, weights_of(query, key))


def test_the_output_is_a_weighted_sum_of_the_rows_of_v():
    query, key, value = one_head(words=5, width=5)
    weights, v = weights_of(query, key)[0, 0], value[0, 0]
    found = explicit(query, key, value)[0, 0, 2]
    torch.testing.assert_close(found, sum(weights[2, s] * v[s] for s in range(5)))
    assert not torch.allclose(found, sum(weights[2, s] * v[:, s] for s in range(5)))


def test_every_head_reads_the_whole_input():
    layer, x = MultiHeadAttention(12, 3), torch.randn(1, 4, 12)
    changed = x.clone()
    changed[..., 0] += 1.0  # in the first of three chunks
    with listening([layer.tap]) as (heard,):
        layer(x)
        layer(changed)
    differs = (heard[0] - heard[1]).abs().amax(dim=(0, 2, 3))  # per head
    assert (differs > 1e-4).all()


def test_the_lectures_gpt_and_the_published_gpt2_are_two_models():
    with torch.device("meta"):
        lecture = GPT(GPTConfig(**GPT_PRESETS["lecture"]))
        gpt2 = GPT(GPTConfig(**GPT_PRESETS["gpt2"]))
    assert [model.blocks[0].pre_norm for model in (lecture, gpt2)] == [False, True]
    assert not list(lecture.positions.parameters())
    assert gpt2.positions.table.weight.shape == (1024, 768)
    assert isinstance(lecture.final_norm, nn.Identity)
    assert isinstance(gpt2.final_norm, nn.LayerNorm)


# The page itself


def entries():
    """The text of each entry, by its heading."""
    parts = re.split(r"^### (.+)\n", ERRATA.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_test_named_in_the_errata_exists():
    named = {name for text in entries().values() for name in re.findall(r"`(test_\w+)`", text)}
    there_are = {name for name in globals() if name.startswith("test_")}
    about_the_page = {name for name in there_are if name.endswith(("errata_exists", "its_test"))}
    assert named == there_are - about_the_page


def test_every_entry_says_what_is_printed_what_is_right_and_names_its_test():
    for heading, text in entries().items():
        for label in ("**The lecture says**", "**Correct:**"):
            assert label in text, heading
        assert "**Shown by** `test_" in text or "**Shown** when" in text, heading
