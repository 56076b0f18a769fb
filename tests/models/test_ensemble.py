"""A bag beside a body: two parts that are added, and can be told apart."""

import pytest
import torch

from glassformer.models.bag import Bag
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
)
from glassformer.models.ensemble import has_bag
from glassformer.models.rnn import RNNClassifier, RNNClassifierConfig

SHAPE = {"vocab_size": 17, "labels": ("a", "b", "c"), "d_model": 16}
STACK = SHAPE | {"num_layers": 1, "num_heads": 2, "context_length": 12}
MODELS = {
    "encoder": (Classifier, ClassifierConfig, STACK),
    "gpt": (GPTClassifier, GPTClassifierConfig, STACK),
    "lstm": (RNNClassifier, RNNClassifierConfig, SHAPE),
}
TEXTS = [torch.tensor([1, 2, 3]), torch.tensor([2, 4]), torch.tensor([2, 5, 6, 7])]


def made(kind, **options):
    model, config, values = MODELS[kind]
    return model(config(**values | options)).eval()


def with_bag(kind):
    model = made(kind, bag=True)
    model.see(TEXTS, ("", *(f"word{n}" for n in range(16))))
    torch.nn.init.normal_(model.bag.embedding.weight)
    return model


@pytest.mark.parametrize("kind", MODELS)
def test_the_logits_are_the_weighted_sum_of_a_model_without_a_bag_and_of_a_bag(kind):
    model = with_bag(kind)
    model.weigh([0.25, 2.0])
    state = model.state_dict()
    body = made(kind)
    body.load_state_dict({name: each for name, each in state.items() if name in body.state_dict()})
    bag = Bag(model.bag.config).eval()
    bag.load_state_dict({name: state[f"bag.{name}"] for name in bag.state_dict()})
    ids, is_text = (
        torch.randint(0, 17, (4, 9)),
        torch.arange(9) < torch.tensor([[3], [9], [1], [5]]),
    )
    expected = 0.25 * body(ids, is_text) + 2 * bag(ids, is_text)
    torch.testing.assert_close(model(ids, is_text), expected)
    first, second = model.members(ids, is_text)
    torch.testing.assert_close(first, body(ids, is_text))
    torch.testing.assert_close(model.combined([first, second]), expected)


@pytest.mark.parametrize("kind", MODELS)
def test_pairs_in_the_bag_count_as_much_as_the_config_says(kind):
    text = torch.tensor([[1, 2, 3]])
    found = {}
    for weight in (0.0, 0.3, 1.0):
        model = made(kind, bag=True, bag_ngram_weight=weight)
        model.see(TEXTS)  # pieces have no spelling
        torch.nn.init.zeros_(model.bag.embedding.weight)
        torch.nn.init.ones_(model.bag.embedding.weight[17:])  # the pairs
        found[weight] = model.bag.represent(text).sum().item()
    assert found[0.0] == 0 < found[0.3] < found[1.0]


@pytest.mark.parametrize("kind", MODELS)
def test_a_config_without_the_field_has_no_bag(kind):
    model = made(kind)
    assert not [name for name in model.state_dict() if "bag" in name or "shares" in name]
    ids = torch.randint(0, 17, (2, 5))
    (only,) = model.members(ids)
    assert torch.equal(model(ids), only)
    assert not has_bag(model)


@pytest.mark.parametrize("kind", ["encoder", "lstm"])
def test_a_time_series_has_no_bag(kind):
    model = made(kind, bag=True, vocab_size=None, num_features=2)
    assert model.bag is None
    assert model(torch.randn(3, 7, 2)).shape == (3, 3)


def test_it_counts_words_pairs_and_characters_of_the_training_texts():
    bag = with_bag("encoder").bag
    assert bag.idf[2] < bag.idf[4] < bag.idf[9]  # in three texts, in one, in none
    assert (bag.spelling[1] >= 0).any()
    assert not (bag.spelling[0] >= 0).any()  # a special token


def test_each_part_learns_from_its_own_mistakes():
    model = with_bag("encoder").train()
    ids = torch.randint(0, 17, (4, 5))
    _, bag = model.members(ids)
    bag.sum().backward()
    assert all(each.grad is None for each in model.encoder.parameters())
    assert model.bag.embedding.weight.grad is not None
