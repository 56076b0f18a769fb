"""Palettes: colours that images are near to, and back again."""

from pathlib import Path

import numpy as np
import pytest

from glassformer.data.image_files import FoundImage
from glassformer.data.image_store import IMAGES, ImageStore, ImageStoreWriter
from glassformer.data.images import Pixels
from glassformer.preprocessing.images import (
    PalettePreprocessing,
    learn_palette,
    nearest_colors,
    sample_pixels,
)


def noise(*shape: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def store_of(images: Pixels, folder: Path) -> ImageStore:
    with ImageStoreWriter(folder / IMAGES, images.shape[1:3], images.shape[3]) as writer:
        list(writer.add(FoundImage(str(n), each, None) for n, each in enumerate(images)))
    return ImageStore(folder / IMAGES)


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_survive_the_way_there_and_back(tmp_path: Path, channels: int) -> None:
    store = store_of(noise(6, 4, 5, channels), tmp_path)
    found = PalettePreprocessing.of(store, np.arange(6), 16, seed=0)
    assert len(found.palette) == 16
    ids = np.random.default_rng(1).integers(0, 16, (3, 20))
    pixels = found.pixels(ids)
    assert pixels.shape == (3, 4, 5, channels)
    assert np.array_equal(found.ids(pixels), ids)
    assert np.array_equal(found.pixels(found.ids(pixels)), pixels)


def test_with_enough_colours_nothing_is_lost(tmp_path: Path) -> None:
    greys = (noise(5, 4, 4, 1) // 16) * 17  # sixteen of them
    found = PalettePreprocessing.of(store_of(greys, tmp_path), np.arange(5), 64, seed=0)
    assert len(found.palette) <= 16
    assert np.array_equal(found.pixels(found.ids(greys)), greys)


def test_colours_go_from_dark_to_bright_and_follow_the_clusters() -> None:
    random = np.random.default_rng(0)
    middles = np.array([[10, 10, 10], [200, 60, 30], [30, 30, 200], [240, 240, 240]])
    pixels = np.repeat(middles, 500, axis=0) + random.integers(-5, 6, (2000, 3))
    palette = learn_palette(pixels.astype(np.uint8), 4, seed=0)
    assert np.abs(palette.astype(int) - middles[[0, 2, 1, 3]]).max() <= 3
    assert palette.sum(1).tolist() == sorted(palette.sum(1).tolist())
    again = learn_palette(pixels.astype(np.uint8), 4, seed=0)
    assert np.array_equal(palette, again)


def test_the_nearest_colour_is_the_nearest() -> None:
    pixels, colors = noise(300, 3), noise(40, 3, seed=1)
    distances = ((pixels[:, None].astype(int) - colors[None].astype(int)) ** 2).sum(-1)
    assert np.array_equal(nearest_colors(pixels, colors), distances.argmin(1))


def test_many_colours_are_clustered_closely() -> None:
    pixels = noise(40_000, 3)
    palette = learn_palette(pixels, 256, seed=0)
    assert len(palette) > 250
    error = palette[nearest_colors(pixels, palette)].astype(int) - pixels
    assert np.sqrt((error**2).mean()) < 25  # of 74 for a single colour


def test_pixels_are_sampled_from_all_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.repeat(np.arange(50, dtype=np.uint8), 16).reshape(50, 4, 4, 1)
    store = store_of(images, tmp_path)
    monkeypatch.setattr("glassformer.preprocessing.images.SAMPLE", 200)
    found = sample_pixels(store, np.arange(0, 50, 2), seed=0)
    assert {*found[:, 0].tolist()} == {*range(0, 50, 2)}  # only the training images
    assert len(found) == 200


def test_an_image_is_read_row_by_row() -> None:
    kind = PalettePreprocessing(image_size=(2, 3), num_channels=1, palette=((0,), (9,), (255,)))
    (ids,) = kind.encode([np.array([[0, 10, 250], [240, 0, 2]], dtype=np.uint8)])
    assert ids.tolist() == [0, 1, 2, 2, 0, 0]
    assert (kind.start, kind.num_pixels) == (3, 6)


@pytest.mark.parametrize(
    ("palette", "problem"),
    [
        ([[1, 2]], "needs 1 values"),
        ([[1], [1]], "given twice"),
        ([], "at least 1"),
        ([[256]], "255"),
    ],
)
def test_palettes_that_cannot_be_are_refused(palette: list[list[int]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PalettePreprocessing(image_size=(2, 3), num_channels=1, palette=palette)
