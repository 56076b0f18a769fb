"""A linear probe on an ImageGPT: what does one of its layers know about an image?

logits = head((mean over all pixels of the states after layer l - μ) / σ)       (B, C)

The ImageGPT itself does not change. μ and σ are those of the training images.
"""

import torch
from torch import Tensor

from glassformer.models.image_gpt import ImageGPT, ImageGPTConfig
from glassformer.models.labeller import LabelsConfig, TextClassifier


class ImageGPTProbeConfig(ImageGPTConfig, LabelsConfig):
    """The shape of an ImageGPT, and the labels of images."""


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
        super().__init__(config, config.d_model, config.context_length)
        self.gpt = ImageGPT(config)
        del self.gpt.head  # it predicts colours: it would be saved without being used
        self.register_buffer("layer", torch.tensor(float(config.num_layers)))
        self.register_buffer("accuracies", torch.zeros(config.num_layers + 1))
        self.register_buffer("mean", torch.zeros(config.d_model))
        self.register_buffer("deviation", torch.ones(config.d_model))

    def pooled(self, colors: Tensor) -> Tensor:
        """The mean state of every layer: colours (B, P) → (B, layers + 1, D)."""
        # Without the start token, as transformers' classifier does: so the last pixel is read, too.
        return torch.stack([states.mean(dim=1) for states in self.gpt.layers(colors)], dim=1)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Images have no padding, so `is_text` is not needed."""
        chosen = self.pooled(ids)[:, int(self.layer)]  # (B, D)
        return (chosen - self.mean) / self.deviation
