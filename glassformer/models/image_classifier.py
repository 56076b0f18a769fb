"""What all classifiers of images have in common.

logits = head(dropout(represent(pixels)))         (B, C, H, W) → (B, number of labels)
"""

from abc import abstractmethod

from torch import Tensor

from glassformer.models.labeller import Labeller, LabelsConfig
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import Tap
from glassformer.nn.patches import Grid


class ImageClassifier(Labeller):
    """Labels an image: `represent` returns (B, D), `forward` (B, number of labels)."""

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
        """Its attention, from the first layer to the last, and the grid on which each works."""

    @property
    def pooling_tap(self) -> Tap | None:
        """Where the weights (B, N) of a pooling that is no plain mean can be observed."""
        return None

    @abstractmethod
    def represent(self, pixels: Tensor, is_text: Tensor | None = None) -> Tensor:
        """The input of the head. Images have no padding, so there is no `is_text`."""
