"""Images with captions: all captions of an image together, split by image."""

import json
from pathlib import Path

import pytest
from drawn_images import noise, save

from glassformer.data.image_files import CaptionsConfig
from glassformer.data.image_sets import SplitImages, median_size, read_images, read_split_images
from glassformer.errors import GlassformerError


def captions(folder: Path, number: int = 10) -> Path:
    rows = ["image,caption"]
    for n in range(number):
        save(folder / f"images/{n}.png", noise(8, 8, seed=n))
        rows += [f"images/{n}.png,a picture {n}", f'images/{n}.png,"picture {n}, again"']
    (folder / "captions.csv").write_text("\n".join([rows[0], *rows[1::2], *rows[2::2]]))
    return folder / "captions.csv"


def read(tmp_path: Path, path: Path, **options: object) -> SplitImages:
    (tmp_path / "run").mkdir(exist_ok=True)
    config = CaptionsConfig.model_validate({"paths": str(path)} | options)
    return read_split_images(config, 0, tmp_path / "run", median_size(), "caption")


def test_all_captions_of_an_image_belong_together(tmp_path: Path) -> None:
    found = read(tmp_path, captions(tmp_path))
    assert len(found.split.training) == 9
    assert len(found.split.validation) == 1
    for each in (*found.split.training, *found.split.validation):
        number = each.captions[0].split()[-1]
        assert each.captions == (f"a picture {number}", f"picture {number}, again")
        assert (each.input == noise(8, 8, seed=int(number))).all()
    assert found.columns == {"image_column": "image", "caption_column": "caption"}
    assert found.split.held_out == "1 of 10 images, a random sample"


def test_the_same_pixels_under_two_names_are_not_split(tmp_path: Path) -> None:
    path = captions(tmp_path, 10)
    with path.open("a") as file:
        for n in range(10):
            save(tmp_path / f"copy/{n}.png", noise(8, 8, seed=n))
            file.write(f"\ncopy/{n}.png,a copy")
    found = read(tmp_path, path, validation_fraction=0.3)
    sides = [
        {each.content for each in part} for part in (found.split.training, found.split.validation)
    ]
    assert len(sides[1]) >= 2
    assert not sides[0] & sides[1]


def test_an_imagefolder_with_metadata(tmp_path: Path) -> None:
    captions(tmp_path)
    (tmp_path / "captions.csv").unlink()
    rows = [json.dumps({"file_name": f"{n}.png", "text": f"number {n}"}) for n in range(10)]
    (tmp_path / "images/metadata.jsonl").write_text("\n".join(rows))
    found = read(tmp_path, tmp_path / "images")
    assert found.columns["caption_column"] == "text"
    assert len(found.split.training) == 9


def test_images_to_evaluate_on(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    found, _ = read_images([str(captions(tmp_path))], tmp_path / "run", (4, 4), 1, "caption")
    assert len(found) == 10
    assert found[2].captions == ("a picture 2", "picture 2, again")
    assert found[2].input.shape == (4, 4, 1)


def test_bad_tables_are_explained(tmp_path: Path) -> None:
    save(tmp_path / "1.png", noise(4, 4))
    table = tmp_path / "t.csv"
    table.write_text("image,caption\n1.png,\n")
    with pytest.raises(GlassformerError, match=r't\.csv:2: no caption in column "caption"'):
        read(tmp_path, table)
    table.write_text("image,caption\n2.png,a\n")
    with pytest.raises(GlassformerError, match=r"t\.csv:2: .*2\.png does not exist"):
        read(tmp_path, table)
    table.write_text("image,caption\n1.png,a\n")
    with pytest.raises(GlassformerError, match="no two different images"):
        read(tmp_path, table)
    (tmp_path / "none").mkdir()
    with pytest.raises(GlassformerError, match="contains no table of images and captions"):
        read(tmp_path, tmp_path / "none")
