import re

import pytest
from torch import nn

from glassformer.config import Config, parse
from glassformer.errors import UsageError
from glassformer.models import MODELS, built_on, name_of, row, trainable
from glassformer.models.heads import Labeller
from glassformer.models.memory_decoder import MemoryDecoder

PRESETS = [(name, preset) for name, each in MODELS.items() for preset in each.presets]


@pytest.mark.parametrize("name", MODELS)
def test_a_row_leads_to_a_config_and_a_model(name):
    assert issubclass(row(name).config, Config)
    assert issubclass(row(name).model, nn.Module)
    assert row(name).config is row(name).config


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_preset_makes_a_valid_config(name, preset):
    values = row(name).preset(preset)
    config = parse(row(name).config, values)
    if isinstance(side := values.get("image_size"), int):
        values = values | {"image_size": (side, side)}
    assert {key: getattr(config, key) for key in values} == values


@pytest.mark.parametrize("name", MODELS)
def test_sizes_choose_presets_largest_first_and_there_is_one_for_little_data(name):
    least = [amount for amount, _ in row(name).sizes]
    assert least == sorted(least, reverse=True)
    assert least[-1] == 0
    assert {preset for _, preset in row(name).sizes} <= row(name).presets.keys()
    assert row(name).smallest == row(name).sizes[-1][1]


def test_models_that_only_finetune_makes_are_not_offered_for_training():
    assert set(MODELS) - set(trainable()) == {
        *("gpt-classifier", "gpt-tagger", "image-gpt-probe"),
    }


def test_a_row_added_later_can_be_trained(monkeypatch):
    monkeypatch.setitem(MODELS, "other", MODELS["gpt"])
    assert "other" in trainable()


def test_every_model_knows_its_name():
    config = parse(row("bag").config, {"vocab_size": 5, "labels": ["a", "b"]})
    assert name_of(row("bag").model(config)) == "bag"


@pytest.mark.parametrize(
    ("body", "task", "name"),
    [
        *(("gpt", "classify", "gpt-classifier"), ("gpt", "tag", "gpt-tagger")),
        *(("bert", "classify", "classifier"), ("bert", "tag", "tagger")),
        *(("gpt", "translate", None), ("bag", "classify", None)),
        *(("image-gpt", "probe", "image-gpt-probe"), ("gpt", "probe", None)),
    ],
)
def test_what_is_built_on_a_pretrained_model(body, task, name):
    assert built_on(body, task) == name


def test_a_body_is_a_model_of_the_table():
    assert {each.body for each in MODELS.values() if each.body} <= MODELS.keys()


def test_an_unknown_model_or_preset_names_those_there_are():
    with pytest.raises(UsageError, match=r'no model "bird". Available models: .*gpt'):
        row("bird")
    with pytest.raises(UsageError, match=re.escape("Did you mean classifier?")):
        row("clasifier")
    with pytest.raises(
        UsageError,
        match=r'no preset "gpt3". Did you mean gpt2\? Available presets: nano, .*gpt2-xl',
    ):
        row("gpt").preset("gpt3")


def test_models_state_their_capabilities():
    labellers = [name for name, each in MODELS.items() if issubclass(each.model, Labeller)]
    assert {name: row(name).model.default_context for name in labellers} == {
        **dict.fromkeys(labellers, 512),
        **dict.fromkeys(("bag", "vit", "multiscale-vit", "image-gpt-probe")),
    }
    assert {name for name in labellers if row(name).model.is_causal} == {
        "gpt-classifier",
        "gpt-tagger",
        "image-gpt-probe",
    }
    assert row("gpt").model.is_causal
    decoders = [name for name, each in MODELS.items() if issubclass(each.model, MemoryDecoder)]
    assert {name: row(name).model.can_read_its_own_words for name in decoders} == {
        "translator": False,
        "rnn-translator": True,
        "captioner": False,
        "show-attend-tell": False,
    }
