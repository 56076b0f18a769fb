"""What judges say about runs, on tiny models that are trained for this."""

import random
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.course.checking import verdict_on
from glassformer.course.exercises.gpt import shares_of

ONE_CORE = {"training.num_threads": 1, "training.snapshots": 0}


def said(name: str, *solution: Any) -> str:
    return str(verdict_on(name, *solution))


# --- a head that looks one token back ---


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each letter follows from the one before the last, so a head must look back."""
    drawn = random.Random(0)
    letters = "abcdefghijklmnopqrst"
    after = dict(zip(letters, drawn.sample(letters, len(letters)), strict=True))
    written = list("ab")
    for _ in range(20_000):
        written.append(after[written[-2]] if drawn.random() < 0.9 else drawn.choice(letters))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(written))
    return path


def gpt(text: Path, steps: int, name: str) -> Path:
    size = {"context_length": 32, "num_layers": 2, "num_heads": 3, "d_model": 48}
    settings = {f"model.{key}": value for key, value in size.items()} | ONE_CORE
    settings["training.per_device_train_batch_size"] = 16
    options: dict[str, Any] = {"preset": "nano", "max_steps": steps, "settings": settings}
    return Path(glassformer.train("gpt", text, out=text.parent / name, quiet=True, **options))


@pytest.fixture(scope="module")
def looking_back(text: Path) -> Path:
    return gpt(text, 200, "trained")


def test_the_head_that_looks_back_is_accepted(looking_back: Path) -> None:
    shares = shares_of(looking_back)
    layer, head = divmod(int(shares.argmax()), shares.size(1))
    assert said("previous_token_head", looking_back, layer, head) == "previous_token_head: passed"


def test_another_head_is_not_the_one_that_looks_back(looking_back: Path) -> None:
    shares = shares_of(looking_back)
    layer, head = divmod(int(shares.argmin()), shares.size(1))
    assert "another gives more" in said("previous_token_head", looking_back, layer, head)
    assert "no layer 2: the model has 2" in said("previous_token_head", looking_back, 2, 0)
    assert "not an integer" in said("previous_token_head", looking_back, 0, "first")


def test_a_run_that_shows_nothing_is_refused(text: Path, tmp_path: Path) -> None:
    run = gpt(text, 2, "untrained")
    assert "no head of this run looks back" in said("previous_token_head", run, 0, 0)
    assert "is not the folder of a run" in said("previous_token_head", tmp_path, 0, 0)
    assert "is not the folder of a run" in said("previous_token_head", 3, 0, 0)
