"""What all classifiers of images have in common.

logits = head(dropout(represent(pixels)))         (B, C, H, W) → (B, number of labels)
"""

from abc import abstractmethod

from torch import Tensor

from glassformer.models.labeller import Labeller, LabelsConfig


class ImageClassifier(Labeller):
    """Labels an image: `represent` returns (B, D), `forward` (B, number of labels)."""

    default_context = None

    def __init__(self, config: LabelsConfig, width: int) -> None:
        super().__init__(config, width, context_length=None)

    @abstractmethod
    def represent(self, pixels: Tensor, is_text: Tensor | None = None) -> Tensor:
        """The input of the head. Images have no padding, so there is no `is_text`."""
