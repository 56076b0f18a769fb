"""Images as a model reads them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.config import Config, ImageSize, parse
from glassformer.data.image_files import FoundImage
from glassformer.data.image_store import IMAGES, ImageStore, ImageStoreWriter
from glassformer.data.images import Pixels, resized
from glassformer.errors import GlassformerError
from glassformer.preprocessing.images import ImagePreprocessing

KIND = ImagePreprocessing(image_size=8, num_channels=1, image_mean=(0.5,), image_std=(0.25,))


def noise(*shape: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def test_the_scale_is_that_of_the_training_images(tmp_path: Path) -> None:
    images = noise(5, 6, 4, 3)
    with ImageStoreWriter(tmp_path / IMAGES, (6, 4), 3) as writer:
        list(writer.add(FoundImage(str(n), each, None) for n, each in enumerate(images)))
    found = ImagePreprocessing.of(ImageStore(tmp_path / IMAGES), np.array([4, 0, 2]))
    known = images[[0, 2, 4]] / 255
    assert np.allclose(found.image_mean, known.mean((0, 1, 2)))
    assert np.allclose(found.image_std, known.std((0, 1, 2)))
    scaled = found.pixels(images[[0, 2, 4]])
    assert scaled.shape == (3, 3, 6, 4)
    assert scaled.dtype == torch.float32
    assert torch.allclose(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(scaled.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)
    assert torch.allclose(
        found.normalised(torch.from_numpy(known).permute(0, 3, 1, 2)).float(), scaled, atol=1e-5
    )


def test_images_without_contrast_have_a_finite_scale(tmp_path: Path) -> None:
    with ImageStoreWriter(tmp_path / IMAGES, (2, 2), 1) as writer:
        list(writer.add([FoundImage("a", np.full((2, 2, 1), 7, np.uint8), None)]))
    found = ImagePreprocessing.of(ImageStore(tmp_path / IMAGES), np.array([0]))
    assert found.image_std == (1.0,)


def test_paths_and_arrays_are_read_alike(tmp_path: Path) -> None:
    pixels = noise(20, 30, 1)
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "a.png")
    rows = KIND.encode([str(tmp_path / "a.png"), tmp_path / "a.png", pixels, pixels[:, :, 0]])
    assert all(np.array_equal(row, resized(pixels, (8, 8))) for row in rows)
    assert [KIND.is_one(each) for each in ("a.png", pixels, [pixels], pixels[None])] == [
        *(True, True, False, False)
    ]
    assert KIND.shown(pixels) == "20×30 image"


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4)), np.zeros((4, 4, 2), np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_other_arrays_are_refused(array: object) -> None:
    with pytest.raises(GlassformerError, match=r"is not an image\. Pass uint8 of shape"):
        KIND.encode([array])


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"nothing\.png does not exist"):
        KIND.encode([tmp_path / "nothing.png"])


def test_labelled_and_unlabelled_images_are_read_in_the_models_size(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        Image.fromarray(noise(9, 9, 3)).save(tmp_path / label / "1.png")
    examples, notes = KIND.read_labelled([str(tmp_path)])
    assert [each.labels for each in examples] == [("a",), ("b",)]
    assert all(each.input.shape == (8, 8, 1) for each in examples)
    assert notes == [f"2 images converted to greyscale (first: {tmp_path / 'a/1.png'})"]
    inputs = list(KIND.read_inputs([str(tmp_path)], (), "utf-8"))
    assert [place for _, place in inputs] == [str(tmp_path / "a/1.png"), str(tmp_path / "b/1.png")]


def test_a_model_of_another_size_does_not_fit() -> None:
    class Shape(Config):
        image_size: ImageSize = (8, 8)
        num_channels: int = 1

    KIND.check_model(Shape(), "here", "")
    with pytest.raises(GlassformerError, match="image_size is 8×8 here and 8×16 in the model"):
        KIND.check_model(Shape(image_size=(8, 16)), "here", "")
    with pytest.raises(GlassformerError, match="num_channels is 1 here and 3 in the model"):
        KIND.check_model(Shape(num_channels=3), "here", "")


@pytest.mark.parametrize(
    ("given", "size"), [(8, (8, 8)), ("8", (8, 8)), ("8x12", (8, 12)), ([8, 12], (8, 12))]
)
def test_sizes_are_written_in_several_ways(given: object, size: tuple[int, int]) -> None:
    class Shape(Config):
        image_size: ImageSize

    assert parse(Shape, {"image_size": given}).image_size == size
    for wrong in (0, "8x", "a", [1, 2, 3], -4):
        with pytest.raises(GlassformerError):
            parse(Shape, {"image_size": wrong})
