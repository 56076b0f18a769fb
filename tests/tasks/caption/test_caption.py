"""Captions are learned from images alone: what is written, where it looked, and exact resume."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captioned_scenes import COLOURS, PLACES, SIZES, scenes
from small_tasks import (
    MACHINE,
    AtBatch,
    Contents,
    PowerError,
    check_that_it_resumes_exactly,
    ready,
    trained,
)

from glassformer.data.batches import CaptionBatch
from glassformer.errors import GlassformerError, UsageError
from glassformer.tasks import load
from glassformer.tasks.caption.predictor import CaptionPredictor
from glassformer.tasks.caption.task import uneven_looks
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as training
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

BOTH = pytest.mark.parametrize("name", [*SIZES])


def recipe_for(name: str, data: Path, **more: Any) -> Recipe:
    """`more` are other sections, keys of the section training, `model` and `files`."""
    keys = ("objective", "tokenizer")
    sections = {key: more.pop(key) for key in keys if key in more}
    sizes = SIZES[name] | {"dropout": 0.0} | more.pop("model", {})
    files = {"paths": [str(data)]} | more.pop("files", {})
    steps = {"max_steps": 8, "eval_steps": 4, "save_steps": 4, "warmup_steps": 2}
    steps |= {"learning_rate": 0.01, "per_device_train_batch_size": 8}
    return make_recipe(
        {
            "model": {"name": name, **sizes},
            "data": files,
            "training": steps | MACHINE | more,
            **sections,
        }
    )


@pytest.fixture(scope="module", params=[*SIZES])
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model that describes scenes, with the table of scenes that it has not seen."""
    folder = tmp_path_factory.mktemp("learned")
    unseen = scenes(folder, 24, seed=1, name="unseen.csv")
    steps = {"max_steps": 220, "eval_steps": 220, "save_steps": 220, "ema": 0.9}
    recipe = recipe_for(
        request.param,
        scenes(folder, 160),
        per_device_train_batch_size=16,
        learning_rate=0.02,
        **steps,
    )
    found = load(trained(recipe, folder / "run"))
    assert isinstance(found, CaptionPredictor)
    return found, unseen


def test_new_images_are_described(learned: tuple[CaptionPredictor, Path]) -> None:
    model, unseen = learned
    found = model.evaluate(str(unseen), num_beams=1)
    assert found.exact_match > 0.9
    assert found.bleu > 90
    assert found.num_references == 2 * found.num_images == 48


def test_the_word_for_the_colour_looks_at_the_square(
    learned: tuple[CaptionPredictor, Path],
) -> None:
    """The grid has 4 × 4 places; the square is in one of the four corners."""
    model, unseen = learned
    right = []
    for image, caption in _first_captions(unseen):
        colour, place = caption.split()[1], caption.rstrip(".").split(" the ")[1]
        looked = model.look(str(unseen.parent / image), target=f"a {colour} square at the {place}")
        shares = looked.weights[looked.words.index(colour)]  # (4, 4)
        row, column = PLACES[place]
        quarter = shares[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        right.append(quarter.sum() > 0.25 * 1.2)  # clearly more than by chance
    assert np.mean(right) > 0.75


def _first_captions(table: Path) -> list[tuple[str, str]]:
    with table.open(newline="") as file:
        found: dict[str, str] = {}
        for row in csv.DictReader(file):
            found.setdefault(row["image"], row["caption"])
    return [*found.items()]


@BOTH
def test_a_batch_is_overfitted(name: str, tmp_path: Path) -> None:
    objective, model = ready(recipe_for(name, scenes(tmp_path, 20)), tmp_path / "run")
    batch = objective.batch(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = objective.loss(model, batch).item()
    for _ in range(150):
        loss = objective.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # Label smoothing and two ways to begin keep the loss from zero.
    assert loss.item() < 0.45 * first


@BOTH
def test_it_resumes_exactly(
    name: str, tmp_path: Path, at_batch: AtBatch, contents: Contents
) -> None:
    recipe = recipe_for(name, scenes(tmp_path, 30), model={"dropout": 0.1})
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=6)


def test_all_captions_of_an_image_are_on_one_side(tmp_path: Path) -> None:
    objective, _ = ready(recipe_for("captioner", scenes(tmp_path, 40)), tmp_path / "run")
    data = objective.dataset
    held_out = {each.source for each in data.held_out}
    assert held_out
    assert all(len(each.captions) == 2 for each in data.held_out)
    assert len(data.training) + len(held_out) == 40
    assert not {*data.training.numbers.tolist()} & {each.number for each in data.held_out}


def test_a_batch_has_each_image_once_with_all_of_its_captions(tmp_path: Path) -> None:
    objective, _ = ready(recipe_for("captioner", scenes(tmp_path, 40)), tmp_path / "run")
    batch: CaptionBatch = objective.batch(3)
    assert batch.pixels.shape == (8, 3, 16, 16)
    assert batch.images.tolist() == sorted([*range(8)] * 2)
    assert objective.num_targets(batch) == batch.is_learned[:, 1:].sum()
    again = objective.dataset.batches(8, 0).batch(3)
    assert all(torch.equal(one, other) for one, other in zip(batch, again, strict=True))


def test_test_data_is_evaluated_from_the_runs_own_copy(tmp_path: Path) -> None:
    test = scenes(tmp_path, 12, seed=2, name="test.csv")
    files = {"test_paths": [str(test)]}
    run = trained(recipe_for("captioner", scenes(tmp_path, 30), files=files), tmp_path / "run")
    kept = json.loads((run / "test.json").read_text())["scores"]
    assert kept["num_images"] == 12
    found = load(run).evaluate(str(test)).scores()
    assert {name: kept[name] for name in found} == pytest.approx(found, rel=1e-4)


def test_the_report_shows_the_best_and_the_worst_captions(tmp_path: Path) -> None:
    objective, model = ready(recipe_for("captioner", scenes(tmp_path, 60)), tmp_path / "run")
    found = objective.examine(model)
    *tables, places = found.chapters
    assert [chapter.title for chapter in tables] == ["Worst captions", "Best captions"]
    rows = [row for chapter in tables for row in chapter.data["rows"]]
    assert len(rows) == len(found.answers) == len(objective.dataset.held_out) == 6
    worst = [row[0] for row in tables[0].data["rows"]]
    assert worst == sorted(worst)
    assert all(" | " in row[2] for row in rows)
    assert [chapter.data["kinds"][1] for chapter in tables] == ["image", "image"]
    assert all(row[1].startswith("data:image/png;base64,") for row in rows)
    assert len({row[1] for row in rows}) == len(rows)  # each has its own
    assert places.picture == "places"
    written = {row[3] for row in rows}
    for scene in places.data["scenes"]:
        assert scene["title"] in written
        assert [panel["label"] for panel in scene["panels"]][-1] == "<end>"
        for panel in scene["panels"]:
            np.testing.assert_allclose(np.sum(panel["weights"]), 1, atol=1e-2)


def test_the_command_to_try_names_a_held_out_image(tmp_path: Path) -> None:
    objective, _ = ready(recipe_for("captioner", scenes(tmp_path, 20)), tmp_path / "run")
    ((_, _, image),) = objective.trials("run")
    assert Path(image).parent == tmp_path / "images"
    assert Path(image).is_file()


def test_doubly_stochastic_attention_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]])
    is_learned = torch.tensor([[True, True, False]])
    expected = ((1 - 1.5) ** 2 + (1 - 0.5) ** 2) / 2  # two places, two words
    assert uneven_looks(weights, is_learned).item() == pytest.approx(expected)


def test_doubly_stochastic_attention_is_an_option_of_show_attend_tell(tmp_path: Path) -> None:
    data, penalty = scenes(tmp_path, 20), {"doubly_stochastic": 1.0}
    objective, model = ready(
        recipe_for("show-attend-tell", data, objective=penalty), tmp_path / "run"
    )
    plain, _ = ready(recipe_for("show-attend-tell", data), tmp_path / "plain")
    batch = objective.batch(0)
    assert objective.loss(model, batch) > plain.loss(model, batch)
    with pytest.raises(UsageError, match="does not work with captioner"):
        ready(recipe_for("captioner", data, objective=penalty), tmp_path / "other")


def test_long_captions_are_left_out_and_counted(tmp_path: Path) -> None:
    data, said = scenes(tmp_path, 20), list[str]()
    with data.open("a") as file:
        file.write(f"images/captions-000.png,{'very ' * 40}long\n")
    recipe = recipe_for("captioner", data, model={"context_length": 12})
    ready(recipe, tmp_path / "run", said.append)
    assert any("1 caption longer than the model's context of 12 tokens" in line for line in said)
    recipe = recipe_for("captioner", data, model={"context_length": 3})
    with pytest.raises(GlassformerError, match=r"every caption is longer.*model\.context_length"):
        ready(recipe, tmp_path / "none")


@pytest.mark.parametrize("kind", ["word", "bpe", "char"])
def test_every_kind_of_tokenizer_works(kind: str, tmp_path: Path) -> None:
    recipe = recipe_for("captioner", scenes(tmp_path, 20), tokenizer={"kind": kind}, max_steps=2)
    model: Any = load(trained(recipe, tmp_path / "run"))
    image = tmp_path / "images" / "captions-000.png"
    looked = model.look(str(image), target="A red square at the top left.")
    assert [word.lower() for word in looked.words[:3]] == ["a", "red", "square"]
    np.testing.assert_allclose(looked.weights.sum(axis=(1, 2)), 1, atol=1e-4)


def test_a_word_that_is_unknown_is_never_written(tmp_path: Path) -> None:
    """A vocabulary without the colours: they are unknown, and left out of what is learned."""
    data = scenes(tmp_path, 40)
    recipe = recipe_for(
        "captioner", data, tokenizer={"kind": "word", "vocab_size": 12}, max_steps=60
    )
    model: Any = load(trained(recipe, tmp_path / "run"))
    assert model.preprocessing.tokenizer.unknown is not None
    assert any(
        not model.preprocessing.tokenizer.encode(colour)
        or model.preprocessing.tokenizer.unknown in model.preprocessing.tokenizer.encode(colour)
        for colour in COLOURS
    )
    images = [str(tmp_path / "images" / f"captions-{n:03}.png") for n in range(10)]
    assert not any("unk" in each.text for each in model.caption(images))


def test_resuming_names_images_that_changed(tmp_path: Path, at_batch: AtBatch) -> None:
    data = scenes(tmp_path, 20)

    def cut() -> None:
        raise PowerError

    run = RunFolder(tmp_path / "run")
    at_batch(6, cut)
    with pytest.raises(PowerError):
        training.train(recipe_for("captioner", data), run, io.StringIO())
    changed = tmp_path / "images" / "captions-003.png"
    changed.write_bytes(changed.read_bytes() + b" ")
    said = io.StringIO()
    training.resume(run, said)
    assert "1 file changed or disappeared since the run began" in said.getvalue()
    assert "captions-003.png" in said.getvalue()


def test_a_table_of_bare_names_beside_a_folder_of_images(tmp_path: Path) -> None:
    data = scenes(tmp_path, 20)
    data.write_text(data.read_text().replace("images/", ""))
    objective, _ = ready(recipe_for("captioner", data), tmp_path / "run")
    assert len(objective.dataset.training) == 18


def test_captions_cannot_be_mixed(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match="leave out mixup"):
        make_recipe(
            {
                "model": {"name": "captioner"},
                "data": {"paths": ["captions.csv"]},
                "augmentation": {"mixup": 0.2},
            }
        )
