"""What all models with a linear head have in common."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError


class HeadedModel(nn.Module):
    """A model whose last layer is `head`."""

    head: nn.Linear
    vocabulary_layers: ClassVar[tuple[str, ...]] = ()
    """Layers with an output for each token of a vocabulary, which may be quantised."""

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def token_vectors(self) -> Tensor:
        """The vector of each token before any layer: (V, D)."""
        return self.get_parameter("embedding.weight")

    @staticmethod
    def needed(vocab_size: int | None, model: str) -> int:
        """The size of the vocabulary, which only a recipe may leave open."""
        if vocab_size is None:
            raise GlassformerError(f"{model} needs vocab_size, the number of tokens.")
        return vocab_size
