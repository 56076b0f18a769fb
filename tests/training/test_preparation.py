"""From files to data that a training can read."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.atomic_files import check_folder
from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import prepare, prepared, rehearsed

Make = Callable[..., Recipe]


def test_what_was_prepared_opens_again_as_it_was(tmp_path: Path, notes: Path, tiny: Make) -> None:
    ready = prepare(tiny(), tmp_path / "run", lambda text: None)
    again = prepared(ready.objective().recipe, tmp_path / "run").dataset
    assert np.array_equal(again.training, ready.dataset.training)
    assert np.array_equal(again.validation, ready.dataset.validation)
    assert again.validation_bytes == ready.dataset.validation_bytes
    text = again.preprocessing.tokenizer.decode(list(again.training))
    assert text.startswith(notes.read_text()[:1000])


def test_what_is_held_out_is_the_end_of_the_text(tmp_path: Path, tiny: Make, notes: Path) -> None:
    data = prepare(tiny(), tmp_path / "run", lambda text: None).dataset
    held_out = data.preprocessing.tokenizer.decode(list(data.validation))
    assert notes.read_text().endswith(held_out)
    assert data.validation_bytes == len(held_out)


def test_characters_that_only_the_held_out_text_has_are_known(tmp_path: Path, tiny: Make) -> None:
    (tmp_path / "other.txt").write_text("Ω and more")
    recipe = tiny()
    other = recipe.data.model_copy(update={"validation_paths": (str(tmp_path / "other.txt"),)})
    recipe = recipe.model_copy(update={"data": other})
    data = prepare(recipe, tmp_path / "run", lambda text: None).dataset
    assert data.preprocessing.tokenizer.decode(list(data.validation)) == "Ω and more"


def test_the_data_and_the_choice_of_tokenizer_are_reported(tmp_path: Path, tiny: Make) -> None:
    said: list[str] = []
    prepare(tiny(), tmp_path / "run", said.append)
    assert said[0].startswith("data: ")
    assert "held out: last 10% of" in said[0]
    assert said[1].startswith("note: 4.69 kB")
    assert "very little" in said[1]
    assert said[2].startswith("character tokenizer: ")


def test_text_shorter_than_a_context_comes_with_advice_that_works(
    tmp_path: Path, notes: Path, tiny: Make
) -> None:
    notes.write_text("A text of some forty characters it is.")
    with pytest.raises(
        GlassformerError, match=r"notes\.txt: the training text has \d+ tokens"
    ) as error:
        prepare(tiny({"context_length": 64}), tmp_path / "run", lambda text: None)
    advice = re.search(r"model\.context_length=(\d+)", str(error.value))
    assert advice is not None
    ready = prepare(tiny({"context_length": int(advice[1])}), tmp_path / "run", lambda text: None)
    assert len(ready.dataset.training) > int(advice[1])


def test_a_disk_that_is_full_is_an_error_that_names_the_place(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glassformer.tasks.text_windows.write_tokens", full)
    with pytest.raises(GlassformerError, match="run/data cannot be written: No space left"):
        prepare(tiny(), tmp_path / "run", lambda text: None)
    assert list((tmp_path / "run").iterdir()) == []


def test_the_tokens_on_disk_are_guarded_against_damage(tmp_path: Path, tiny: Make) -> None:
    prepare(tiny(), tmp_path / "run", lambda text: None)
    check_folder(tmp_path / "run" / "data", cure="")


# --- a dry run ---


def test_a_rehearsal_leaves_nothing_behind(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with rehearsed(tiny(), lambda text: None) as ready:
        assert len(ready.dataset.training) > 1000
        assert len(list(tmp_path.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
