"""Images are classified, varied in training, resumed exactly, and looked at in the right place."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_images import CELL, bright_square, squares
from small_tasks import MACHINE, check_that_it_resumes_exactly, config_of, ready, trained

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.places import watch
from glassformer.models.sources import ImageClassifier
from glassformer.tasks import load
from glassformer.tasks.images.task import usual_augmentation
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

SMALL = {"d_model": 32, "num_layers": 2, "num_heads": 2, "patch_size": 4, "head_dropout": 0.0}
STAGES = {"d_model": 16, "num_layers": [2, 1], "num_heads": [2, 2], "patch_size": 2}
STAGES |= {"window_size": 3, "head_dropout": 0.0}
STILL = {"shift": 0, "flip": 0, "color": 0}


def recipe(data: Path, model: dict[str, Any] | None = None, **more: Any) -> Any:
    """`more` are keys of the section training, and other sections."""
    sections = {key: more.pop(key) for key in ("augmentation", "objective") if key in more}
    size = {"image_size": more.pop("image_size")} if "image_size" in more else {}
    steps = {"max_steps": 80, "eval_steps": 40, "save_steps": 40, "learning_rate": 0.01}
    steps |= {"per_device_train_batch_size": 32, "warmup_steps": 5}
    values = {"name": "vit"} | (SMALL if (model or {}).get("name", "vit") == "vit" else STAGES)
    return make_recipe(
        {
            "model": values | (model or {}),
            "data": {"paths": [str(data)]} | size,
            "training": steps | MACHINE | more,
            **sections,
        }
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, images: Path) -> dict[str, Path]:
    """Each kind of model that has learned where the square is."""
    home = tmp_path_factory.mktemp("runs")
    kinds: dict[str, dict[str, Any]] = {
        "class": {"embedding": "patches", "pooling": "class"},
        "sequence": {"embedding": "patches", "pooling": "sequence"},
        "stages": {"name": "multiscale-vit", "embedding": "patches"},
    }
    return {
        kind: trained(recipe(images, model, augmentation=STILL), home / kind)
        for kind, model in kinds.items()
    }


@pytest.mark.parametrize("kind", ["class", "sequence", "stages"])
def test_it_learns_and_is_right_about_new_images(
    runs: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    predictor = load(runs[kind])
    found = predictor.evaluate(str(squares(tmp_path, 45, seed=1)), errors=5)
    assert found.accuracy > 0.95
    assert {*found.confusion} == {"left", "middle", "right"}
    assert all(Path(each.source).is_file() for each in found.errors)


@pytest.mark.parametrize("kind", ["class", "sequence", "stages"])
def test_pixels_and_files_are_classified_alike(
    runs: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    predictor, pixels = load(runs[kind]), bright_square(1, 2, np.random.default_rng(5))
    Image.fromarray(pixels).save(tmp_path / "one.png")
    of_file, of_pixels = predictor.classify([str(tmp_path / "one.png"), pixels])
    assert of_file.label == of_pixels.label == "right"
    assert of_file.scores == pytest.approx(of_pixels.scores, abs=1e-6)
    assert of_file.as_json()["image"] == str(tmp_path / "one.png")
    assert predictor.classify(pixels).label == "right"


@pytest.mark.parametrize("view", ["attention", "rollout"])
@pytest.mark.parametrize("kind", ["class", "sequence"])
def test_it_looked_at_the_square(runs: dict[str, Path], kind: str, view: str) -> None:
    predictor, random = load(runs[kind]), np.random.default_rng(7)
    places = [(row, column) for row in range(3) for column in range(3)] * 2
    found = [getattr(predictor, view)(bright_square(*place, random)) for place in places]
    assert found[0].weights.shape == (3, 3)
    hits = sum(each.peak == place for each, place in zip(found, places, strict=True))
    assert hits >= 0.8 * len(places), f"{hits} of {len(places)}"
    left, top, right, bottom = found[5].box(1, 2)
    assert (left, top, right, bottom) == (2 * CELL, CELL, 3 * CELL, 2 * CELL)


def test_windows_are_assembled_to_the_image(runs: dict[str, Path]) -> None:
    predictor, pixels = load(runs["stages"]), bright_square(0, 2, np.random.default_rng(7))
    for found in (predictor.rollout(pixels), predictor.attention(pixels, layer=0)):
        assert found.weights.shape == (6, 6)
        assert found.weights.sum() == pytest.approx(1)
    assert predictor.attention(pixels, layer=2).weights.shape == (3, 3)
    (note,) = predictor.attention(pixels).notes
    assert "finest grid" in note


def test_what_was_observed_is_what_the_layers_computed(runs: dict[str, Path]) -> None:
    """Each place gives away all it has: the weights of every row sum to one."""
    for kind in ("sequence", "stages"):
        model: ImageClassifier = load(runs[kind]).model
        _, layers, pooled = watch(model, torch.randn(1, 1, 12, 12))
        assert pooled.sum() == pytest.approx(1)
        for layer in layers:
            np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-6)
            assert sorted(layer.places[layer.places >= 0]) == [*range(layer.num_places)]


def test_a_layer_or_head_that_is_not_there_is_refused(runs: dict[str, Path]) -> None:
    predictor, pixels = load(runs["class"]), bright_square(0, 0, np.random.default_rng(0))
    with pytest.raises(UsageError, match="no layer 2: the last one is 1"):
        predictor.attention(pixels, layer=2)
    with pytest.raises(UsageError, match="no head 9: the last one is 1"):
        predictor.attention(pixels, head=9)


@pytest.mark.parametrize("name", ["vit", "multiscale-vit"])
def test_a_run_that_was_cut_off_resumes_exactly_with_varied_images(
    name: str, images: Path, tmp_path: Path, at_batch: Any, contents: Any
) -> None:
    varied = {"shift": 0.2, "flip": 0.5, "zoom": 0.7, "color": 0.2, "num_ops": 1}
    varied |= {"erasing": 0.5, "mixup": 0.4, "cutmix": 1.0}
    steps = {"max_steps": 12, "eval_steps": 4, "save_steps": 3}
    model = {"name": name, "dropout": 0.1}
    made = recipe(images, model, augmentation=varied, **steps)
    check_that_it_resumes_exactly(made, tmp_path, at_batch, contents, batch=8)


def test_a_batch_is_a_function_of_the_seed_and_its_number(images: Path, tmp_path: Path) -> None:
    varied = {"shift": 0.2, "flip": 0.5, "mixup": 0.4}
    objective, _ = ready(recipe(images, augmentation=varied), tmp_path / "a")
    other, _ = ready(recipe(images, augmentation=varied, seed=1), tmp_path / "b")
    first, again, next_one = (objective.batch(number) for number in (3, 3, 4))
    assert first.pixels.equal(again.pixels)
    assert first.targets.equal(again.targets)
    assert not first.pixels.equal(next_one.pixels)
    assert not first.pixels.equal(other.batch(3).pixels)
    torch.testing.assert_close(first.targets.sum(1), torch.ones(32))


def test_without_variation_images_are_as_they_are_stored(images: Path, tmp_path: Path) -> None:
    objective, _ = ready(recipe(images, augmentation=STILL), tmp_path)
    batch, rows = objective.batch(0), objective.batches.rows(0)
    data = objective.dataset
    numbers = objective.batches.take(rows)
    assert batch.pixels.equal(data.preprocessing.pixels(data.training.images(numbers)))
    assert batch.targets.equal(data.training.goals(numbers))


def test_signs_are_not_mirrored() -> None:
    assert usual_augmentation(["0", "1", "10"], 100).flip == 0
    assert usual_augmentation(["a", "b"], 100).flip == 0
    assert usual_augmentation(["cat", "dog"], 100).flip == 0.5


@pytest.mark.parametrize(
    ("size", "name", "patch"),
    [(8, "vit", 2), (32, "vit", 4), (64, "vit", 8), (32, "multiscale-vit", 2), (1, "vit", 1)],
)
def test_the_patch_follows_from_the_size_of_the_images(
    size: int, name: str, patch: int, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    for number in range(24):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 255, (size, size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    values = {"model": {"name": name}, "data": {"paths": [str(tmp_path / "images")]}}
    objective, model = ready(make_recipe(values), tmp_path / "run")
    assert objective.recipe.model["image_size"] == [size, size]
    assert objective.recipe.model["patch_size"] == patch
    assert model(objective.batch(0, most=4).pixels).shape == (4, 2)


def test_large_images_are_resized_and_that_is_said(tmp_path: Path) -> None:
    random, said = np.random.default_rng(0), list[str]()
    for number in range(24):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 255, (90 + number, 120, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    values = {"model": {"name": "vit"}, "data": {"paths": [str(tmp_path / "images")]}}
    objective, _ = ready(make_recipe(values), tmp_path / "run", said.append)
    assert objective.dataset.preprocessing.image_size == (64, 64)
    assert any("(90×120 to 113×120) are resized to 64×64" in line for line in said)


def test_a_size_that_patches_do_not_divide_is_refused_with_those_that_they_do(
    images: Path, tmp_path: Path
) -> None:
    made = recipe(images, {"embedding": "patches"}, image_size=30)
    with pytest.raises(GlassformerError, match=r"use 28 or 32, or change patch_size"):
        ready(made, tmp_path)


def test_the_size_of_a_preset_is_kept(images: Path, tmp_path: Path) -> None:
    values = {"model": {"name": "vit", "preset": "vit-ti-16", "image_size": 32, "num_layers": 1}}
    made = make_recipe(values | {"data": {"paths": [str(images)]}})
    objective, _ = ready(made, tmp_path)
    assert objective.dataset.preprocessing.image_size == (32, 32)
    assert objective.dataset.preprocessing.num_channels == 3  # as published, of grey images too


def test_the_report_shows_the_mistakes(images: Path, tmp_path: Path) -> None:
    folder = trained(recipe(images, max_steps=2, eval_steps=1), tmp_path / "run")
    page = (folder / "report.html").read_text()
    assert "Mistakes" in page
    assert "data:image/png;base64," in page
    assert "Confusion" in page


def test_the_folder_of_a_model_is_complete(runs: dict[str, Path], tmp_path: Path) -> None:
    config = config_of(runs["class"])
    assert config["image_size"] == [12, 12]
    assert config["labels"] == ["left", "middle", "right"]
    assert RunFolder(runs["class"]).path.joinpath("preprocessor_config.json").is_file()


def test_several_labels_per_image_are_refused(images: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.jsonl"
    rows = [{"image": str(path), "label": ["a", "b"]} for path in images.glob("*/*.png")]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(GlassformerError, match=r"table.jsonl:1: .* type list, not a label"):
        ready(recipe(table), tmp_path / "run")
