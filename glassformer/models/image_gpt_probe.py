"""A linear probe on an ImageGPT: what does one of its layers know about an image?

features = [mean over part 1 of norm(states after layer l); mean over part 2; …]
logits   = head((features - μ) / σ)                                              (B, C)

The parts are consecutive pixels, so groups of rows: a mean over the whole image would not say where
something is. The ImageGPT itself does not change. μ and σ are those of the training images.
"""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from glassformer.config import Count
from glassformer.errors import GlassformerError
from glassformer.models.image_gpt import ImageGPT, ImageGPTConfig
from glassformer.models.labeller import LabelsConfig, TextClassifier


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
    """(layers + 1,) of probes on every layer, on the held-out images."""
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
        chosen = self.pooled(ids)[:, int(self.layer)]  # (B, D)
        return (chosen - self.mean) / self.deviation
