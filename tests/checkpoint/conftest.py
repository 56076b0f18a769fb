"""Small models to save, and a disk that fails."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.models.gpt import GPT, GPTConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer

WRITES = (
    *((Path, name) for name in ("write_bytes", "write_text", "mkdir", "rename", "replace")),
    (os, "fsync"),
)


@pytest.fixture(scope="session")
def preprocessing() -> TextPreprocessing:
    tokenizer = train_tokenizer("char", ["the quick brown fox"])
    return TextPreprocessing(tokenizer=tokenizer, is_causal=True)


@pytest.fixture
def gpt(preprocessing: TextPreprocessing) -> Callable[..., GPT]:
    """A GPT with weights of its own."""

    def make(seed: int = 0, **keys: Any) -> GPT:
        torch.manual_seed(seed)
        sizes = {"num_layers": 2, "d_model": 8, "num_heads": 2, "context_length": 8}
        config = GPTConfig.model_validate(
            {"vocab_size": preprocessing.tokenizer.vocab_size} | sizes | keys
        )
        model = GPT(config).eval()
        for parameter in model.parameters():  # none at zero, where two models would agree
            torch.nn.init.normal_(parameter)
        return model

    return make


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Iterator[int]]:
    """Each turn of this iterator lets one more write succeed before one fails, half done; the last
    turn is the one in which none does."""

    def turns() -> Iterator[int]:
        for allowed in itertools.count():
            calls = 0
            with monkeypatch.context() as patch:
                for owner, name in WRITES:
                    real = getattr(owner, name)

                    def write(
                        *given: Any, real: Any = real, last: int = allowed, **more: Any
                    ) -> Any:
                        nonlocal calls
                        calls += 1
                        if calls == last + 1:
                            if real.__name__ == "write_bytes":
                                real(given[0], given[1][: len(given[1]) // 2])
                            raise OSError(28, "No space left on device")
                        return real(*given, **more)

                    patch.setattr(owner, name, write)
                yield allowed
            if calls <= allowed:
                return

    return turns
