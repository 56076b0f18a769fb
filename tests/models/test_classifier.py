"""Every model that labels texts or tokens, by the same rules."""

import copy

import pytest
import torch
from torch.nn import functional as F

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.models import row
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
    GPTTagger,
    GPTTaggerConfig,
    Tagger,
    TaggerConfig,
)
from glassformer.models.ensemble import Ensemble
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.heads import TextClassifier, TokenTagger, body_config, load_body
from glassformer.models.presets import ENCODER_PRESETS, GPT_PRESETS
from glassformer.models.rnn import RNNClassifier, RNNClassifierConfig
from glassformer.nn.pooling import pool
from glassformer.training.preparation import make_recipe

LABELS = {"vocab_size": 17, "labels": ("bad", "good", "neither")}
STACK = LABELS | {"context_length": 12, "num_layers": 2, "d_model": 16, "num_heads": 4}
RNN = LABELS | {"d_embedding": 6, "d_model": 8}
MODERN = {"positions": "rotary", "norm": "rms", "pre_norm": True, "activation": "swiglu"}

MODELS = {
    "bag": (Bag, BagConfig, LABELS | {"d_model": 8, "ngrams": 1}),
    "mean": (Classifier, ClassifierConfig, STACK),
    "first": (Classifier, ClassifierConfig, STACK | {"pooling": "first", "pooler": True}),
    "max": (Classifier, ClassifierConfig, STACK | MODERN | {"pooling": "max"}),
    "idf": (Classifier, ClassifierConfig, STACK | MODERN | {"pooling": "idf"}),
    "bag beside": (Classifier, ClassifierConfig, STACK | {"bag": True}),
    "gpt": (GPTClassifier, GPTClassifierConfig, STACK),
    "modern gpt": (GPTClassifier, GPTClassifierConfig, STACK | MODERN | {"num_kv_heads": 2}),
    "tagger": (Tagger, TaggerConfig, STACK),
    "gpt tagger": (GPTTagger, GPTTaggerConfig, STACK | {"positions": "relative"}),
    "rnn": (RNNClassifier, RNNClassifierConfig, RNN | {"cell": "rnn", "bidirectional": False}),
    "lstm": (RNNClassifier, RNNClassifierConfig, RNN | {"num_layers": 2}),
    "gru": (RNNClassifier, RNNClassifierConfig, RNN | {"cell": "gru", "pooling": "mean"}),
    "max lstm": (RNNClassifier, RNNClassifierConfig, RNN | {"pooling": "max"}),
    "bag beside lstm": (RNNClassifier, RNNClassifierConfig, RNN | {"bag": True}),
    "idf lstm": (RNNClassifier, RNNClassifierConfig, RNN | {"pooling": "idf"}),
}


def made(kind, **options):
    model, config, values = MODELS[kind]
    return model(config(**values | options))


@pytest.fixture(params=MODELS)
def model(request, shaken):
    return shaken(made(request.param))


def padded(*lengths):
    ids = torch.randint(0, 17, (len(lengths), max(lengths)))
    return ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_a_padded_batch_equals_each_text_alone(model):
    ids, is_text = padded(3, 11, 1, 7)
    together = model(ids, is_text)
    for index, length in enumerate(is_text.sum(1).tolist()):
        found = together[index, :length] if isinstance(model, TokenTagger) else together[index]
        alone = ids[index : index + 1, :length]
        close(found, model(alone)[0])
        close(found, model(alone, torch.ones(1, length, dtype=torch.bool))[0])


def test_what_the_padding_holds_does_not_matter(model):
    ids, is_text = padded(3, 11, 1, 7)
    others = torch.where(is_text, ids, (ids + 5) % 17)
    found, again = model(ids, is_text), model(others, is_text)
    if isinstance(model, TokenTagger):
        found, again = found[is_text], again[is_text]
    close(found, again)


def test_there_is_one_logit_per_label_for_each_text_or_token(model):
    ids, is_text = padded(4, 9)
    shape = (2, 9, 3) if isinstance(model, TokenTagger) else (2, 3)
    assert isinstance(model, TokenTagger | TextClassifier)
    assert model(ids, is_text).shape == shape
    assert model.labels == ("bad", "good", "neither")
    assert model.device == torch.device("cpu")
    assert model.context_length in (None, 12)


def test_a_text_without_any_token_gets_finite_logits(model):
    ids, is_text = padded(5, 5)
    is_text[1] = False
    assert model(ids, is_text).isfinite().all()


def test_every_weight_takes_part(model):
    model = copy.deepcopy(model).train()
    ids, is_text = padded(12, 11, 12)
    model(ids, is_text).logsumexp(-1).sum().backward()
    # A query's bias before the softmax may get a zero gradient, but it gets one.
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_logits_are_the_head_on_the_representation(model):
    ids, is_text = padded(4, 9)
    members = model.members if isinstance(model, Ensemble) else lambda *batch: (model(*batch),)
    logits = members(ids, is_text)[0]
    close(logits, model.head(model.represent(ids, is_text)))


@pytest.mark.parametrize("kind", MODELS)
def test_every_new_model_can_learn_a_few_texts_by_heart(kind):
    model = made(kind, head_dropout=0.0).train()
    ids, is_text = padded(5, 9, 9, 3, 7, 8)
    is_tagger = isinstance(model, TokenTagger)
    targets = ids % 3 if is_tagger else torch.tensor([0, 1, 2, 2, 1, 0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(150):
        logits = model(ids, is_text)
        if is_tagger:
            loss = F.cross_entropy(logits[is_text], targets[is_text])
        else:
            loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_dropout_on_the_head_happens_in_training_only(model):
    model = copy.deepcopy(model)
    model.head_dropout.p = 0.5
    ids, is_text = padded(4, 9)
    assert torch.equal(model(ids, is_text), model(ids, is_text))
    model.train()
    assert not torch.equal(model(ids, is_text), model(ids, is_text))


def test_the_temperature_is_saved_and_softens_the_probabilities(model):
    model = copy.deepcopy(model)
    ids, is_text = padded(4, 9)
    logits = model(ids, is_text)
    close(model.probabilities(logits), logits.softmax(-1))
    model.load_state_dict(model.state_dict() | {"temperature": torch.tensor(10.0)})
    close(model.probabilities(logits), (logits / 10).softmax(-1))
    assert torch.equal(model(ids, is_text), logits)
    assert "temperature" not in dict(model.named_parameters())


def test_with_several_labels_at_once_each_is_a_question_of_its_own():
    model = made("mean", multi_label=True)
    logits = torch.tensor([[0.0, 2.0, -2.0]])
    close(model.probabilities(logits), logits.sigmoid())


def test_an_encoder_reads_the_order_and_a_bag_does_not(shaken):
    ids = torch.tensor([[3, 1, 4, 5, 9]])
    for kind, sees_order in {"mean": True, "gpt": True, "lstm": True, "bag": False}.items():
        model = shaken(made(kind))
        same = torch.allclose(model(ids), model(ids.flip(1)), atol=1e-6)
        assert same != sees_order


def test_pooling_is_over_the_real_tokens():
    x = torch.tensor([[[1.0, -1.0], [3.0, -5.0], [9.0, 9.0]]])
    is_text = torch.tensor([[True, True, False]])
    assert pool(x, is_text, "mean").tolist() == [[2.0, -3.0]]
    assert pool(x, is_text, "max").tolist() == [[3.0, -1.0]]
    assert pool(x, is_text, "first").tolist() == [[1.0, -1.0]]
    for pooling in ("mean", "max"):
        assert torch.equal(pool(x, None, pooling), pool(x, torch.ones(1, 3).bool(), pooling))
        assert pool(x, torch.zeros(1, 3).bool(), pooling).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("kind", ["mean", "lstm"])
def test_a_series_of_numbers_can_be_classified(kind, shaken):
    model = shaken(made(kind, vocab_size=None, num_features=2))
    series, is_text = torch.randn(2, 8, 2), padded(8, 5)[1]
    close(model(series, is_text)[1], model(series[1:, :5])[0])


# --- pre-trained bodies ---


def pretrained(kind):
    sizes = {name: STACK[name] for name in STACK if name != "labels"}
    return Bert(BertConfig(**sizes)) if kind == "bert" else GPT(GPTConfig(**sizes))


MODEL_NAMES = {
    ("bert", "classify"): ("classifier", Classifier, ClassifierConfig),
    ("bert", "tag"): ("tagger", Tagger, TaggerConfig),
    ("gpt", "classify"): ("gpt-classifier", GPTClassifier, GPTClassifierConfig),
    ("gpt", "tag"): ("gpt-tagger", GPTTagger, GPTTaggerConfig),
}


@pytest.mark.parametrize(("kind", "task"), MODEL_NAMES)
def test_a_pretrained_body_says_what_it_said_before(kind, task, shaken):
    before = shaken(pretrained(kind))
    name, values = body_config(kind, before.config, task)
    expected_name, model_type, config_type = MODEL_NAMES[kind, task]
    assert name == expected_name
    model = model_type(config_type(**values, labels=("a", "b"))).eval()
    load_body(model, before)
    ids = torch.randint(0, 17, (2, 9))
    said = model.body.hidden(ids) if kind == "gpt" else model.body(ids)
    assert torch.equal(said, before.hidden(ids))
    model.body.requires_grad_(False).zero_grad()
    assert any(weight.requires_grad for weight in model.parameters())
    assert before.hidden(ids).requires_grad  # the weights were copied, not shared


@pytest.mark.parametrize("length", [5, 40])
@pytest.mark.parametrize(
    ("kind", "positions"),
    [(kind, each) for kind in ("bert", "gpt") for each in ("learned", "sinusoidal", "rotary")]
    + [("gpt", "relative")],
)
def test_a_body_of_another_context_reads_texts_that_fit_as_before(kind, positions, length, shaken):
    sizes = {name: STACK[name] for name in STACK if name != "labels"} | {"positions": positions}
    before = shaken(Bert(BertConfig(**sizes)) if kind == "bert" else GPT(GPTConfig(**sizes)))
    _, values = body_config(kind, before.config, "classify")
    config = MODEL_NAMES[kind, "classify"][2](
        **values | {"context_length": length}, labels=("a", "b")
    )
    model = MODEL_NAMES[kind, "classify"][1](config).eval()
    load_body(model, before)
    ids = torch.randint(0, 17, (2, 5))
    said = model.body.hidden(ids) if kind == "gpt" else model.body(ids)
    assert torch.equal(said, before.hidden(ids))
    assert model(torch.randint(0, 17, (1, length))).isfinite().all()


@pytest.mark.parametrize("tied", [True, False])
def test_a_gpt_classifier_has_no_weights_for_predicting_tokens(tied):
    model = made("gpt", tie_weights=tied)
    assert [name for name in model.state_dict() if "head" in name] == ["head.weight", "head.bias"]
    assert sum(17 in weight.shape for weight in model.parameters()) == 1  # the embedding


def test_a_body_of_another_shape_is_refused_by_the_name_of_the_weight():
    other = made("mean", d_feedforward=32)
    with pytest.raises(GlassformerError, match=r"blocks.0.feedforward.up.weight is \(64, 16\)"):
        load_body(other, pretrained("bert"))
    deeper = made("gpt", num_layers=3)
    with pytest.raises(GlassformerError, match=r"blocks.2\S+ is absent there"):
        load_body(deeper, pretrained("gpt"))


def test_a_model_without_that_body_is_refused():
    for kind, source in (("bag", "bert"), ("mean", "gpt"), ("gpt", "bert"), ("lstm", "gpt")):
        with pytest.raises(GlassformerError, match=f"cannot start from the weights of a {source}"):
            load_body(made(kind), pretrained(source))
    with pytest.raises(GlassformerError, match=r"a bag cannot .* Use a pre-trained bert or gpt\."):
        body_config("bag", BagConfig(), "classify")


# --- configs ---


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_needs_labels_and_each_of_them_once(kind):
    with pytest.raises(GlassformerError, match="needs labels"):
        made(kind, labels=())
    with pytest.raises(GlassformerError, match='the label "good" is given twice'):
        parse(MODELS[kind][1], {"labels": ["good", "bad", "good"]})


@pytest.mark.parametrize("kind", MODELS)
def test_a_config_survives_json_and_knows_no_columns_of_the_data(kind):
    _, config, values = MODELS[kind]
    made = config(**values)
    assert config.model_validate(made.model_dump(mode="json")) == made
    with pytest.raises(GlassformerError, match="text_column"):
        parse(config, values | {"text_column": ["title"]})


@pytest.mark.parametrize("preset", GPT_PRESETS)
def test_a_classifier_has_the_shape_of_every_gpt_it_may_begin_with(preset):
    values = GPT_PRESETS[preset] | {"vocab_size": 50, "num_layers": 1}
    assert_body_fits("gpt", GPT, GPTConfig(**values))


@pytest.mark.parametrize("preset", ENCODER_PRESETS)
def test_a_classifier_has_the_shape_of_every_bert_it_may_begin_with(preset):
    values = ENCODER_PRESETS[preset] | {"vocab_size": 50, "num_layers": 1}
    assert_body_fits("bert", Bert, BertConfig(**values))


def assert_body_fits(pretrained, model, config):
    """Also when a recipe fills in what is not said from the smallest preset."""
    for kind in ("classify", "tag"):
        name, values = body_config(pretrained, config, kind)
        said = {"name": name, **{k: v for k, v in values.items() if v is not None}}
        recipe = make_recipe({"model": said | {"labels": ["a", "b"]}, "data": {"paths": "x"}})
        with torch.device("meta"):
            built = row(name).model(recipe.architecture())
            source = model(config)
        body = getattr(source, "encoder", source)
        shapes = {k: v.shape for k, v in body.state_dict().items() if not k.startswith("head.")}
        assert {k: v.shape for k, v in built.body.state_dict().items()} == shapes


def test_a_classifier_is_no_start_for_another():
    config = GPTClassifierConfig(vocab_size=9, labels=("a", "b"))
    with pytest.raises(GlassformerError, match=r"a gpt-classifier cannot .* bert or gpt"):
        body_config("gpt-classifier", config, "classify")


@pytest.mark.parametrize("kind", ["idf", "idf lstm"])
def test_a_token_that_fewer_texts_have_counts_more(kind, shaken):
    model = shaken(made(kind))
    ids = torch.tensor([[1, 2, 3]])
    before = model(ids)
    model.see(torch.tensor(text) for text in ([1, 1, 2], [1, 3], [1]))
    assert model.idf_pooling.idf[1] == 1 < model.idf_pooling.idf[2] < model.idf_pooling.idf[4]
    assert not torch.allclose(model(ids), before)


@pytest.mark.parametrize(("kind", "instead"), [("idf", "mean"), ("idf lstm", "max")])
def test_the_steps_of_a_series_have_no_frequency(kind, instead):
    torch.manual_seed(0)
    options = {"vocab_size": None, "num_features": 2}
    model = made(kind, **options).eval()
    plain = made(kind, **options, pooling=instead).eval()
    plain.load_state_dict(model.state_dict())
    series = torch.randn(3, 5, 2)
    close(model(series), plain(series))
