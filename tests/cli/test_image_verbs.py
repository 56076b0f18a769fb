"""Images on the command line: train, classify, evaluate, inspect, and what can go wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_images import bright_square, squares

SMALL = ("model.d_model=32", "model.num_layers=2", "model.num_heads=2", "model.patch_size=4")
STEPS = ("training.learning_rate=0.01", "training.warmup_steps=5", "training.precision=float32")
SMALL += ("model.embedding=patches",)  # convolutions would also see the neighbours of a patch
SELDOM = ("training.num_threads=1", "training.report_to=[]", "training.save_steps=1000")
SETTINGS = [word for each in (*SMALL, *STEPS, *SELDOM) for word in ("--set", each)]
SQUARES = ("--set", "model.embedding=patches", "--set", "model.patch_size=4")
FORMATS = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>", "json": b"{"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, in_process: Any) -> Path:
    """images/LABEL/*.png, and a model that knows them in runs/vit-images."""
    folder = tmp_path_factory.mktemp("home")
    squares(folder)
    options = ("--set", "augmentation.flip=0", "--set", "augmentation.shift=0")
    options += ("--batch-size", "32", "--max-steps", "80", "--set", "training.eval_steps=40")
    result = in_process("train", "vit", "--data", "images", *SETTINGS, *options, cwd=folder)
    assert result.code == 0, result.err
    (folder / "notes.txt").write_text("no image\n")
    return folder


@pytest.fixture
def run(home: Path, in_process: Any) -> Callable[..., Any]:
    return lambda *words: in_process(*words, cwd=home)


def image(folder: Path, row: int, column: int) -> Path:
    label = ("left", "middle", "right")[column]
    return next(iter(sorted((folder / "images" / label).glob(f"{row}-*.png"))))


def test_training_reports_what_it_read(home: Path, run: Any, tmp_path: Path) -> None:
    words = ("train", "vit", "--data", "images", "--dry-run", "--out", tmp_path / "new")
    result = run(*words)
    assert result.code == 0, result.err
    assert "135 images of 3 labels, 12×12" in result.out + result.err


def test_an_image_is_classified_with_its_scores(home: Path, run: Any) -> None:
    result = run("classify", "runs/vit-images", image(home, 1, 2), "--json")
    found = json.loads(result.out)
    assert found["label"] == "right"
    assert found["image"] == str(image(home, 1, 2))
    assert sum(found["scores"].values()) == pytest.approx(1)


def test_several_images_are_classified_in_their_order(home: Path, run: Any) -> None:
    names = [image(home, 0, column) for column in (2, 0, 1)]
    result = run("classify", "runs/vit-images", *names)
    lines = [line.split() for line in result.out.splitlines()]
    assert [label for label, _, _ in lines] == ["right", "left", "middle"]
    assert [name for _, _, name in lines] == list(map(str, names))


def test_a_folder_is_evaluated_and_its_mistakes_are_named(home: Path, run: Any) -> None:
    result = run("evaluate", "runs/vit-images", "--data", "images", "--json")
    found = json.loads(result.out)
    assert found["accuracy"] > 0.95
    assert set(found["confusion_matrix"]) == {"left", "middle", "right"}


@pytest.mark.parametrize("view", ["attention", "rollout"])
@pytest.mark.parametrize("ending", FORMATS)
def test_the_picture_is_written_in_the_format_of_its_name(
    home: Path, run: Any, view: str, ending: str, tmp_path: Path
) -> None:
    out = tmp_path / f"a.{ending}"
    result = run("inspect", "runs/vit-images", image(home, 2, 0), "--view", view, "--out", out)
    assert (result.code, result.out, result.err) == (0, "", f"wrote {out}\n")
    content = out.read_bytes()
    assert content.startswith(FORMATS[ending])
    run("inspect", "runs/vit-images", image(home, 2, 0), "--view", view, "--out", out)
    assert out.read_bytes() == content  # equal results, equal bytes


def test_the_story_of_an_image_is_a_page_or_its_numbers(
    home: Path, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "story.html"
    result = run("inspect", "runs/vit-images", image(home, 1, 2), "--out", out)
    assert (result.code, result.out, result.err) == (0, "", f"wrote {out}\n")
    assert b"data:image/png;base64," in out.read_bytes()
    found = json.loads(run("inspect", "runs/vit-images", image(home, 1, 2), "--json").out)
    assert found["image"] == str(image(home, 1, 2))
    assert (found["size"], found["grid"]) == ([12, 12], [3, 3])
    assert found["predictions"][0]["options"][0]["token"] == "right"
    assert np.unravel_index(np.argmax(found["rollout"]), (3, 3)) == (1, 2)  # where the square is
    assert np.shape(found["attention"])[:2] == (2, 2)


def test_the_picture_is_bright_where_the_square_is(home: Path, run: Any, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    run("inspect", "runs/vit-images", image(home, 1, 2), "--view", "rollout", "--out", out)
    pixels = np.asarray(Image.open(out).convert("RGB")).astype(float)
    colourful = pixels.max(axis=2) - pixels.min(axis=2)  # the image itself is grey
    left, end = (int(pixels.shape[1] * share) for share in (0.47, 0.86))  # before the scale
    green = np.where(colourful > 30, pixels[:, :, 1], 0)[:, left:end]  # from black to yellow
    rows, columns = np.nonzero(green > 0.9 * green.max())
    columns = columns + left
    right = pixels.shape[1] * 0.45  # the second picture, before the scale
    share_x = (columns - right) / (pixels.shape[1] * 0.45)
    assert len(columns) > 500  # not blank
    assert np.median(share_x) > 0.6  # in the right third
    assert 0.3 < np.median(rows) / pixels.shape[0] < 0.7  # in the middle


def test_the_numbers_point_to_the_square(home: Path, run: Any) -> None:
    result = run("inspect", "runs/vit-images", image(home, 1, 2), "--view", "rollout", "--json")
    found = json.loads(result.out)
    weights = np.array(found["weights"])
    assert (found["label"], found["grid"]) == ("right", [3, 3])
    assert np.unravel_index(weights.argmax(), (3, 3)) == (1, 2)
    text = run("inspect", "runs/vit-images", image(home, 1, 2), "--view", "rollout").out
    assert "looked at most: x 8 to 12, y 4 to 8" in text


def test_the_page_loads_nothing(home: Path, run: Any, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    run("inspect", "runs/vit-images", image(home, 1, 1), "--view", "attention", "--out", out)
    page = out.read_text()
    assert "data:image/png;base64," in page
    assert "http://www.w3.org/2000/svg" in page
    assert page.count("http") == page.count("http://www.w3.org") + page.count("http-equiv")


def test_every_kind_of_image_is_read(home: Path, run: Any, tmp_path: Path) -> None:
    pixels = bright_square(1, 0, np.random.default_rng(0))
    grey = Image.fromarray(pixels)
    kinds = {
        "cmyk.jpg": grey.convert("CMYK"),
        "deep.png": Image.fromarray(pixels.astype(np.uint16) * 257),
        "alpha.png": grey.convert("RGBA"),
        "palette.gif": grey.convert("P"),
    }
    for name, each in kinds.items():
        each.save(tmp_path / name)
    result = run("classify", "runs/vit-images", *(tmp_path / name for name in kinds))
    assert [line.split()[0] for line in result.out.splitlines()] == ["left"] * 4
    assert "converted" in result.err


def test_an_image_of_one_pixel_is_read(run: Any, tmp_path: Path) -> None:
    Image.new("L", (1, 1), 255).save(tmp_path / "one.png")
    result = run("classify", "runs/vit-images", tmp_path / "one.png")
    assert result.code == 0, result.err
    shown = run("inspect", "runs/vit-images", tmp_path / "one.png", "--view", "rollout")
    assert shown.code == 0, shown.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("classify", "runs/vit-images", "notes.txt"), 1, "notes.txt is not an image"),
        (("classify", "runs/vit-images", "nothing.png"), 1, "nothing.png"),
        (("inspect", "runs/vit-images", "notes.txt", "--view", "rollout"), 1, "notes.txt"),
        (("inspect", "runs/vit-images", "--view", "rollout"), 2, "no image"),
        (("inspect", "runs/vit-images", "x.png"), 1, "x.png does not exist"),
        (("inspect", "runs/vit-images", "notes.txt"), 1, "notes.txt is not an image"),
        (("inspect", "runs/vit-images", "x.png", "--view", "words"), 2, 'no view "words"'),
        (
            ("inspect", "runs/vit-images", "x.png", "--view", "rollout", "--head", "1"),
            2,
            "the view rollout does not accept --head",
        ),
        (("generate", "runs/vit-images", "x"), 2, "cannot generate"),
        (("train", "vit", "--data", "images/left", "--out", "new"), 1, ""),
        (("train", "vit", "--data", "notes.txt", "--out", "new"), 2, "has no label"),
        (
            ("train", "vit", "--data", "images", "--image-size", "30", "--out", "new", *SQUARES),
            1,
            "use 28 or 32",
        ),
        (("train", "vit", "--data", "images", "--image-size", "0", "--out", "new"), 2, ""),
        (("classify", "runs/vit-images", "--image-column", "x"), 2, "--image-column needs --data"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    run: Any, home: Path, words: tuple[str, ...], code: int, sentence: str
) -> None:
    result = run(*words)
    assert (result.code, sentence in result.error) == (code, True), result.err
    assert not (home / "new").exists()


def test_one_class_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "images" / "cat").mkdir(parents=True)
    for number in range(4):
        Image.new("L", (8, 8), number * 20).save(tmp_path / "images" / "cat" / f"{number}.png")
    result = run("train", "vit", "--data", tmp_path / "images", "--out", tmp_path / "run")
    assert result.code == 1
    assert "cat" in result.error


def test_classified_files_are_named_and_skipped_ones_are_counted(
    home: Path, run: Any, tmp_path: Path
) -> None:
    for number, row in enumerate((0, 1)):
        shutil.copy(image(home, row, 0), tmp_path / f"{number}.png")
    (tmp_path / "notes.txt").write_text("no image")
    result = run("classify", "runs/vit-images", "--data", tmp_path, "--json")
    found = [json.loads(line)["image"] for line in result.out.splitlines()]
    assert found == [str(tmp_path / f"{number}.png") for number in (0, 1)]
    assert "skipped 1 file that is not an image" in result.err


def test_a_classifier_cannot_generate(run: Any) -> None:
    for options in ([], ["--out", "a.png"]):
        result = run("generate", "runs/vit-images", *options)
        assert result.code == 2
        assert "cannot generate. This model supports classify" in result.err
