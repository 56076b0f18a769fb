"""ImageGPT (Chen et al., 2020): a GPT over pixels, each a colour of a palette, row by row.

    start  p₀  p₁  p₂ …        the start token, then the pixels from left to right, top to bottom
      ↓    ↓   ↓   ↓
      p₀   p₁  p₂  p₃ …        what each position predicts

The start token is the last of the vocabulary, after the colours, and is never predicted. So the
context has as many positions as the image has pixels.

`ImageGPTProbe` asks what one of its layers knows about an image, by a linear classifier on it.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import torch
from pydantic import Field, TypeAdapter, ValidationError, model_validator
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import Count, ImageSize
from glassformer.errors import GlassformerError
from glassformer.models import stack
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.heads import LabelsConfig, TextClassifier
from glassformer.nn.linear import Linear


class ImageGPTConfig(GPTConfig):
    """The shape of a GPT, and of the images that it paints."""

    image_size: ImageSize | None = None
    """Height and width in pixels; null in a recipe: chosen from the data."""
    tie_weights: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Height and width, which only a recipe may leave open."""
        if self.image_size is None:
            raise GlassformerError("an image-gpt needs image_size, the height and width of images.")
        return self.image_size

    @property
    def num_colors(self) -> int | None:
        """Colours of the palette: all tokens but the start token."""
        return None if self.vocab_size is None else self.vocab_size - 1

    @model_validator(mode="before")
    @classmethod
    def _one_position_per_pixel(cls, values: Any) -> Any:
        """The context follows from the size of images."""
        if isinstance(values, dict) and values.get("image_size") is not None:
            with suppress(ValidationError):  # which is reported with its key
                height, width = TypeAdapter(ImageSize).validate_python(values["image_size"])
                return {"context_length": max(2, height * width)} | values
        return values

    @model_validator(mode="after")
    def _pixels_fit(self) -> Self:
        if self.tie_weights:
            raise ValueError("tie_weights is not possible: the start token is never predicted")
        if self.vocab_size is not None and self.vocab_size < 2:
            raise ValueError("vocab_size needs at least one colour besides the start token")
        if self.image_size is not None:
            height, width = self.image_size
            if self.context_length != max(2, height * width):
                raise ValueError(
                    f"context_length is {self.context_length}, but an image of {height}×{width} "
                    f"has {height * width} pixels; leave it out"
                )
        return self


class ImageGPT(GPT):
    """A GPT whose tokens are colours; its head predicts colours only."""

    config: ImageGPTConfig

    def __init__(self, config: ImageGPTConfig) -> None:
        super().__init__(config)
        num_colors = self.needed(config.num_colors, "an image-gpt")
        self.head = Linear(config.d_model, num_colors, bias=config.output_bias)
        stack.initialize(self.head, config.initialization, config.num_layers)

    @property
    def start_token(self) -> int:
        return self.embedding.num_embeddings - 1

    def layers(self, ids: Tensor) -> Iterator[Tensor]:
        """The states (B, T, D) of the embedding, then of each block: the last are those that the
        final norm and the head read."""
        x, rules = self.positions.causal(self.widen(self.embedding(ids)), None)
        x = self.dropout(x)
        yield x
        for block in self.blocks:
            x = block(x, rules)
            yield x


# --- the linear probe: what does a layer know about an image? ---
#
#     features = [mean over part 1 of norm(states after layer l); mean over part 2; …]
#     logits   = head((features - μ) / σ)                                              (B, C)
#
# The parts are consecutive pixels, so groups of rows: a mean over the whole image would not say
# where something is. The ImageGPT itself does not change. μ and σ are those of the training images.


class ImageGPTProbeConfig(ImageGPTConfig, LabelsConfig):
    """The shape of an ImageGPT, and the labels of images."""

    parts: Count | None = Field(None, ge=1)
    """Parts of the image over which states are averaged; null in a recipe: 4 groups of rows."""


class ImageGPTProbe(TextClassifier):
    """An ImageGPT with a linear classifier on the states of one of its layers."""

    config: ImageGPTProbeConfig
    body_name = "gpt"
    default_context = None
    is_causal = True

    layer: Tensor
    """After how many blocks the states are read; 0 is the embedding."""
    accuracies: Tensor
    """The accuracy of a probe on each layer, on the held-out images: (layers + 1,)."""
    mean: Tensor
    deviation: Tensor

    def __init__(self, config: ImageGPTProbeConfig) -> None:
        if config.parts is None:
            raise GlassformerError(
                "the probe was fitted by an earlier version, which computed other features: its "
                "config.json has no parts. Fit it again with glassformer finetune RUN --task probe."
            )
        self.parts, width = config.parts, config.parts * config.d_model
        super().__init__(config, width, config.context_length)
        self.gpt = ImageGPT(config)
        del self.gpt.head  # it predicts colours: it would be saved without being used
        self.register_buffer("layer", torch.tensor(float(config.num_layers)))
        self.register_buffer("accuracies", torch.zeros(config.num_layers + 1))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))

    def pooled(self, colors: Tensor) -> Tensor:
        """The features of every layer: colours (B, P) → (B, layers + 1, parts · D)."""
        # Without the start token, as transformers' classifier does: so the last pixel is read, too.
        return torch.stack([self._features(states) for states in self.gpt.layers(colors)], dim=1)

    def _features(self, states: Tensor) -> Tensor:
        """(B, P, D) → (B, parts · D). Normalised first, so that every pixel counts alike."""
        states = F.layer_norm(states, states.shape[-1:])
        parts = states.tensor_split(self.parts, dim=1)
        return torch.cat([part.mean(dim=1) for part in parts], dim=-1)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Images have no padding, so `is_text` is not needed."""
        state = self.pooled(ids)[:, int(self.layer)]  # (B, D)
        return (state - self.mean) / self.deviation
