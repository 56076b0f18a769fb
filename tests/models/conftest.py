from functools import cache

import pytest
import torch

from glassformer.models.gpt import GPT, GPTConfig

SMALL = {"vocab_size": 17, "context_length": 24, "num_layers": 2, "d_model": 16, "num_heads": 4}


def _shaken(model):
    with torch.no_grad():
        for weight in model.parameters():  # no weight is zero or one, so that each of them counts
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model.eval()


@cache
def _gpt(**options):
    torch.manual_seed(0)
    return _shaken(GPT(GPTConfig(**SMALL | options)))


@pytest.fixture(scope="session")
def gpt():
    """Makes a small GPT with random weights everywhere; the same options, the same model."""
    return _gpt


@pytest.fixture(scope="session")
def shaken():
    """Adds noise to every weight of a model and makes it ready to predict."""
    return _shaken
