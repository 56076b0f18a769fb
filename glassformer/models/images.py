"""What all models of images have in common: the size of an image, and how it becomes vectors."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from glassformer.config import Config, Count, ImageSize
from glassformer.errors import GlassformerError
from glassformer.nn.patches import ConvolutionalEmbedding, PatchEmbedding


class ImageConfig(Config):
    """The images that a model reads, and the patches that it sees."""

    usual_places: ClassVar[int] = 8
    """Patches per side that suit it, for images that are large enough."""

    image_size: ImageSize | None = None
    """Height and width in pixels, or one number for both; null in a recipe: chosen from the
    data."""
    num_channels: Count | None = Field(None, ge=1, le=1024)
    """3 for colours, 1 for greys; null in a recipe: taken from the data."""
    patch_size: Count = Field(16, ge=1, le=2**10)
    """Side of a patch in pixels."""
    embedding: Literal["patches", "convolution"] = "patches"
    """patches: squares, projected linearly; convolution: convolutions with maxima in between, which
    halve the image until a place stands for patch_size pixels."""
    num_convolutions: Count | None = Field(None, ge=1, le=16)
    """Number of convolutions; null: as many as halve the image. Further ones leave its size."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width, which only a recipe may leave open."""
        if self.image_size is None:
            raise GlassformerError("a model of images needs image_size, their height and width.")
        return self.image_size

    @property
    def channels(self) -> int:
        if self.num_channels is None:
            raise GlassformerError("a model of images needs num_channels, 3 for colours.")
        return self.num_channels

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        size = self.patch_size
        if self.embedding == "convolution":
            if size & (size - 1):
                raise ValueError(
                    f"patch_size {size} is not a power of two; each convolution halves the image, "
                    "so use 1, 2, 4, 8 …"
                )
            return self
        for side in self.image_size or ():
            if side % size:
                fitting = [each for each in (side // size * size, -(-side // size) * size) if each]
                height, width = self.size
                raise ValueError(
                    f"image_size {height}×{width} is not a multiple of patch_size {size}; instead "
                    f"of {side}, use {' or '.join(map(str, fitting))}, or change patch_size"
                )
        return self


def make_embedding(config: ImageConfig, width: int) -> PatchEmbedding | ConvolutionalEmbedding:
    """Images (B, C, H, W) → vectors (B, N, width)."""
    shape = (config.channels, config.patch_size, width)
    if config.embedding == "convolution":
        return ConvolutionalEmbedding(*shape, config.num_convolutions)
    return PatchEmbedding(*shape)


def initialize_convolutions(model: nn.Module) -> None:
    """He et al. (2015): the scale that keeps the variance through ReLU."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)


def check_pixels(shape: tuple[int, ...], channels: int) -> None:
    if len(shape) != 4 or shape[1] != channels:
        raise GlassformerError(
            f"images of the shape {tuple(shape)} were given, but the model reads (batch, "
            f"{channels}, height, width)."
        )
