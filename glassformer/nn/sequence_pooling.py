"""Sequence pooling: a weighted mean of a sequence, with weights that depend on its vectors.

weights = softmax(x · w)            (B, N)
output  = ∑ weights · x             (B, D)
"""

from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.observe import Tap


class SequencePooling(nn.Module):
    """(B, N, D) → (B, D). Its weights can be observed like those of attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = Linear(width, 1)
        self.tap = Tap()

    def forward(self, x: Tensor) -> Tensor:
        weights = self.score(x).softmax(dim=1)  # (B, N, 1)
        if self.tap.is_listening:
            self.tap.hear(weights.squeeze(-1))  # (B, N)
        return (weights.transpose(1, 2) @ x).squeeze(1)  # (B, D)
