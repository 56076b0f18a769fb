"""Captions on the command line: training, describing, pictures, evaluation, and bad input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captioned_scenes import SIZES, scenes
from PIL import Image

SETTINGS = ("learning_rate=0.01", "per_device_train_batch_size=16", "ema=0.0", "num_threads=1")
SETTINGS += ("precision=float32", "eval_steps=1000", "save_steps=1000", "report_to=[]")


def train_words(name: str, data: Path, out: Path, steps: int) -> list[object]:
    model = [f"model.{key}={value}" for key, value in SIZES[name].items()]
    settings = [*model, "model.dropout=0.0", *(f"training.{each}" for each in SETTINGS)]
    sets = [word for each in settings for word in ("--set", each)]
    return ["train", name, "--data", data, "--out", out, "--max-steps", steps, *sets]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captions")
    scenes(folder, 60)
    scenes(folder, 12, seed=5, name="test.csv")
    return folder


@pytest.fixture(scope="module", params=[*SIZES])
def run(request: pytest.FixtureRequest, home: Path, in_folder: Any) -> Path:
    folder = home / request.param
    words = train_words(request.param, home / "captions.csv", folder, 40)
    done = in_folder(home, *words)
    assert done.code == 0, done.err
    assert "54 images with 108 captions for training" in done.err
    assert "columns: image" in done.err
    return folder


def test_an_image_is_described(run: Path, home: Path, glassformer: Any) -> None:
    image = home / "images" / "test-000.png"
    plain = glassformer("caption", run, image)
    assert plain.code == 0, plain.err
    assert plain.out.strip()
    found = json.loads(glassformer("caption", run, image, "--json").out)
    assert found["captions"][0]["text"] == plain.out.strip()
    assert found["image"] == str(image)
    several = glassformer("caption", run, image, "--num-beams", 4, "--num-return-sequences", 3)
    scores = [float(line.split("\t")[0]) for line in several.out.splitlines()]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


def test_several_images_are_named(run: Path, home: Path, glassformer: Any) -> None:
    images = [home / "images" / f"test-00{number}.png" for number in range(3)]
    found = glassformer("caption", run, *images)
    assert [line.split("\t")[0] for line in found.out.splitlines()] == [*map(str, images)]
    lines = glassformer("caption", run, *images, "--json").out.splitlines()
    assert [json.loads(line)["image"] for line in lines] == [*map(str, images)]


def test_attention_is_drawn_for_every_word(
    run: Path, home: Path, tmp_path: Path, glassformer: Any
) -> None:
    image = home / "images" / "test-001.png"
    found = glassformer("caption", run, image, "--attention", tmp_path / "words.png")
    assert found.code == 0, found.err
    pixels = np.asarray(Image.open(tmp_path / "words.png").convert("L").copy())
    assert pixels.std() > 5
    words = ("inspect", run, image, "--view", "words")
    for ending in ("png", "html", "json"):
        done = glassformer(*words, "--out", tmp_path / f"view.{ending}")
        assert done.code == 0, done.err
    written = json.loads((tmp_path / "view.json").read_text())
    shares = np.array(written["attention"])
    assert shares.shape == (len(written["words"]), 4, 4)
    np.testing.assert_allclose(shares.sum(axis=(1, 2)), 1, atol=1e-4)
    assert json.loads(glassformer(*words, "--json").out)["words"] == written["words"]
    given = glassformer(*words, "--target", "a red square at the top left", "--json")
    assert json.loads(given.out)["words"][:3] == ["a", "red", "square"]


def test_the_story_of_a_caption_has_its_words_and_the_patches(
    run: Path, home: Path, tmp_path: Path, glassformer: Any
) -> None:
    image = home / "images" / "test-001.png"
    given = ("inspect", run, image, "--target", "a red square", "--json")
    found = json.loads(glassformer(*given).out)
    assert [each["actual"] for each in found["predictions"]] == ["a", "red", "square", "<end>"]
    assert (found["image"], found["grid"]) == (str(image), [4, 4])
    assert np.shape(found["cross_attention"])[2:] == (4, 16)  # words, patches
    done = glassformer("inspect", run, image, "--out", tmp_path / "story.html")
    assert (done.code, done.err) == (0, f"wrote {tmp_path / 'story.html'}\n")
    assert "Words and the picture" in (tmp_path / "story.html").read_text()


def test_it_is_evaluated_against_all_references(run: Path, home: Path, glassformer: Any) -> None:
    found = json.loads(glassformer("evaluate", run, "--data", home / "test.csv", "--json").out)
    assert found.keys() >= {"bleu", "cider_d", "chrf", "exact_match", "loss", "perplexity"}
    assert (found["num_images"], found["num_references"]) == (12, 24)
    worst = glassformer("evaluate", run, "--data", home / "test.csv", "--errors", 2)
    assert worst.code == 0, worst.err
    assert worst.out.count("reference:") in (0, 2, 4)


def test_other_column_names_are_found_or_given(
    run: Path, home: Path, tmp_path: Path, glassformer: Any
) -> None:
    table = home / "odd.csv"
    table.write_text("pic,kind,words\nimages/test-000.png,drawn,a red square\n")
    refused = glassformer("evaluate", run, "--data", table)
    assert refused.code != 0
    assert "pic, kind, words" in refused.error
    columns = ("--image-column", "pic", "--text-column", "words")
    assert glassformer("evaluate", run, "--data", table, *columns).code == 0


def test_a_missing_image_file_names_the_row(home: Path, glassformer: Any, tmp_path: Path) -> None:
    table = home / "missing.csv"
    table.write_text("image,caption\nimages/test-000.png,a square\nimages/none.png,nothing\n")
    done = glassformer(*train_words("captioner", table, tmp_path / "run", 1))
    assert done.code == 1
    assert "missing.csv:3" in done.error
    assert "none.png" in done.error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("image,caption\nimages/test-000.png,\n", "bad.csv:2: no caption"),
        ("image\nimages/test-000.png\n", "bad.csv"),
        ("image,caption\nimages/test-000.png,a square\n", "no two different images"),
        ("image,caption\n", "bad.csv"),
    ],
)
def test_data_that_cannot_be_learned_from(
    content: str, said: str, home: Path, glassformer: Any, tmp_path: Path
) -> None:
    (home / "bad.csv").write_text(content)
    done = glassformer(*train_words("captioner", home / "bad.csv", tmp_path / "run", 1))
    assert done.code in (1, 2)
    assert said in done.error


def test_what_is_no_image_cannot_be_described(run: Path, home: Path, glassformer: Any) -> None:
    done = glassformer("caption", run, home / "test.csv")
    assert done.code == 1
    assert "test.csv is not an image" in done.error
    assert "none.png" in glassformer("caption", run, home / "none.png").error
    assert glassformer("caption", run).code == 2
    image = home / "images" / "test-000.png"
    wrong = glassformer("caption", run, image, image, "--attention", "a.png")
    assert "Pass a single image" in wrong.error
    assert "must end in" in glassformer("caption", run, image, "--attention", "a.gif").error
    assert "--num-beams" in glassformer("caption", run, image, "--num-return-sequences", 9).error


def test_another_kind_of_model_cannot_caption(run: Path, glassformer: Any) -> None:
    done = glassformer("translate", run, "hello")
    assert "supports caption, inspect and evaluate" in done.error
