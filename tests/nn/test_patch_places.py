"""What a place of the grid sees is where its square is in the image."""

import pytest
import torch
from torch import nn

from glassformer.nn.patches import ConvolutionalEmbedding, PatchEmbedding


@pytest.mark.parametrize("embedding", [PatchEmbedding, ConvolutionalEmbedding])
@pytest.mark.parametrize("patch_size", [2, 4, 8])
@torch.no_grad()
def test_a_place_sees_the_pixels_around_the_middle_of_its_square(
    embedding: type[PatchEmbedding | ConvolutionalEmbedding], patch_size: int
) -> None:
    size = 7 * patch_size
    model = embedding(1, patch_size, 4)
    for weight in model.parameters():
        nn.init.constant_(weight, 1.0)
    dark = model(torch.zeros(1, 1, size, size))
    single = torch.eye(size * size).view(-1, 1, size, size)  # one bright pixel in each image
    seen = (model(single) - dark).abs().sum(-1) > 0  # (pixels, places)
    row, column = 3, 4  # far from the edges
    assert model.grid(size, size) == (7, 7)
    pixels = seen[:, row * 7 + column].view(size, size).nonzero().float() + 0.5  # their middles
    middle = torch.tensor([row + 0.5, column + 0.5]) * patch_size
    assert (pixels.mean(dim=0) - middle).abs().max() <= 0.5


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (9, 8), (15, 17)])
def test_any_size_has_the_grid_that_it_promises(size: tuple[int, int]) -> None:
    model = ConvolutionalEmbedding(1, 4, 8)
    rows, columns = model.grid(*size)
    found = model(torch.randn(2, 1, *size))
    assert found.shape == (2, rows * columns, 8)
    assert torch.isfinite(found).all()
