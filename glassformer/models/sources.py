"""Models by what they read: what all that read images, or translate a sentence, share.

    ImageClassifier   pixels (B, C, H, W) → one label
    CaptionDecoder    pixels (B, C, H, W) → a text, written token by token
    Translator        ids (B, S)          → a text, written token by token

Those that write are memory decoders: samplers, beam search and views are the same for both.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count, ImageSize
from glassformer.errors import GlassformerError
from glassformer.models.heads import Labeller, LabelsConfig
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.models.stack import Context, VocabSize
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.layers import Embedding
from glassformer.nn.observe import Tap
from glassformer.nn.patches import ConvolutionalEmbedding, Grid, PatchEmbedding

# --- images as vectors ---


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
                multiples = side // size * size, -(-side // size) * size
                fitting = [multiple for multiple in multiples if multiple]
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


# --- classifiers of images ---


class ImageClassifier(Labeller):
    """Labels an image: `represent` returns (B, D), `forward` (B, number of labels). Head,
    temperature and calibration are the same as for texts."""

    default_context = None

    def __init__(self, config: LabelsConfig, width: int) -> None:
        super().__init__(config, width, context_length=None)

    @property
    def num_extra(self) -> int:
        """Positions of its sequences that are no place of the image: a class token, which then is
        pooled alone."""
        return 0

    @property
    @abstractmethod
    def layers(self) -> list[tuple[MultiHeadAttention, Grid]]:
        """The layers of attention in order, each with the grid that it works on. Views are computed
        from this list alone."""

    @property
    def pooling_tap(self) -> Tap | None:
        """The tap that observes the weights (B, N) of a pooling other than the plain mean."""
        return None

    @abstractmethod
    def represent(self, pixels: Tensor, is_text: Tensor | None = None) -> Tensor:
        """The input of the head. Images have no padding, so there is no `is_text`."""


# --- captioners ---


class CaptionConfig(ImageConfig):
    """The sizes that all captioners have."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Context = 64
    """Maximum number of tokens of a caption, with its end."""


class CaptionDecoder(MemoryDecoder):
    """Writes a caption, and attends to the places of an image for every word of it."""

    config: CaptionConfig

    returns_weights: ClassVar[bool] = False
    """Whether it has `hidden_and_weights`, as doubly stochastic attention needs."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """Rows and columns of the places that it attends to. A place stands for a rectangle of the
        image, which the grid divides evenly."""

    @abstractmethod
    def encode(self, source: Tensor) -> Any:
        """Encode images: (B, C, H, W)."""

    def hidden_and_weights(self, target: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
        """The result of `hidden`, and how much each position attended to each place, through which
        gradients flow: (B, T, D) and (B, T, N)."""
        raise NotImplementedError


# --- translators ---


class TranslatorConfig(Config):
    """The sizes that all translators have."""

    vocab_size: VocabSize | None = None
    """Number of source tokens; null in a recipe: the tokenizer's."""
    target_vocab_size: VocabSize | None = None
    """Number of target tokens; null: source and target share one vocabulary."""
    context_length: Context = 128
    """Maximum number of tokens of a sentence, source or target."""


class Translator(MemoryDecoder):
    """Writes the translation of a sentence. Source and target may have a vocabulary each."""

    def __init__(self, config: TranslatorConfig, d_embedding: int) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a translator")
        self.config = config
        self.context_length = config.context_length
        self.num_targets = config.target_vocab_size or vocab_size
        self.embedding = Embedding(vocab_size, d_embedding)
        self.target_embedding = self.embedding
        if config.target_vocab_size is not None:
            self.target_embedding = Embedding(self.num_targets, d_embedding)

    @abstractmethod
    def encode(self, source: Tensor, is_text: Tensor | None = None) -> Any:
        """Encode sentences (B, S), padded on the right. `is_text` None: there is no padding."""

    def forward(self, source: Tensor, target: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Logits of the token after each token of `target`: (B, S), (B, T) → (B, T, V)."""
        return self.head(self.hidden(target, self.encode(source, is_text)))
