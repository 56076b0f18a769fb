"""Painting on the command line: train, complete, generate, evaluate, probe, and what goes wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from small_images import squares

SET = ("model.d_model=32", "model.num_layers=2", "model.num_heads=2", "training.precision=float32")
SET += ("training.num_threads=1", "training.report_to=[]", "training.learning_rate=0.02")
SETTINGS = [word for each in SET for word in ("--set", each)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, in_process: Any) -> Path:
    """images/LABEL/*.png, and a painter of them in runs/image-gpt-images."""
    folder = tmp_path_factory.mktemp("home")
    squares(folder, 90)
    options = ("--image-size", "6", "--palette", "4", "--batch-size", "16", "--max-steps", "30")
    words = ("train", "image-gpt", "--data", "images", *SETTINGS, *options)
    result = in_process(*words, cwd=folder)
    assert result.code == 0, result.err
    assert "palette: 4 colours; they differ from the original ones by" in result.err
    assert "validation bits per dim" in result.out
    (folder / "notes.txt").write_text("no image\n")
    return folder


@pytest.fixture
def run(home: Path, in_process: Any) -> Callable[..., Any]:
    return lambda *words: in_process(*words, cwd=home)


def some_images(home: Path, number: int) -> list[Path]:
    return sorted((home / "images").rglob("*.png"))[:number]


RUN = "runs/image-gpt-images"


def test_complete_draws_a_grid(home: Path, run: Any) -> None:
    words = ("--keep", "0.5", "--num-return-sequences", "3", "--seed", "1", "--out", "grid.png")
    result = run("complete", RUN, *some_images(home, 2), *words)
    assert (result.code, result.out) == (0, "")
    assert "wrote grid.png: 2 images, 3 completions each" in result.err
    with Image.open(home / "grid.png") as image:
        assert len(image.convert("RGB").getcolors(10**6)) > 4
    again = run("complete", RUN, *some_images(home, 2), *words[:-1], "again.png")
    assert again.code == 0
    assert (home / "again.png").read_bytes() == (home / "grid.png").read_bytes()


def test_the_story_of_a_painter_predicts_every_pixel(home: Path, run: Any) -> None:
    (image,) = some_images(home, 1)
    result = run("inspect", RUN, image, "--out", "story.html", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert len(found["predictions"]) == 36
    assert all(each["actual"].startswith("#") for each in found["predictions"])
    assert (home / "story.html").read_bytes().startswith(b"<!doctype html>")


def test_generate_paints_from_nothing(home: Path, run: Any) -> None:
    result = run("generate", RUN, "--num-return-sequences", "5", "--seed", "1", "--out", "s.png")
    assert result.code == 0, result.err
    assert "wrote s.png: 5 images" in result.err
    pixels = json.loads(run("generate", RUN, "--num-return-sequences", "2", "--json").out)
    assert len(pixels["images"]) == 2
    assert len(pixels["images"][0]) == 6


def test_evaluate_reports_bits_per_dim(run: Any) -> None:
    found = json.loads(run("evaluate", RUN, "--data", "images", "--json").out)
    assert 0 < found["bits_per_dim"] < 2
    assert found["num_images"] == 90
    assert found["num_colors"] == 4


def test_a_probe_prints_what_each_layer_knows_and_classifies(home: Path, run: Any) -> None:
    words = ("--task", "probe", "--data", "images", "--out", "runs/probe")
    result = run("finetune", RUN, *words, "--set", "training.precision=float32")
    assert result.code == 0, result.err
    for name in ("embedding", "layer 0", "layer 1"):
        assert f"\n{name}" in result.err
    assert "knows most: " in result.err
    found = json.loads(run("classify", "runs/probe", some_images(home, 1)[0], "--json").out)
    assert found["label"] in ("left", "middle", "right")
    scores = json.loads(run("evaluate", "runs/probe", "--data", "images", "--json").out)
    assert scores["accuracy"] > 0.5


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("generate", RUN), "images need a file. Pass --out FILE.png"),
        (("generate", RUN, "Once upon", "--out", "a.png"), "Leave out the prompt"),
        (("generate", RUN, "--top", "3", "--out", "a.png"), "Leave out --top"),
        (("generate", RUN, "--num-beams", "3", "--out", "a.png"), "--num-beams"),
        (("generate", RUN, "--out", "a.gif"), "must end in .png, .svg or .json"),
        (("complete", RUN, "nothing.png", "--out", "a.png"), "nothing.png does not exist"),
        (("complete", RUN, "notes.txt", "--out", "a.png"), "notes.txt is not an image"),
        (("complete", RUN, "images/left", "--out", "a.png"), "images/left is a folder"),
        (("complete", RUN, "notes.txt", "--keep", "1", "--out", "a.png"), "--keep is 1.0"),
        (("classify", RUN, "notes.txt"), "cannot classify"),
        (("finetune", RUN, "--task", "tag", "--data", "images"), "cannot be fine-tuned"),
    ],
)
def test_mistakes_are_explained(run: Any, words: tuple[str, ...], problem: str) -> None:
    result = run(*words)
    assert result.code in (1, 2)
    assert problem in result.error


def test_a_text_model_has_no_pictures(run: Any, home: Path, text: str) -> None:
    (home / "text.txt").write_text(text)
    small = [word for each in (*SET[:3], "model.context_length=16") for word in ("--set", each)]
    steps = ("--max-steps", "1", "--out", "runs/gpt", "--set", "training.precision=float32")
    assert run("train", "gpt", "--data", "text.txt", *small, *steps).code == 0
    result = run("generate", "runs/gpt", "a", "--out", "a.png")
    assert "--out is for models of images" in result.error
    result = run("complete", "runs/gpt", "notes.txt", "--out", "a.png")
    assert "runs/gpt cannot complete" in result.error
