"""Painting is learned, measured, resumed exactly, and probed."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_images import squares
from small_tasks import (
    MACHINE,
    best,
    check_that_it_resumes_exactly,
    config_of,
    ready,
    reopened,
    trained,
)

from glassformer.checkpoint.model_folder import load_model
from glassformer.errors import GlassformerError, UsageError
from glassformer.tasks import load
from glassformer.tasks.paint.scores import prepend_start
from glassformer.tasks.paint.task import in_dots
from glassformer.training import run as training
from glassformer.training.finetuning import on_top_of
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

SMALL = {"num_layers": 2, "d_model": 32, "num_heads": 2, "dropout": 0.0}
STEPS = {"max_steps": 60, "eval_steps": 30, "save_steps": 20, "learning_rate": 0.02}
STEPS |= {"per_device_train_batch_size": 16, "warmup_steps": 3}


def recipe(data: Path, augmentation: dict[str, float] | None = None, **more: Any) -> Any:
    """`more` are keys of the section training, or of data."""
    keys = {key: more.pop(key) for key in ("image_size", "palette", "test_paths") if key in more}
    return make_recipe(
        {
            "model": {"name": "image-gpt", **SMALL},
            "data": {"paths": [str(data)], "image_size": 6, "palette": 4} | keys,
            "augmentation": augmentation or {},
            "training": STEPS | MACHINE | more,
        }
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture(scope="module")
def painter(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Path:
    folder = tmp_path_factory.mktemp("painter")
    return trained(recipe(images, test_paths=[str(images)]), folder / "run")


def test_it_learns_what_comes_next(painter: Path, images: Path) -> None:
    found = load(painter).evaluate(str(images))
    assert found.bits_per_dim < 0.75  # of two; a third of it is noise
    assert found.num_pixels == 150 * 36
    assert found.num_colors == 4
    assert best(painter)["val_bits_per_dim"] == pytest.approx(found.bits_per_dim, rel=0.2)
    tested = json.loads((painter / "test.json").read_text())["scores"]
    assert tested["bits_per_dim"] == pytest.approx(found.bits_per_dim)  # on the run's own copy


def test_bits_per_dim_are_those_of_each_pixel_given_the_ones_before(
    painter: Path, images: Path
) -> None:
    predictor: Any = load(painter)
    file = next(iter(sorted(images.rglob("*.png"))))
    ids = torch.from_numpy(predictor.preprocessing.encode([file])[0].astype(np.int64))[None]
    with torch.no_grad():
        logits = predictor.model(prepend_start(ids, predictor.model.start_token))
    chances = logits.log_softmax(-1).gather(-1, ids[..., None])
    bits = float(-chances.mean() / np.log(2))
    assert predictor.evaluate(str(file)).bits_per_dim == pytest.approx(bits, rel=1e-4)


def test_completions_keep_what_was_given_and_depend_on_the_seed(
    painter: Path, images: Path
) -> None:
    predictor: Any = load(painter)
    files = sorted(images.rglob("*.png"))[:3]
    first, again, other = (
        predictor.complete(files, keep=0.5, num_return_sequences=2, seed=seed) for seed in (1, 1, 2)
    )
    for one, two, three, file in zip(
        first.completed, again.completed, other.completed, files, strict=True
    ):
        assert one.num_rows == 3
        assert one.name == str(file)
        assert len(one.paintings) == 2
        for painted in one.paintings:
            assert np.array_equal(painted[:3], one.original[:3])
        assert all(map(np.array_equal, one.paintings, two.paintings))
        assert not all(map(np.array_equal, one.paintings, three.paintings))
    alone = predictor.complete(files[0], num_return_sequences=2, seed=1)
    assert all(map(np.array_equal, alone.completed[0].paintings, first.completed[0].paintings))


def test_images_from_nothing_have_the_palettes_colours(painter: Path) -> None:
    predictor: Any = load(painter)
    found = predictor.generate(num_return_sequences=3, seed=0)
    assert [image.shape for image in found.images] == [(6, 6, 1)] * 3
    assert {*np.unique(found.images).tolist()} <= {
        value for (value,) in predictor.preprocessing.palette
    }
    greedy = predictor.generate(num_return_sequences=2, temperature=0)
    assert np.array_equal(*greedy.images)


@pytest.mark.parametrize("keep", [-0.1, 1.0])
def test_a_share_that_cannot_be_is_refused(painter: Path, keep: float) -> None:
    predictor: Any = load(painter)
    with pytest.raises(UsageError, match="keep is"):
        predictor.complete(np.zeros((4, 4), np.uint8), keep=keep)


def test_a_batch_is_learned_by_heart(tmp_path: Path, images: Path) -> None:
    objective, model = ready(recipe(images, per_device_train_batch_size=4), tmp_path)
    batch = objective.batch(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(250):
        loss = objective.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert objective.loss(model, objective.batch(1)).item() > 0.5


def test_it_resumes_exactly_with_augmentation(
    tmp_path: Path, images: Path, at_batch: Any, contents: Any
) -> None:
    settings = recipe(images, {"shift": 0.2, "flip": 0.5}, max_steps=12, eval_steps=4, save_steps=4)
    check_that_it_resumes_exactly(settings, tmp_path, at_batch, contents, batch=9)


def test_augmentation_moves_pixels_and_invents_no_colours(tmp_path: Path, images: Path) -> None:
    objective, _ = ready(recipe(images, {"shift": 0.2, "flip": 0.5}), tmp_path / "a")
    plain, _ = ready(recipe(images), tmp_path / "b")
    assert torch.equal(objective.batch(3), objective.batch(3))
    assert not torch.equal(objective.batch(3), plain.batch(3))
    assert objective.batch(3).max() < 4


def test_resume_says_which_images_changed(tmp_path: Path, at_batch: Any) -> None:
    data = squares(tmp_path, 40)
    run = RunFolder(tmp_path / "run")

    def cut() -> None:
        raise KeyError

    at_batch(9, cut)
    settings = recipe(data, max_steps=12, eval_steps=4, save_steps=4)
    with pytest.raises(KeyError):
        training.train(settings, run, io.StringIO())
    file = sorted(data.rglob("*.png"))[5]
    Image.new("L", (12, 12)).save(file)
    said = io.StringIO()
    training.resume(run, said)
    assert f"1 file changed or disappeared since the run began: {file}" in said.getvalue()
    assert "Training continues with the images as they were" in said.getvalue()


def test_sizes_come_from_the_data(tmp_path: Path) -> None:
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 60, 3), np.uint8)
        (tmp_path / "a").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "a" / f"{number}.png")
    settings = make_recipe(
        {
            "model": {"name": "image-gpt", **SMALL},
            "data": {"paths": [str(tmp_path / "a")]},
            "training": MACHINE,
        }
    )
    said: list[str] = []
    objective, model = ready(settings, tmp_path / "run", said.append)
    assert objective.recipe.model["image_size"] == [16, 16]
    assert objective.recipe.model["context_length"] == 256
    assert model.head.out_features == len(objective.dataset.preprocessing.palette) <= 512
    assert "note: images are resized to 16×16; pass --image-size for another size" in said
    assert any(line.startswith("palette: ") for line in said)


def test_an_image_in_dots() -> None:
    pixels = np.zeros((4, 4, 1), np.uint8)
    pixels[0, 0] = pixels[3, 3] = 255
    assert in_dots(pixels) == "⠁⢀"


def test_the_report_shows_completed_images_and_what_each_row_costs(painter: Path) -> None:
    objective, model = reopened(painter)
    completed, costs = objective.examine(model).chapters
    rows = completed.data["rows"]
    assert len(completed.data["columns"]) == len(rows[0]) == 5
    assert all(uri.startswith("data:image/png;base64,") for row in rows for uri in row)
    bits = [point["y"] for point in costs.data["points"]]
    found = objective.validate(model)
    assert np.mean(bits) == pytest.approx(found.bits_per_dim, rel=1e-3)  # 15 images: all of them
    assert "Completed images" in (painter / "report.html").read_text()


def test_a_validation_reads_only_some_of_many_images(
    painter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, model = reopened(painter)
    assert objective.validate(model).num_images == 15
    monkeypatch.setattr("glassformer.tasks.paint.task.VALIDATED", 4 * 36 + 1)
    assert objective.validate(model).num_images == 4
    assert objective.dataset.num_validation_items == 4 * 36


# --- probe ---


def probe_recipe(painter: Path, data: Path, **keys: Any) -> Any:
    values = on_top_of(painter, "probe") | {"data": {"paths": [str(data)]} | keys}
    return make_recipe(values | {"training": MACHINE})


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory, painter: Path, images: Path) -> Path:
    held = squares(tmp_path_factory.mktemp("others"), 45, seed=1)
    folder = tmp_path_factory.mktemp("probe")
    return trained(probe_recipe(painter, images, test_paths=[str(held)]), folder / "run")


def test_a_probe_reads_the_label_and_leaves_the_painter_alone(
    probe: Path, painter: Path, images: Path
) -> None:
    predictor: Any = load(probe)
    accuracies = predictor.model.accuracies.tolist()
    assert len(accuracies) == 3  # the embedding, and two layers
    layer = int(predictor.model.layer)
    assert accuracies[layer] == pytest.approx(best(probe)["val_accuracy"])
    assert accuracies[layer] > 0.7
    ours, theirs = predictor.model.gpt.state_dict(), load_model(painter).model.state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
    tested = json.loads((probe / "test.json").read_text())["scores"]
    assert tested["accuracy"] > 0.7
    file = next(iter(sorted((images / "left").glob("*.png"))))
    assert predictor.classify(str(file)).label in ("left", "middle", "right")
    assert config_of(probe)["labels"] == ["left", "middle", "right"]


def test_the_features_of_a_probe_are_means_over_groups_of_rows(probe: Path) -> None:
    model: Any = load(probe).model
    colors = torch.randint(3, (2, 36), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        found = model.pooled(colors)  # (2, layers + 1, parts · D)
        states = [*model.gpt.layers(colors)][1]  # (2, 36, D)
    mean, deviation = states.mean(-1, keepdim=True), states.std(-1, correction=0, keepdim=True)
    normal = (states - mean) / deviation
    assert model.config.parts == 4
    old = model.config.model_copy(update={"parts": None})  # as configs were before there were parts
    with pytest.raises(GlassformerError, match=r"earlier version.*finetune RUN --task probe"):
        type(model)(old)
    for part, features in enumerate(found[:, 1].chunk(4, dim=-1)):
        pixels = normal[:, 9 * part : 9 * part + 9]
        torch.testing.assert_close(features, pixels.mean(1), atol=1e-3, rtol=1e-3)


def test_a_probe_of_chance_labels_is_at_chance(tmp_path: Path, painter: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(200):
        folder = tmp_path / "images" / random.choice(["a", "b"])
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (6, 6), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    settings = probe_recipe(painter, tmp_path / "images", validation_fraction=0.4)
    run = trained(settings, tmp_path / "run")
    assert load(run).model.accuracies[1:].max() < 0.75


def test_what_cannot_be_probed_is_refused(tmp_path: Path, painter: Path, images: Path) -> None:
    wrong = probe_recipe(painter, images, image_size=8)
    with pytest.raises(UsageError, match="the model paints 6×6 pixels"):
        ready(wrong, tmp_path)
    with pytest.raises(
        GlassformerError, match="an image-gpt cannot be fine-tuned for the task tag"
    ):
        on_top_of(painter, "tag")
