"""Labelled images from folders, archives, tables and arrays: read once, split without leaks."""

import json
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from drawn_images import class_folders, noise, png_header, save
from PIL import Image

from glassformer.config import parse
from glassformer.data.image_files import ImagesConfig
from glassformer.data.image_sets import SplitImages, median_size, read_images, read_split_images
from glassformer.data.image_store import ImageStore, write_npz
from glassformer.data.images import resized
from glassformer.errors import GlassformerError, UsageError


def read(folder: Path, *paths: Path | str, **options: object) -> SplitImages:
    values = {"paths": tuple(map(str, paths))} | options
    folder.mkdir(exist_ok=True)
    config = ImagesConfig.model_validate(values)
    return read_split_images(config, 0, folder, median_size(4))


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    found = read(tmp_path / "run", class_folders(tmp_path / "a", number=20))
    split = found.split
    assert split.labels == ("dark", "light")
    assert len(split.training) + len(split.validation) == 40
    assert len(split.validation) == 4
    example = split.training[0]
    assert example.labels == ("dark",)
    with Image.open(example.source) as image:
        assert np.array_equal(example.input, np.asarray(image))
    assert found.store.shape == (40, 8, 8, 3)
    assert found.store[[3, 1]].shape == (2, 8, 8, 3)


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_an_archive_reads_like_its_folder(tmp_path: Path, ending: str) -> None:
    folder = class_folders(tmp_path / "a")
    archive = tmp_path / f"a.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(archive, "w") as file:
            for each in sorted(folder.rglob("*.png")):
                file.write(each, f"train/{each.relative_to(folder)}")
    else:
        with tarfile.open(archive, "w:gz") as tar:
            for each in sorted(folder.rglob("*.png")):
                tar.add(each, f"train/{each.relative_to(folder)}")
    plain, packed = read(tmp_path / "1", folder), read(tmp_path / "2", archive / "train")
    assert np.array_equal(plain.store[:], packed.store[:])
    numbers = [[each.number for each in part.split.validation] for part in (plain, packed)]
    assert numbers[0] == numbers[1]


def test_folders_named_one_by_one_are_classes(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    found = read(tmp_path / "run", folder / "dark", folder / "light")
    assert found.split.labels == ("dark", "light")


def test_parts_of_a_dataset_are_not_classes(tmp_path: Path) -> None:
    class_folders(tmp_path / "a" / "train")
    class_folders(tmp_path / "a" / "test")
    with pytest.raises(UsageError, match=r"Pass --data .*a/train --test-data .*a/test\."):
        read(tmp_path / "run", tmp_path / "a")
    found = read(tmp_path / "run", tmp_path / "a/train", test_paths=str(tmp_path / "a/test"))
    assert len(found.split.test) == 20
    assert any("20 images in the test data also occur" in note for note in found.split.notes)


def test_equal_pixels_stay_on_one_side_whatever_their_format(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a", number=12)
    for file in folder.rglob("*.png"):
        with Image.open(file) as image:
            image.save(file.with_suffix(".bmp"))
    split = read(tmp_path / "run", folder, validation_fraction=0.3).split
    training, held_out = (
        {each.content for each in part} for part in (split.training, split.validation)
    )
    assert len(held_out) > 2
    assert not training & held_out


def test_a_table_with_relative_paths(tmp_path: Path) -> None:
    class_folders(tmp_path / "a")
    rows = ["picture,kind,note"] + [
        f"{label}/{n:02}.png,{label},x" for n in range(10) for label in ("dark", "light")
    ]
    (tmp_path / "a/pets.csv").write_text("\n".join(rows))
    found = read(tmp_path / "run", tmp_path / "a/pets.csv", label_column="kind")
    assert found.split.labels == ("dark", "light")
    assert found.split.text_column == ("picture",)
    assert found.split.label_column == "kind"
    assert found.split.columns == ["columns: image picture; label kind; not used: note"]


def test_a_missing_file_in_a_table_is_named_with_its_line(tmp_path: Path) -> None:
    save(tmp_path / "a.png", noise(4, 4))
    (tmp_path / "t.csv").write_text("image,label\na.png,x\nb.png,y\n")
    with pytest.raises(GlassformerError, match=r"t\.csv:3: .*b\.png does not exist\."):
        read(tmp_path / "run", tmp_path / "t.csv")


def test_an_imagefolder_with_metadata(tmp_path: Path) -> None:
    rows = []
    for number in range(8):
        save(tmp_path / f"a/{number}.png", noise(4, 4, seed=number))
        rows.append(json.dumps({"file_name": f"{number}.png", "label": number % 2}))
    (tmp_path / "a/metadata.jsonl").write_text("\n".join(rows))
    assert read(tmp_path / "run", tmp_path / "a").split.labels == ("0", "1")


def test_images_inside_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    contents = [save(tmp_path / f"{n}.png", noise(4, 4, seed=n)).read_bytes() for n in range(8)]
    images = [{"bytes": each, "path": None} for each in contents]
    table = pyarrow.table({"image": images, "label": [n % 2 for n in range(8)]})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = read(tmp_path / "run", tmp_path / "t.parquet")
    assert found.split.labels == ("0", "1")
    assert np.array_equal(found.store[3], noise(4, 4, seed=3))


def test_arrays_of_images(tmp_path: Path) -> None:
    images = np.stack([noise(6, 6, 1, n)[:, :, 0] for n in range(12)])
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(12) % 3)
    found = read(tmp_path / "run", tmp_path / "a.npz", image_size=6)
    assert found.split.labels == ("0", "1", "2")
    assert found.store.shape == (12, 6, 6, 1)
    assert np.array_equal(found.store[5][:, :, 0], images[5])
    write_npz(tmp_path / "b.npz", found.store, ["a"] * 6 + ["b"] * 6)
    again = read(tmp_path / "run2", tmp_path / "b.npz", image_size=6)
    assert np.array_equal(again.store[:], found.store[:])


def test_arrays_of_other_ranges_are_scaled_with_a_note(tmp_path: Path) -> None:
    images = np.tile(np.linspace(0, 16, 16).reshape(1, 4, 4), (6, 1, 1))
    images[:, 0, 0] = np.arange(6)
    np.savez(tmp_path / "a.npz", images=images, labels=[0, 1] * 3)
    found = read(tmp_path / "run", tmp_path / "a.npz")
    assert found.store[:].max() == 255
    assert any("0 to 16, are scaled to 0–255" in note for note in found.split.notes)


def test_wrong_arrays_are_explained(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", pictures=np.zeros((2, 4, 4)))
    with pytest.raises(GlassformerError, match=r"no array images and labels .*images=…, labels=…"):
        read(tmp_path / "run", tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", images=np.zeros((2, 4)), labels=[1, 2])
    with pytest.raises(GlassformerError, match=r"expected \(N, H, W\)"):
        read(tmp_path / "run", tmp_path / "b.npz")


def test_files_that_are_no_images_are_skipped_and_named(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    (folder / "dark/Thumbs.db").write_bytes(b"\0\1\2")
    (folder / "readme.txt").write_text("hello")
    notes = read(tmp_path / "run", folder).split.notes
    assert any(note.startswith("skipped 1 file that is not an image: ") for note in notes)
    assert any("Thumbs.db" in note and "--strict" in note for note in notes)
    assert any("left out: 1 file" in note and "readme.txt" in note for note in notes)
    with pytest.raises(GlassformerError, match=r"Thumbs\.db is not an image\. Remove it"):
        read(tmp_path / "run", folder, strict=True)


def test_images_above_the_limit_are_skipped_and_named(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    (folder / "dark/huge.png").write_bytes(png_header(25_000, 20_000))
    (folder / "dark/no.png").write_bytes(b"no image")
    notes = read(tmp_path / "run", folder).split.notes
    assert any(
        note.startswith("skipped 1 image of more than 100 megapixels: ") and "huge.png" in note
        for note in notes
    )
    assert any(note.startswith("skipped 1 file that is not an image: ") for note in notes)
    with pytest.raises(GlassformerError, match=r"huge\.png has more than 100 megapixels.*--strict"):
        read(tmp_path / "run", folder, strict=True)


def test_an_image_that_links_lead_to_twice_is_read_once(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    first = sorted((folder / "dark").iterdir())[0]
    number = read(tmp_path / "run", folder).store.shape[0]
    (folder / "dark/zz.png").symlink_to(first)
    found = read(tmp_path / "again", folder)
    assert found.store.shape[0] == number
    assert "skipped 1 .png (linked, already read)" in found.split.notes


def test_one_class_no_class_and_no_image(tmp_path: Path) -> None:
    class_folders(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts/x").mkdir(parents=True)
    (tmp_path / "texts/x/a.txt").write_text("hello")
    save(tmp_path / "b/only/1.png", noise(4, 4))
    with pytest.raises(GlassformerError, match='only the label "only"'):
        read(tmp_path / "run", tmp_path / "b")
    with pytest.raises(GlassformerError, match="neither a folder for each class nor a table"):
        read(tmp_path / "run", tmp_path / "a/dark")
    with pytest.raises(GlassformerError, match="neither a folder for each class nor a table"):
        read(tmp_path / "run", tmp_path / "empty")
    with pytest.raises(GlassformerError, match="none of the files is an image"):
        read(tmp_path / "run", tmp_path / "texts")
    with pytest.raises(UsageError, match="has no label"):
        read(tmp_path / "run", tmp_path / "a/dark/00.png")
    with pytest.raises(GlassformerError, match="does not exist"):
        read(tmp_path / "run", tmp_path / "nowhere")


def test_sizes_come_from_the_data_and_images_of_any_shape_fit(tmp_path: Path) -> None:
    for n, (height, width) in enumerate([(20, 40), (22, 18), (300, 21), (1, 1)]):
        save(tmp_path / f"a/x/{n}.png", noise(height, width, seed=n))
        save(tmp_path / f"a/y/{n}.png", noise(height, width, seed=n + 9))
    found = read(tmp_path / "run", tmp_path / "a")
    assert found.store.size == (20, 20)
    assert median_size(4, most=64)(np.array([[500, 600]])) == (64, 64)
    assert median_size(16)(np.array([[8, 8]])) == (16, 16)
    wide = read(tmp_path / "run", tmp_path / "a", image_size="6x10")
    assert wide.store.size == (6, 10)
    number = next(e.number for e in wide.split.training if e.source.endswith("x/2.png"))
    assert np.array_equal(wide.store[number], resized(noise(300, 21, seed=2), (6, 10)))


def test_grey_images_have_one_channel_unless_some_are_in_colour(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a", channels=1)
    assert read(tmp_path / "run", folder).store.num_channels == 1
    save(folder / "dark/99.png", noise(8, 8))
    assert read(tmp_path / "run", folder).store.num_channels == 3
    found = read(tmp_path / "run", folder, num_channels=1)
    assert any("1 image converted to greyscale" in note for note in found.split.notes)


def test_a_store_says_which_files_changed(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    read(tmp_path / "run", folder)
    store = ImageStore(tmp_path / "run/images")
    assert store.changed() == []
    save(folder / "dark/03.png", noise(9, 9))
    os.utime(folder / "light/04.png", ns=(1, 1))
    (folder / "light/05.png").unlink()
    assert sorted(Path(name).name for name in store.changed()) == ["03.png", "04.png", "05.png"]


def test_a_damaged_store_is_an_error(tmp_path: Path) -> None:
    read(tmp_path / "run", class_folders(tmp_path / "a"))
    content = tmp_path / "run/images.u8"
    content.write_bytes(content.read_bytes()[:100])
    with pytest.raises(GlassformerError, match=r"images\.u8 cannot be read as images"):
        ImageStore(tmp_path / "run/images")


def test_a_table_beside_images_without_labels_is_not_read(tmp_path: Path) -> None:
    class_folders(tmp_path / "a")
    (tmp_path / "a/captions.csv").write_text("image,caption\ndark/00.png,x\ndark/00.png,y\n")
    (tmp_path / "run").mkdir()
    found, notes = read_images([str(tmp_path / "a")], tmp_path / "run", (4, 4), 3)
    assert len(found) == 20
    assert "captions.csv" in notes[0]


def test_images_without_labels(tmp_path: Path) -> None:
    class_folders(tmp_path / "a")
    (tmp_path / "run").mkdir()
    found, notes = read_images([str(tmp_path / "a")], tmp_path / "run", (4, 4), 3)
    assert len(found) == 20
    assert notes == []
    one, _ = read_images([str(tmp_path / "a/dark/00.png")], tmp_path / "run", (8, 8), 3)
    assert np.array_equal(one[0].input, noise(8, 8) // 2)


def test_images_in_subfolders_have_the_label_of_the_outermost_folder(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    save(folder / "dark/more/deep/é 1.PNG", noise(8, 8, seed=99))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for each in sorted(folder.rglob("*.[pP][nN][gG]")):
            file.write(each, str(each.relative_to(folder)))
    for data in (folder, tmp_path / "a.zip"):
        split = read(tmp_path / "run", data).split
        labels = [each.labels for each in (*split.training, *split.validation)]
        assert labels.count(("dark",)) == 11
        assert split.labels == ("dark", "light")
        assert any("1 file in subfolders" in note and "é 1.PNG" in note for note in split.notes)


@pytest.mark.parametrize("size", ["abc", "1x2x3", "12x", "-4"])
def test_a_wrong_image_size_is_refused_once_with_an_example(tmp_path: Path, size: str) -> None:
    with pytest.raises(GlassformerError, match="height x width, such as 24x32") as caught:
        parse(ImagesConfig, {"paths": str(tmp_path), "image_size": size})
    assert str(caught.value).count("image_size") == 1
    with pytest.raises(GlassformerError, match=r"^image_size is '?0'?: it must be 1 or more\.$"):
        parse(ImagesConfig, {"paths": str(tmp_path), "image_size": "0"})


def test_names_of_a_zip_are_utf_8_even_if_it_does_not_say_so(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for each in sorted(folder.rglob("*.png")):
            file.write(each, str(each.relative_to(folder)))
    content = (tmp_path / "a.zip").read_bytes()  # Info-ZIP on Linux does not set the flag
    (tmp_path / "a.zip").write_bytes(content.replace(b"dark/", "ärk/".encode()))
    assert read(tmp_path / "run", tmp_path / "a.zip").split.labels == ("light", "ärk")
