"""What tests of inspections share: a browser, small language models, pages with exact weights."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from chromium_pipe import Browser

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.inspect import story
from glassformer.inspect.live import live_or_error
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.task import Predictor
from glassformer.text.tokenizer_training import train_tokenizer


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages carry their weights as float32."""
    monkeypatch.setattr(story, "live_or_error", partial(live_or_error, dtype="float32"))


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A tab; whatever a test does leaves no problem on its console."""
    with Browser(tmp_path / "profile") as found:
        yield found
        assert found.problems == []


@pytest.fixture(scope="session")
def with_context() -> Callable[[int], LanguagePredictor]:
    """Make a predictor of a, b, é, 漢, 字, space and line break that sees so many of them."""

    def make(context_length: int) -> LanguagePredictor:
        tokenizer = train_tokenizer("char", ["abba é\nbaab 漢字\n" * 3])
        shape = {"context_length": context_length, "num_layers": 1, "d_model": 16, "num_heads": 2}
        torch.manual_seed(0)
        model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape))  # type: ignore[arg-type]
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        return LanguagePredictor(model, TextPreprocessing(tokenizer=tokenizer, is_causal=True))

    return make


@pytest.fixture(scope="session")
def chars(
    with_context: Callable[[int], LanguagePredictor], tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    """The one with a context of 8, saved and loaded."""
    folder, predictor = tmp_path_factory.mktemp("chars"), with_context(8)
    save_model(folder, predictor.model, predictor.preprocessing)
    return glassformer.load(folder)
