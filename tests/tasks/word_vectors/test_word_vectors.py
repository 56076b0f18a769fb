"""Word vectors learn which words belong together; a run of theirs is like any other."""

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_tasks import MACHINE, best, check_that_it_resumes_exactly, curve, trained

from glassformer.checkpoint.model_folder import load_model
from glassformer.errors import GlassformerError
from glassformer.tasks import load
from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.verify import verify

TRAINS = ("train", "rail", "platform", "ticket", "track", "engine", "carriage", "signal")
RADIO = ("radio", "song", "news", "music", "host", "studio", "sound", "wave")


def two_topics(folder: Path, lines: int = 100) -> Path:
    """Paragraphs about trains and about radio, which share only the small words."""
    draw, path = random.Random(0), folder / "topics.txt"
    with path.open("w") as file:
        for _ in range(lines):
            words = draw.choices(draw.choice((TRAINS, RADIO)), k=30)
            file.write(". ".join(f"The {' and '.join(words[n : n + 3])}" for n in range(0, 30, 3)))
            file.write(".\n\n")
    return path


def recipe(data: Path, **training: Any) -> Recipe:
    steps = {"max_steps": 120, "eval_steps": 40, "save_steps": 40, "learning_rate": 0.03}
    steps |= {"per_device_train_batch_size": 32, "warmup_steps": 3}
    return make_recipe(
        {
            "model": {"name": "word-vectors", "d_model": 16},
            "data": {"paths": [str(data)]},
            "training": steps | MACHINE | training,
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("vectors")
    return trained(recipe(two_topics(home)), home / "run")


def test_words_of_one_topic_are_nearer_to_each_other_than_to_the_other_topic(run: Path) -> None:
    predictor: Any = load(run)
    for topic, others in ((TRAINS, RADIO), (RADIO, TRAINS)):
        for word in topic:
            found = {near.word for near in predictor.neighbours(word, top=7).steps[0].neighbours}
            assert len(found & {*topic}) >= 6, (word, found)
            assert not found & {*others}


def test_it_learns_more_than_chance(run: Path) -> None:
    losses = curve(run, "val_loss")
    assert losses[-1] < losses[0]
    assert best(run)["val_loss"] < 6 * np.log(2) - 0.3
    assert best(run)["val_accuracy"] > 0.6


def test_the_model_knows_how_often_each_word_occurred(run: Path) -> None:
    saved = load_model(run)
    tokenizer = saved.preprocessing.tokenizers["tokenizer"]
    (the,) = tokenizer.encode("THE")  # words are in lower case
    text = (run.parent / "topics.txt").read_text().lower().split()
    assert 0.8 * text.count("the") < saved.model.counts[the] <= text.count("the")


def test_a_run_that_is_cut_off_resumes_to_the_same_bytes(
    tmp_path: Path, at_batch: Any, contents: Any
) -> None:
    small = recipe(two_topics(tmp_path, 20), max_steps=8, eval_steps=4, save_steps=2)
    check_that_it_resumes_exactly(small, tmp_path, at_batch, contents, batch=5)


def test_another_seed_gives_another_model(run: Path, tmp_path: Path) -> None:
    other = trained(recipe(two_topics(tmp_path), seed=1, max_steps=2), tmp_path / "run")
    assert verify(RunFolder(other), io.StringIO()).identical
    one, two = (load_model(each).model.embedding.weight for each in (run, other))
    assert not np.array_equal(one.detach(), two.detach())


def test_what_the_neighbourhood_is_like_is_saved_with_the_model(tmp_path: Path) -> None:
    values = recipe(two_topics(tmp_path, 20), max_steps=1).model_dump(mode="json")
    values["objective"] = {"window": 2, "num_negatives": 7}
    folder = trained(make_recipe(values), tmp_path / "run")
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    assert (settings["window"], settings["num_negatives"]) == (2, 7)
    found = load(folder).evaluate(str(tmp_path / "topics.txt"))
    assert found.loss == pytest.approx(8 * np.log(2), rel=0.05)  # hardly trained


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("one two\n\nthree\n")
    with pytest.raises(GlassformerError, match=r"short\.txt: the .* has . known words?\. Prov"):
        trained(recipe(tmp_path / "short.txt"), tmp_path / "run")


def test_the_report_shows_the_nearest_words(run: Path) -> None:
    from glassformer.training.report import report_of

    (chapter,) = [
        each for each in report_of(RunFolder(run))["chapters"] if each["title"] == "Nearest words"
    ]
    rows = {row[0]: row for row in chapter["data"]["rows"]}
    assert {*rows} & {*TRAINS, *RADIO}
    assert all(len(row) == len(chapter["data"]["columns"]) for row in rows.values())
