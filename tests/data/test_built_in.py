"""Built-in data: what is written is what its captions, labels and boxes say."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data.built_in import SETS, write_built_in
from glassformer.data.shapes import COLORS
from glassformer.errors import UsageError


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "shapes"
    assert write_built_in("shapes", folder, count=60, seed=3) == (
        f"60 scenes with {len((folder / 'captions.csv').read_text().splitlines()) - 1} captions"
    )
    return folder


def nearest_color(pixels: np.ndarray) -> list[str]:
    names = list(COLORS)
    known = np.array([COLORS[name] for name in names])
    distances = np.abs(pixels.reshape(-1, 1, 3).astype(int) - known).sum(-1)
    return [names[index] for index in distances.argmin(1)]


def test_the_digits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    write_built_in("digits", tmp_path / "d")
    files = sorted((tmp_path / "d").rglob("*.png"))
    assert len(files) == 1797
    assert {file.parent.name for file in files} == set("0123456789")
    tested = [file for file in files if file.parent.parent.name == "test"]
    assert len(tested) == 355
    known = load_digits()
    for file in files[::97]:
        with Image.open(file) as image:
            values = np.asarray(image) / 255 * 16
        assert np.abs(values - known.images[int(file.stem)]).max() < 0.04
        assert int(file.parent.name) == known.target[int(file.stem)]


def test_every_shape_is_in_its_box_and_has_its_colour(shapes: Path) -> None:
    scenes = json.loads((shapes / "scenes.json").read_text())
    assert {len(scene["shapes"]) for scene in scenes} == {1, 2}
    for scene in scenes:
        with Image.open(shapes / scene["image"]) as image:
            pixels = np.asarray(image)
        assert pixels.shape == (64, 64, 3)
        paper = pixels[0, 0].astype(int)
        is_drawn = np.abs(pixels.astype(int) - paper).sum(-1) > 60
        for shape in scene["shapes"]:
            left, top, right, bottom = shape["box"]
            middle = pixels[int((top + bottom) / 2), int((left + right) / 2)]
            assert nearest_color(middle) == [shape["color"]]
            is_drawn[int(top) : int(bottom) + 1, int(left) : int(right) + 1] = False
        assert not is_drawn.any()  # nothing outside the boxes


def test_the_captions_are_true(shapes: Path) -> None:
    captions: dict[str, list[str]] = {}
    with (shapes / "captions.csv").open() as file:
        for row in csv.DictReader(file):
            captions.setdefault(row["image"], []).append(row["caption"])
    relations = set()
    for scene in json.loads((shapes / "scenes.json").read_text()):
        first, *others = scene["shapes"]
        said = f"a {first['size']} {first['color']} {first['shape']}"
        if not others:
            assert captions[scene["image"]] == [said]
            continue
        relations.add(scene["relation"])
        one, two = first["box"], others[0]["box"]
        is_true = {
            "left of": one[2] < two[0],
            "right of": one[0] > two[2],
            "above": one[3] < two[1],
            "below": one[1] > two[3],
        }
        assert [name for name, holds in is_true.items() if holds] == [scene["relation"]]
        assert captions[scene["image"]][0].startswith(f"{said} {scene['relation']} a ")
        assert captions[scene["image"]][1].endswith(said)
    assert relations == {"left of", "right of", "above", "below"}


def test_a_scene_depends_on_the_seed_and_its_number_alone(shapes: Path, tmp_path: Path) -> None:
    write_built_in("shapes", tmp_path / "few", count=5, seed=3)
    for name in ("images/0000.png", "images/0004.png"):
        assert (tmp_path / "few" / name).read_bytes() == (shapes / name).read_bytes()
    write_built_in("shapes", tmp_path / "few", count=5, seed=4, force=True)
    assert (tmp_path / "few" / name).read_bytes() != (shapes / name).read_bytes()


def test_nothing_is_overwritten_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/mine.txt").touch()
    with pytest.raises(UsageError, match="already exists"):
        write_built_in("digits", tmp_path / "a")
    with pytest.raises(UsageError, match="leave out --count"):
        write_built_in("digits", tmp_path / "b", count=3)
    with pytest.raises(UsageError, match="Available data: digits, shapes"):
        write_built_in("cats", tmp_path / "b")

    def fails(folder: Path, count: int, seed: int) -> str:
        (folder / "x.png").touch()
        raise OSError("disk full")

    monkeypatch.setitem(SETS, "full", type(SETS["shapes"])("", fails))
    with pytest.raises(OSError, match="disk full"):
        write_built_in("full", tmp_path / "b")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
