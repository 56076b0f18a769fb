"""From files to data that a training can read."""

import json
import re
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data.split import normalised
from glassformer.errors import GlassformerError
from glassformer.files import check_folder
from glassformer.tasks.recipe import Recipe
from glassformer.text.tokenizer_training import TextSample
from glassformer.text.words import ByteCount
from glassformer.training.preparation import load_objective, prepare, prepare_temporarily

Make = Callable[..., Recipe]


def test_what_was_prepared_opens_again_as_it_was(tmp_path: Path, notes: Path, tiny: Make) -> None:
    ready = prepare(tiny(), tmp_path / "run", lambda text: None)
    again = load_objective(ready.recipe, tmp_path / "run").dataset
    assert np.array_equal(again.training, ready.dataset.training)
    assert np.array_equal(again.validation, ready.dataset.validation)
    assert again.validation_size == ready.dataset.validation_size
    text = again.preprocessing.tokenizer.decode(list(again.training))
    assert text.startswith(notes.read_text()[:1000])


def test_what_is_held_out_is_the_end_of_the_text(tmp_path: Path, tiny: Make, notes: Path) -> None:
    data = prepare(tiny(), tmp_path / "run", lambda text: None).dataset
    held_out = data.preprocessing.tokenizer.decode(list(data.validation))
    assert notes.read_text().endswith(held_out)
    assert data.validation_size == ByteCount(len(held_out))


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


def test_copies_among_the_documents_and_a_sample_are_reported(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TextSample, "of_sizes", partial(TextSample.of_sizes, limit=2_000))
    rows = [f"row {number} of the table, Ω {number}" for number in range(60)]
    lines = [json.dumps({"text": text}) for text in [*rows, *map(str.upper, rows[:30])]]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    recipe = tiny()
    data = recipe.data.model_copy(update={"paths": (str(tmp_path / "rows.jsonl"),)})
    tokenizer = recipe.tokenizer.model_copy(update={"kind": "bpe", "vocab_size": 300})
    recipe = recipe.model_copy(update={"data": data, "tokenizer": tokenizer})
    said: list[str] = []
    ready = prepare(recipe, tmp_path / "run", said.append)
    assert said[2].startswith("note: 30 documents repeat another, ignoring case and whitespace; ")
    assert said[-1].startswith("tokenizer: trained on a sample of 1.")
    learned, held_out = (
        {normalised(text) for text in documents(ready.dataset, part)}
        for part in (ready.dataset.training, ready.dataset.validation)
    )
    assert learned.isdisjoint(held_out)
    assert learned | held_out == set(map(normalised, rows))


def documents(data: Any, ids: Any) -> list[str]:
    tokenizer = data.preprocessing.tokenizer
    ends = np.flatnonzero(ids == tokenizer.end_of_text)
    return [tokenizer.decode(ids[a + 1 : b].tolist()) for a, b in pairwise(ends)]


def test_every_character_is_known_though_the_vocabulary_is_learned_from_a_sample(
    tmp_path: Path, tiny: Make, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.tasks.text_windows.TextSample", partial(TextSample, 100))
    monkeypatch.setattr("glassformer.tasks.text_windows.pieces_of", lambda parts: "".join(parts))
    data = prepare(tiny(), tmp_path / "run", lambda text: None).dataset
    text = notes.read_text()
    assert data.preprocessing.tokenizer.vocab_size == len(set(text)) + 1
    both = (*data.training.tolist(), *data.validation.tolist())
    assert data.preprocessing.tokenizer.decode(both) == text


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
    with prepare_temporarily(tiny(), lambda text: None) as objective:
        assert len(objective.dataset.training) > 1000
        assert len(list(tmp_path.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
