"""BERT as it was published, and what differs from it."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig as TheirConfig
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import Classifier, ClassifierConfig, Tagger, TaggerConfig
from glassformer.models.presets import ENCODER_PRESETS, ENCODER_SIZES

TINY = {"vocab_size": 61, "context_length": 32, "num_layers": 2, "d_model": 32, "num_heads": 4}
OURS = ENCODER_PRESETS["bert-base"] | TINY
THEIRS = {
    "vocab_size": 61,
    "max_position_embeddings": 32,
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "num_labels": 3,
    "attn_implementation": "eager",
}
NAMES = {
    "bert.embeddings.word_embeddings": "encoder.embedding",
    "bert.embeddings.token_type_embeddings": "encoder.segments",
    "bert.embeddings.position_embeddings": "encoder.positions.table",
    "bert.embeddings.LayerNorm": "encoder.embedding_norm",
    "bert.encoder.layer.": "encoder.blocks.",
    "attention.self.": "attention.",
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "feedforward.up",
    "output.dense": "feedforward.down",
    "output.LayerNorm": "feedforward_norm",
    "bert.pooler.dense": "pooler",
    "cls.predictions.transform.dense": "transform.0",
    "cls.predictions.transform.LayerNorm": "transform.2",
    "cls.predictions.decoder": "head",
    "cls.predictions.bias": "head.bias",
    "classifier": "head",
}
SIZES = {
    "lecture": (2, 128, 4),
    "bert-base": (12, 768, 12),
    "bert-large": (24, 1024, 16),
    "xs": (2, 128, 4),
    "s": (4, 256, 4),
    "m": (6, 384, 6),
}


def with_random_weights(model):
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    return model.eval()


def renamed(weights):
    ours = {}
    for name, weight in weights.items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        ours[name] = weight
    return ours


def check_same_logits(ours, theirs, *, with_segments=False):
    """Ours with their weights, on a padded batch of two segments."""
    missing = ours.load_state_dict(renamed(theirs.state_dict()), strict=False)
    assert missing.unexpected_keys == []
    assert missing.missing_keys in ([], ["temperature"])
    ids = torch.randint(0, 61, (3, 20))
    is_text = torch.arange(20) < torch.tensor([[20], [7], [1]])
    segments = (torch.arange(20) >= 5).long().expand(3, 20) * with_segments
    expected = theirs(ids, attention_mask=is_text.long(), token_type_ids=segments).logits
    found = ours(ids, is_text, segments) if with_segments else ours(ids, is_text)
    assert expected.std() > 0.1  # not a comparison of nothing with nothing
    if expected.dim() == 3:
        found, expected = found[is_text], expected[is_text]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_bert_gives_the_logits_of_transformers():
    theirs = with_random_weights(BertForMaskedLM(TheirConfig(**THEIRS)))
    check_same_logits(Bert(BertConfig(**OURS)).eval(), theirs, with_segments=True)


@pytest.mark.parametrize(("multi_label", "eps"), [(False, 1e-12), (True, 0.1)])
def test_a_classifier_with_berts_pooler_gives_the_logits_of_transformers(multi_label, eps):
    config = TheirConfig(**THEIRS, layer_norm_eps=eps)
    theirs = with_random_weights(BertForSequenceClassification(config))
    options = {"labels": ("a", "b", "c"), "multi_label": multi_label, "norm_eps": eps}
    ours = Classifier(ClassifierConfig(**OURS, **options, pooling="first", pooler=True))
    check_same_logits(ours.eval(), theirs)


def test_a_tagger_gives_the_logits_of_transformers():
    theirs = with_random_weights(BertForTokenClassification(TheirConfig(**THEIRS)))
    ours = Tagger(TaggerConfig(**OURS, labels=("a", "b", "c")))
    check_same_logits(ours.eval(), theirs)


def built(preset, **options):
    with torch.device("meta"):  # the model without its memory: only shapes
        return Bert(BertConfig(**{"vocab_size": 256} | ENCODER_PRESETS[preset] | options))


@pytest.mark.parametrize(
    ("preset", "size", "shape"),
    [
        ("bert-base", 109_514_298, {}),
        (
            "bert-large",
            335_174_458,
            {
                "num_hidden_layers": 24,
                "hidden_size": 1024,
                "num_attention_heads": 16,
                "intermediate_size": 4096,
            },
        ),
    ],
)
def test_the_published_berts_have_their_shapes(preset, size, shape):
    with torch.device("meta"):
        theirs = BertForMaskedLM(TheirConfig(**shape))
    ours = built(preset)
    expected = {name: w.shape for name, w in renamed(theirs.state_dict()).items()}
    assert {name: w.shape for name, w in ours.state_dict().items()} == expected
    assert sum(weight.numel() for weight in ours.parameters()) == size


@pytest.mark.parametrize("preset", ENCODER_PRESETS)
def test_every_preset_reads_and_predicts_in_its_shape(preset):
    config = BertConfig(**{"vocab_size": 256} | ENCODER_PRESETS[preset])
    assert (config.num_layers, config.d_model, config.num_heads) == SIZES[preset]
    model = built(preset, num_layers=1)
    ids = torch.zeros(2, model.context_length, dtype=torch.long, device="meta")
    assert model(ids).shape == (2, model.context_length, config.vocab_size)


def test_every_preset_serves_classifiers_and_taggers_too():
    for preset in ENCODER_PRESETS.values():
        for config in (ClassifierConfig, TaggerConfig):
            assert config(**preset, labels=("a", "b")).d_model == preset["d_model"]
    assert [name for _, name in ENCODER_SIZES] == ["m", "s", "xs"]
    assert [least for least, _ in ENCODER_SIZES] == sorted((s for s, _ in ENCODER_SIZES))[::-1]


def test_small_modern_presets_have_no_bias_but_that_of_the_vocabulary():
    for preset in ("xs", "s", "m"):
        biases = [n for n, _ in built(preset).named_parameters() if n.endswith("bias")]
        assert biases == ["head.bias"]


def test_the_prediction_may_be_made_of_some_positions_only(shaken):
    model = shaken(Bert(BertConfig(**OURS)))
    ids = torch.randint(0, 61, (2, 9))
    hidden, masked = model.hidden(ids), torch.rand(2, 9) < 0.3
    torch.testing.assert_close(model.predict(hidden[masked]), model(ids)[masked])


def test_a_tied_head_stays_one_tensor_with_the_embedding():
    model = Bert(BertConfig(**OURS))
    for tied in (model, copy.deepcopy(model), model.to(torch.float64)):
        assert tied.head.weight is tied.encoder.embedding.weight
    assert model.head.bias is not None
    untied = Bert(BertConfig(**OURS, tie_weights=False))
    assert untied.head.weight is not untied.encoder.embedding.weight


def test_every_weight_takes_part_in_the_prediction(shaken):
    model = shaken(Bert(BertConfig(**OURS)))
    model(torch.randint(0, 61, (2, 20))).logsumexp(-1).sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("preset", ["lecture", "xs"])
def test_a_new_bert_learns_to_fill_in_a_masked_token(preset):
    mask, sizes = 10, {"vocab_size": 11, "context_length": 8, "dropout": 0.0}
    model = Bert(BertConfig(**ENCODER_PRESETS[preset] | sizes))
    ids = (torch.arange(8) + torch.arange(10)[:, None]) % 10  # each text counts on from its first
    hidden = torch.arange(10) % 8
    masked = ids.scatter(1, hidden[:, None], mask)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(50):
        logits = model(masked)[torch.arange(10), hidden]
        loss = F.cross_entropy(logits, ids[torch.arange(10), hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.2


def test_a_bert_reads_tokens_and_knows_how_many_there_are():
    with pytest.raises(GlassformerError, match="a BERT needs vocab_size"):
        Bert(BertConfig())
    with pytest.raises(GlassformerError, match="num_features must be null"):
        parse(BertConfig, {"num_features": 3})
