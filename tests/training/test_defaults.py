"""What a recipe leaves open is chosen from the data; what it gives is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.config import flatten
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS
from glassformer.tasks.task import Objective
from glassformer.training.preparation import make_recipe, prepare

Choose = Callable[..., Objective]


@pytest.fixture
def choose(tmp_path: Path, notes: Path) -> Callable[..., Objective]:
    """Prepare a recipe that gives only this."""

    def from_sections(**sections: dict[str, Any]) -> Objective:
        values = {"model": {"name": "gpt"} | sections.pop("model", {})}
        values["data"] = {"paths": [str(notes)]} | sections.pop("data", {})
        return prepare(make_recipe(values | sections), tmp_path / "run", lambda text: None)

    return from_sections


def test_little_text_is_read_by_characters(choose: Choose, notes: Path) -> None:
    ready = choose()
    assert ready.recipe.tokenizer.kind == "char"
    assert (
        ready.dataset.preprocessing.tokenizer.vocab_size == len(set(notes.read_text())) + 1
    )  # and the end of text


def test_the_tokenizer_that_is_asked_for_is_taken(choose: Choose) -> None:
    ready = choose(tokenizer={"kind": "bpe", "vocab_size": 280})
    assert (ready.recipe.tokenizer.kind, ready.dataset.preprocessing.tokenizer.vocab_size) == (
        "bpe",
        280,
    )
    assert ready.recipe.model["vocab_size"] == 280


def test_more_text_gets_a_larger_model(choose: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose().recipe.preset == "modern-xs"
    known = replace(MODELS["gpt"], sizes=((1000, "modern-s"), (0, "modern-xs")))
    monkeypatch.setitem(MODELS, "gpt", known)
    assert choose().recipe.preset == "modern-s"
    assert choose(model={"preset": "nano"}).recipe.preset == "nano"


@pytest.mark.parametrize(("batch", "context", "steps"), [(32, 128, 300), (1, 2, 9_000)])
def test_the_number_of_steps_has_limits(
    choose: Choose,
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    context: int,
    steps: int,
) -> None:
    monkeypatch.setattr("glassformer.training.defaults.MOST_STEPS", 9_000)
    model, training = {"context_length": context}, {"per_device_train_batch_size": batch}
    assert choose(model=model, training=training).recipe.training.max_steps == steps


def test_between_the_limits_the_text_is_read_six_times(choose: Choose) -> None:
    batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    ready = choose(model={"context_length": 16}, training=batch)
    assert ready.recipe.training.max_steps == 6 * len(ready.dataset.training) // (16 * 2 * 2)


def test_a_wider_model_learns_more_slowly(choose: Choose) -> None:
    rates = [choose(model={"d_model": width}).recipe.training.learning_rate for width in (128, 512)]
    assert rates == [0.007, 0.0035]


def test_nothing_is_left_open_in_the_end(choose: Choose) -> None:
    values = choose().recipe.model_dump(mode="json")
    open_keys = [key for key, value in flatten(values["training"]) if value is None]
    # Steps were chosen instead of epochs; the next two mean never; snapshots are kept as long as
    # they are small; the last is the machine's.
    never = ["time_limit", "early_stopping"]
    assert open_keys == ["num_train_epochs", *never, "snapshots", "num_threads"]
    assert values["model"]["context_length"] == 128


def test_whatever_is_given_is_kept(choose: Choose) -> None:
    given: dict[str, Any] = {
        "max_steps": 7,
        "per_device_train_batch_size": 3,
        "learning_rate": 0.5,
        "warmup_steps": 0,
        "eval_steps": 2,
        "save_steps": 5,
    }
    ready = choose(model={"d_model": 40, "num_layers": 2}, training=given)
    assert ready.recipe.training.model_dump().items() >= given.items()
    assert ready.recipe.model.items() >= {"d_model": 40, "num_layers": 2}.items()


@pytest.mark.parametrize("key", ["labels=[a, b]", "multi_label=true", "num_features=3"])
def test_what_the_data_decides_cannot_be_contradicted(tmp_path: Path, key: str) -> None:
    rows = [f"{label} thing {number},{label}" for number in range(9) for label in ("good", "bad")]
    (tmp_path / "x.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    name, _, value = key.partition("=")
    model = {"name": "rnn-classifier", name: yaml.safe_load(value)}
    recipe = make_recipe({"model": model, "data": {"paths": [str(tmp_path / "x.csv")]}})
    with pytest.raises(UsageError, match=rf"model\.{name} .*Leave it out"):
        prepare(recipe, tmp_path / "run", lambda text: None)


def test_a_model_needs_room_for_its_tokens(choose: Choose) -> None:
    with pytest.raises(GlassformerError, match="vocab_size is 280 here and 100 in the model"):
        choose(model={"vocab_size": 100}, tokenizer={"kind": "bpe", "vocab_size": 280})
    assert choose(model={"vocab_size": 500}).recipe.model["vocab_size"] == 500


@pytest.mark.parametrize("steps", [{}, {"max_steps": 2}])
def test_a_batch_far_larger_than_the_data_is_refused(choose: Choose, steps: Any) -> None:
    with pytest.raises(UsageError, match=r"is 1,000,000,000, but the .* Pass 1,024 or less"):
        choose(training={"per_device_train_batch_size": 1e9} | steps)
    ready = choose(training={"per_device_train_batch_size": 1024} | steps)
    assert ready.config.per_device_train_batch_size == 1024
