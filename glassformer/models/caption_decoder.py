"""What all models that describe images have in common: an image to read, and words to write."""

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from glassformer.models.fields import Context, VocabSize
from glassformer.models.images import ImageConfig
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.nn.patches import Grid


class CaptionConfig(ImageConfig):
    """The sizes that all of them have."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Context = 64
    """Maximum number of tokens of a caption, with its end."""


class CaptionDecoder(MemoryDecoder):
    """Writes a caption, and attends to the places of an image for every word of it."""

    config: CaptionConfig

    returns_weights: ClassVar[bool] = False
    """It has `hidden_and_weights`, as doubly stochastic attention needs."""

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
