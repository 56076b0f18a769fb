from functools import cache

import pytest
import torch

from glassformer.models.gpt import GPT, GPTConfig

SMALL = {"vocab_size": 17, "context_length": 24, "num_layers": 2, "d_model": 16, "num_heads": 4}


@cache
def _gpt(**options):
    torch.manual_seed(0)
    model = GPT(GPTConfig(**SMALL | options)).eval()
    with torch.no_grad():
        for weight in model.parameters():  # no weight is zero or one, so that each of them counts
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model


@pytest.fixture(scope="session")
def gpt():
    """Makes a small GPT with random weights everywhere; the same options, the same model."""
    return _gpt
