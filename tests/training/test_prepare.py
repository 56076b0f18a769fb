"""What a recipe leaves open is chosen from the text; what it says is kept."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.checkpoint.atomic import check_folder
from glassformer.config import flatten
from glassformer.errors import GlassformerError
from glassformer.models import MODELS
from glassformer.training.dry_run import rehearse
from glassformer.training.prepare import prepare, prepared, rehearsed
from glassformer.training.recipe import Recipe, make_recipe
from glassformer.training.tasks.language import Language

Make = Callable[..., Recipe]


@pytest.fixture
def choose(tmp_path: Path, notes: Path) -> Callable[..., Language]:
    """Prepare a recipe that says only this."""

    def from_sections(**sections: dict[str, Any]) -> Language:
        values = {"model": {"name": "gpt"} | sections.pop("model", {})}
        values["data"] = {"paths": [str(notes)]} | sections.pop("data", {})
        return prepare(make_recipe(values | sections), tmp_path / "run", lambda text: None)

    return from_sections


# --- choices ---


def test_little_text_is_read_by_characters(choose: Callable[..., Language], notes: Path) -> None:
    ready = choose()
    assert ready.recipe.tokenizer.kind == "char"
    assert ready.tokenizer.vocab_size == len(set(notes.read_text())) + 1  # and the end of text


def test_the_tokenizer_that_is_asked_for_is_taken(choose: Callable[..., Language]) -> None:
    ready = choose(tokenizer={"kind": "bpe", "vocab_size": 280})
    assert (ready.recipe.tokenizer.kind, ready.tokenizer.vocab_size) == ("bpe", 280)
    assert ready.recipe.model["vocab_size"] == 280


def test_more_text_gets_a_larger_model(
    choose: Callable[..., Language], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose().recipe.preset == "modern-xs"
    known = replace(MODELS["gpt"], sizes=((1000, "modern-s"), (0, "modern-xs")))
    monkeypatch.setitem(MODELS, "gpt", known)
    assert choose().recipe.preset == "modern-s"
    assert choose(model={"preset": "nano"}).recipe.preset == "nano"


@pytest.mark.parametrize(("batch", "context", "steps"), [(32, 128, 300), (1, 2, 9_000)])
def test_the_number_of_steps_has_limits(
    choose: Callable[..., Language],
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    context: int,
    steps: int,
) -> None:
    monkeypatch.setattr("glassformer.training.tasks.task.MOST_STEPS", 9_000)
    model, training = {"context_length": context}, {"per_device_train_batch_size": batch}
    assert choose(model=model, training=training).recipe.training.max_steps == steps


def test_between_the_limits_the_text_is_read_six_times(choose: Callable[..., Language]) -> None:
    batch = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    ready = choose(model={"context_length": 16}, training=batch)
    assert ready.recipe.training.max_steps == 6 * len(ready.training) // (16 * 2 * 2)


def test_a_wider_model_learns_more_slowly(choose: Callable[..., Language]) -> None:
    rates = [choose(model={"d_model": width}).recipe.training.learning_rate for width in (128, 512)]
    assert rates == [0.007, 0.0035]


def test_nothing_is_left_open_in_the_end(choose: Callable[..., Language]) -> None:
    values = choose().recipe.model_dump(mode="json")
    open_keys = [key for key, value in flatten(values["training"]) if value is None]
    # Steps were chosen instead of epochs; the next two mean never; the last is the machine's.
    assert open_keys == ["num_train_epochs", "time_limit", "early_stopping", "num_threads"]
    assert values["model"]["context_length"] == 128


def test_whatever_is_said_is_kept(choose: Callable[..., Language]) -> None:
    said: dict[str, Any] = {
        "max_steps": 7,
        "per_device_train_batch_size": 3,
        "learning_rate": 0.5,
        "warmup_steps": 0,
        "eval_steps": 2,
        "save_steps": 5,
    }
    ready = choose(model={"d_model": 40, "num_layers": 2}, training=said)
    assert ready.recipe.training.model_dump().items() >= said.items()
    assert ready.recipe.model.items() >= {"d_model": 40, "num_layers": 2}.items()


# --- the text ---


def test_what_was_prepared_opens_again_as_it_was(tmp_path: Path, tiny: Make) -> None:
    ready = prepare(tiny(), tmp_path / "run", lambda text: None)
    again = prepared(ready.recipe, tmp_path / "run")
    assert np.array_equal(again.training, ready.training)
    assert np.array_equal(again.validation, ready.validation)
    assert again.validation_bytes == ready.validation_bytes
    assert again.tokenizer.decode(list(again.training)).startswith("".join(ready_text(tmp_path)))


def ready_text(tmp_path: Path) -> str:
    return (tmp_path / "notes.txt").read_text()[:1000]


def test_what_is_held_out_is_the_end_of_the_text(tmp_path: Path, tiny: Make, notes: Path) -> None:
    ready = prepare(tiny(), tmp_path / "run", lambda text: None)
    held_out = ready.tokenizer.decode(list(ready.validation))
    assert notes.read_text().endswith(held_out)
    assert ready.validation_bytes == len(held_out)


def test_characters_that_only_the_held_out_text_has_are_known(
    choose: Callable[..., Language], tmp_path: Path
) -> None:
    (tmp_path / "other.txt").write_text("Ω and more")
    ready = choose(data={"validation_paths": [str(tmp_path / "other.txt")]})
    assert ready.tokenizer.decode(list(ready.validation)) == "Ω and more"


def test_the_user_hears_of_the_data_and_of_the_choice(tmp_path: Path, tiny: Make) -> None:
    said: list[str] = []
    prepare(tiny(), tmp_path / "run", said.append)
    assert said[0].startswith("data: ")
    assert "held out: last 10 % of" in said[0]
    assert said[1].startswith("note: 4.69 kB")
    assert "very little" in said[1]
    assert said[2].startswith("character tokenizer: ")


# --- bad text ---


def test_text_shorter_than_a_context_comes_with_advice_that_works(
    tmp_path: Path, notes: Path, tiny: Make
) -> None:
    notes.write_text("A text of some forty characters it is.")
    with pytest.raises(GlassformerError, match=r"notes\.txt: \d+ tokens to learn from") as error:
        prepare(tiny({"context_length": 64}), tmp_path / "run", lambda text: None)
    advice = re.search(r"model\.context_length=(\d+)", str(error.value))
    assert advice is not None
    ready = prepare(tiny({"context_length": int(advice[1])}), tmp_path / "run", lambda text: None)
    assert len(ready.training) > int(advice[1])


def test_a_disk_that_is_full_is_an_error_that_names_the_place(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glassformer.training.tasks.text.write_tokens", full)
    with pytest.raises(GlassformerError, match="run/data cannot be written: No space left"):
        prepare(tiny(), tmp_path / "run", lambda text: None)
    assert list((tmp_path / "run").iterdir()) == []


def test_the_tokens_on_disk_are_guarded_against_damage(tmp_path: Path, tiny: Make) -> None:
    prepare(tiny(), tmp_path / "run", lambda text: None)
    check_folder(tmp_path / "run" / "data", cure="")


# --- a rehearsal ---


def test_a_rehearsal_leaves_nothing_behind(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with rehearsed(tiny(), lambda text: None) as ready:
        assert len(ready.training) > 1000
        assert len(list(tmp_path.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_rehearsal_adds_up_what_a_training_would_be(tiny: Make, tmp_path: Path) -> None:
    plan = rehearse(tiny(max_steps=1000))
    assert plan.tokens_per_step == 2 * 16 * 2
    assert plan.epochs == pytest.approx(1000 * 64 / plan.facts["num_tokens"])
    assert plan.seconds > 1000 * plan.seconds_per_step  # validation comes on top
    assert f"{plan.num_parameters:,} parameters, context 16" in plan.text()
