"""For all tests: one thread, the same random numbers, and no garbage collector that walks through
what all tests share. For those that train: a training so small
that it takes a second, and ways to end it before its time."""

import ctypes
import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import make_recipe

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "it")

Make = Callable[..., Recipe]

settings.register_profile("any machine", deadline=None)  # a busy one pauses for a second
settings.load_profile("any machine")


LONGEST = ("test_readme.py", "test_site.py", "test_experiments.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests take minutes come first, so that no process works alone at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """A training calls the garbage collector, which would walk through a million objects of test
    functions and libraries that are never freed: for longer than the training takes."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _memory_is_given_back() -> Iterator[None]:
    """After the fixtures of a file: glibc keeps what is freed between blocks still in use."""
    yield
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


@pytest.fixture(autouse=True)
def _one_thread_and_the_same_numbers_every_time() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: a second thread only waits
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Six thousand characters of sentences."""
    draw = random.Random(0)
    lines = (" ".join(draw.choices(WORDS, k=8)) + ".\n" for _ in range(140))
    path = tmp_path / "notes.txt"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def tiny(notes: Path) -> Make:
    """A recipe for a model of a few thousand weights, with dropout and accumulation."""

    def make(model: dict[str, Any] | None = None, **training: Any) -> Recipe:
        sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "num_kv_heads": 1}
        sizes |= {"context_length": 16, "d_feedforward": 32}
        steps = {"max_steps": 12, "eval_steps": 4, "save_steps": 3, "logging_steps": 5}
        batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
        machine = {"device": "cpu", "precision": "float32", "num_threads": 1}
        return make_recipe(
            {
                "model": {"name": "gpt", "dropout": 0.2, **sizes} | (model or {}),
                "data": {"paths": [str(notes)]},
                "training": steps | batch | machine | training,
            }
        )

    return make


@pytest.fixture
def at_batch(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Let something happen just before micro-batch `number` is learned from, once."""
    from glassformer.training.learner import Batch, Loss

    def arrange(number: int, happens: Callable[[], None]) -> None:
        real = Loss.forward

        def forward(self: Loss, batch: Batch) -> torch.Tensor:
            if batch.number == number:
                monkeypatch.setattr(Loss, "forward", real)
                happens()
            return real(self, batch)

        monkeypatch.setattr(Loss, "forward", forward)

    return arrange


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Every file of a run by name, but for TensorBoard's, whose names and insides tell the time."""

    def read(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        kept = (path for path in files if not path.name.startswith("events.out"))
        return {str(path.relative_to(folder)): path.read_bytes() for path in kept}

    return read


@pytest.fixture
def signalled() -> Callable[[int], Callable[[], None]]:
    """This process, sent a signal."""
    return lambda number: lambda: os.kill(os.getpid(), number)
