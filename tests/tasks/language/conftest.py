import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import CHARACTERS, Tokenizer

TEXT = "abba é\nbaab 漢字\n" * 3


def random_gpt(vocab_size, context_length=8, **more):
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=vocab_size,
        context_length=context_length,
        num_layers=1,
        d_model=16,
        num_heads=2,
        **more,
    )
    model = GPT(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def saved_and_loaded(folder, tokenizer, **more):
    model = random_gpt(tokenizer.vocab_size, **more)
    save_model(folder, model, TextPreprocessing(tokenizer=tokenizer, is_causal=True))
    return glassformer.load(folder)


def predictor_of(model, tokenizer, defaults=None):
    return LanguagePredictor(model, TextPreprocessing(tokenizer=tokenizer), defaults)


@pytest.fixture(scope="session")
def chars(tmp_path_factory):
    """A predictor of a, b, é, 漢, 字, space and line break, with a context of 8."""
    return saved_and_loaded(tmp_path_factory.mktemp("chars"), train_tokenizer("char", [TEXT]))


@pytest.fixture(scope="session")
def bpe(tmp_path_factory):
    """A predictor of bytes and a few merges of them, with a context of 8."""
    return saved_and_loaded(tmp_path_factory.mktemp("bpe"), train_tokenizer("bpe", [TEXT]))


@pytest.fixture(params=["chars", "bpe"])
def predictor(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def with_context():
    """Make a predictor of characters that sees so many of them."""

    def make(context_length, **more):
        tokenizer = train_tokenizer("char", [TEXT])
        model = random_gpt(tokenizer.vocab_size, context_length, **more)
        return predictor_of(model, tokenizer)

    return make


@pytest.fixture(scope="session")
def without_end():
    """A predictor of a and b whose tokenizer has no end of text."""
    backend = Backend(models.WordLevel({"a": 0, "b": 1}))
    backend.pre_tokenizer, backend.decoder = CHARACTERS, decoders.Fuse()
    return predictor_of(random_gpt(2), Tokenizer(backend))


@pytest.fixture
def fond_of():
    """Make a predictor that writes the given ids, each as often as the others, and no other."""

    def make(tokenizer, ids):
        model = random_gpt(tokenizer.vocab_size, output_bias=True)
        torch.nn.init.zeros_(model.head.weight)
        model.head.bias.data = torch.full((tokenizer.vocab_size,), -1e4)
        model.head.bias.data[ids] = 0.0
        return predictor_of(model, tokenizer)

    return make
