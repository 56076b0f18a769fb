"""Augmentation: images stay images, and follow from the generator alone."""

import pytest
import torch
from torch import Tensor

from glassformer.data.augmentation import AugmentationConfig, augment, mix

EVERYTHING = AugmentationConfig(
    shift=0.2,
    zoom=0.5,
    flip=0.5,
    color=0.4,
    num_ops=3,
    magnitude=1.0,
    erasing=0.5,
    mixup=0.4,
    cutmix=1.0,
)


def images(number: int = 64, channels: int = 3, size: tuple[int, int] = (8, 10)) -> Tensor:
    return torch.rand(number, channels, *size, generator=torch.Generator().manual_seed(7))


def varied(given: Tensor, seed: int = 0, **settings: float) -> Tensor:
    return augment(given, AugmentationConfig(**settings), torch.Generator().manual_seed(seed))


def test_the_defaults_change_nothing() -> None:
    assert torch.equal(varied(images()), images())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 10), (1, 1)])
def test_a_function_of_the_generator_that_stays_in_range(
    channels: int, size: tuple[int, int]
) -> None:
    given = images(64, channels, size)
    first, again, other = (
        augment(given, EVERYTHING, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == given.shape
    assert 0 <= first.min() <= first.max() <= 1
    assert torch.equal(given, images(64, channels, size))  # the input is left alone


def test_flips_mirror_about_half_of_the_images() -> None:
    given = images()
    found = varied(given, flip=0.5)
    is_flipped = (found == given.flip(-1)).all(1).all(1).all(1)
    is_same = (found == given).all(1).all(1).all(1)
    assert (is_flipped ^ is_same).all()
    assert 16 < is_flipped.sum() < 48


def test_shifts_move_whole_pixels_and_mirror_the_edge() -> None:
    given = torch.arange(10.0).view(1, 1, 1, 10).repeat(64, 1, 10, 1) / 10
    found = varied(given, shift=0.2)
    middles = {round(float(each) * 10) for each in found[:, 0, 5, 5]}
    assert middles == {3, 4, 5, 6, 7}
    right = found[found[:, 0, 5, 5] > 0.65][0, 0, 5] * 10  # shifted by two
    assert right.round().tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 8, 7]


def test_a_zoom_shows_a_part() -> None:
    given = torch.linspace(0, 1, 32).view(1, 1, 1, 32).repeat(64, 3, 32, 1)
    spans = (found := varied(given, zoom=0.25))[:, 0, 0].amax(-1) - found[:, 0, 0].amin(-1)
    assert spans.max() <= 1
    assert 0.45 < spans.min() < 0.6  # a quarter of the area is half of a side


def test_erasing_replaces_a_rectangle() -> None:
    found = varied(torch.zeros(200, 3, 32, 32), erasing=1.0)
    share = (found > 0).any(1).float().mean((1, 2))
    assert share.min() < 0.1 < 0.25 < share.max() <= 0.4


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_mixed_targets_are_the_shares_of_the_pixels(kind: str) -> None:
    """With images of one value each, the mean of a mixed image tells its shares."""
    values = torch.arange(64.0)
    given = (values / 64).view(64, 1, 1, 1).expand(64, 1, 16, 16)
    config = AugmentationConfig(**{kind: 1.0})
    found, soft = mix(given, torch.eye(64), config, torch.Generator().manual_seed(0))
    assert torch.allclose(soft.sum(1), torch.ones(64))
    assert torch.allclose(found.mean((1, 2, 3)), soft @ (values / 64), atol=1e-5)
    assert (soft.max(1).values < 0.99).sum() > 32
    unmixed = mix(given, torch.eye(64), AugmentationConfig(), torch.Generator())
    assert torch.equal(unmixed[0], given)
